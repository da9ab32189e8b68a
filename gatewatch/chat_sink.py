"""A chat service on this machine: takes what receivers send, checks it, shows it, keeps it.

It answers as the real ones do: a webhook's 2xx, Slack's `ok`, DingTalk's `errcode`. A webhook
message whose Standard Webhooks signature is wrong is refused with 401, a DingTalk one with 310000.
Reads: HTTP requests. Writes: chat.ndjson. Next: gatewatch/demo.py.
"""

import base64
import binascii
import hashlib
import hmac
import html
import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

BODY = 1 << 20  # bytes of a request
SKEW = 300  # seconds that a signature may be old
PAGE = """<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="3">
<title>Chat</title><style>body{{font:15px/1.45 system-ui,sans-serif;max-width:46em;margin:2em auto;
padding:0 1em;color:#111827}}article{{border:1px solid #d5d9e0;border-radius:6px;padding:.6em 1em;
margin:.8em 0}}small{{color:#5b6472}}pre{{white-space:pre-wrap;overflow-wrap:anywhere;font:inherit;
margin:.3em 0 0}}</style><h1>Chat</h1><p>{count} messages, the newest first.</p>{articles}"""
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
ARTICLE = "<article><small>{service} · {at}</small><pre>{text}</pre></article>"


@dataclass(frozen=True)
class Arrived:
    """One message. `seconds` is monotonic; `repeat`: the same id was taken before."""

    service: str  # webhook | slack | dingtalk
    at: str  # RFC 3339
    seconds: float
    accepted: bool
    repeat: bool
    body: dict[str, Any]


class ChatSink:
    """Listens from `start()` to `stop()`. `heard` is called for each message, from any thread."""

    def __init__(
        self, port: int, secret: str, clock: Callable[[], datetime], keep: Path | None = None,
        heard: Callable[[Arrived], None] = lambda _: None,
    ) -> None:  # fmt: skip
        self.messages: list[Arrived] = []
        self._secret, self._clock, self._keep, self._heard = secret, clock, keep, heard
        self._ids: set[str] = set()
        self._turn = threading.Lock()
        handler = _handler(self._take, self._page)
        self._server = ThreadingHTTPServer(("127.0.0.1", port), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.1,), name="chat", daemon=True
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    def _take(self, target: str, headers: Mapping[str, str], body: bytes) -> tuple[int, str, str]:
        """Status, content type and text of the answer."""
        parts = urlsplit(target)
        service = parts.path.strip("/").partition("/")[0]
        now = self._clock()
        match service:
            case "webhook":
                good, key = self._signed(headers, body, now), headers.get("webhook-id", "")
            case "dingtalk":
                good, key = dingtalk_signed(parts.query, self._secret, now), ""
            case "slack":
                good, key = True, ""
            case _:
                return HTTPStatus.NOT_FOUND, "text/plain", "no such service"
        found = _object(body)
        if found is None:
            return HTTPStatus.BAD_REQUEST, "text/plain", "invalid_payload"
        self._note(service, good, key, found, now)
        return _answer(service, good)

    def _signed(self, headers: Mapping[str, str], body: bytes, now: datetime) -> bool:
        """The signature of Standard Webhooks 1.0.0, over id, time and body."""
        given = headers.get("webhook-signature", "").split()
        sent = headers.get("webhook-timestamp", "")
        if not sent.isdecimal() or abs(now.timestamp() - int(sent)) > SKEW:
            return False
        try:
            key = base64.b64decode(self._secret.removeprefix("whsec_"), validate=True)
        except binascii.Error:
            return False
        signed = f"{headers.get('webhook-id', '')}.{sent}.".encode() + body
        wanted = "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
        return any(hmac.compare_digest(each.encode(), wanted.encode()) for each in given)

    def _note(
        self, service: str, good: bool, key: str, body: dict[str, Any], now: datetime
    ) -> None:
        with self._turn:
            repeat = bool(key) and key in self._ids
            self._ids.add(key)
            at = now.isoformat(timespec="milliseconds")
            message = Arrived(service, at, time.monotonic(), good, repeat, body)
            self.messages.append(message)
            if self._keep is not None:
                with self._keep.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(message), ensure_ascii=False) + "\n")
        self._heard(message)

    def _page(self) -> str:
        with self._turn:
            shown = list(reversed(self.messages))
        articles = "".join(
            ARTICLE.format(service=each.service, at=each.at, text=html.escape(text_of(each)))
            for each in shown[:200]
        )
        return PAGE.format(count=len(shown), articles=articles)


Take = Callable[[str, Mapping[str, str], bytes], tuple[int, str, str]]


def _handler(take: Take, page: Callable[[], str]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            length = self.headers.get("content-length", "")
            if not length.isdecimal() or int(length) > BODY:
                self.close_connection = True
                self._say(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "text/plain", "too large")
                return
            headers = {name.lower(): value for name, value in self.headers.items()}
            self._say(*take(self.path, headers, self.rfile.read(int(length))))

        def do_GET(self) -> None:
            if self.path == "/":
                self._say(HTTPStatus.OK, "text/html; charset=utf-8", page())
            else:
                self._say(HTTPStatus.NOT_FOUND, "text/plain", "no such page")

        def _say(self, status: int, kind: str, text: str) -> None:
            data = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.send_header("Content-Security-Policy", POLICY)
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *given: object) -> None:
            """Nothing: the terminal shows the messages, not the requests."""

    return Handler


def dingtalk_signed(query: str, secret: str, now: datetime) -> bool:
    """`timestamp` and `sign` as a DingTalk robot checks them."""
    given = parse_qs(query)
    millis, sign = given.get("timestamp", [""])[0], given.get("sign", [""])[0]
    if not millis.isdecimal() or abs(now.timestamp() - int(millis) / 1000) > 3600:
        return False
    digest = hmac.digest(secret.encode(), f"{millis}\n{secret}".encode(), hashlib.sha256)
    return hmac.compare_digest(base64.b64encode(digest).decode(), sign)


def text_of(message: Arrived) -> str:
    """What a person would read."""
    body = message.body
    match message.service:
        case "webhook":
            data = body.get("data", {})
            facts = [f"{name}: {value}" for name, value in data.get("facts", {}).items()]
            head = f"{data.get('severity', '')} {data.get('kind', '')} · {data.get('title', '')}"
            return "\n".join([head, *facts, *data.get("evidence", []), data.get("link", "")])
        case "dingtalk":
            return str(body.get("markdown", {}).get("text", ""))
        case _:  # Slack shows an entity as the character that it stands for
            blocks = "\n".join(_block(each) for each in body.get("blocks", []))
            return html.unescape(blocks or str(body.get("text")))


def _block(block: Mapping[str, Any]) -> str:
    head = [str(block["text"].get("text", ""))] if "text" in block else []
    fields = [str(each.get("text", "")).replace("\n", ": ", 1) for each in block.get("fields", [])]
    return "\n".join([*head, *fields])


def _answer(service: str, good: bool) -> tuple[int, str, str]:
    match service, good:
        case "webhook", True:
            return HTTPStatus.OK, "application/json", '{"ok": true}'
        case "webhook", False:
            return HTTPStatus.UNAUTHORIZED, "application/json", '{"error": "wrong signature"}'
        case "slack", _:
            return HTTPStatus.OK, "text/html", "ok"
        case _, True:
            return HTTPStatus.OK, "application/json", '{"errcode": 0, "errmsg": "ok"}'
    return HTTPStatus.OK, "application/json", '{"errcode": 310000, "errmsg": "sign not match"}'


def _object(body: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
