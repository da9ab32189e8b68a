"""DingTalk's custom robot, as https://open.dingtalk.com/document/orgapp/custom-robot-access has it.

Every refusal is HTTP 200 with an errcode. Above 20 messages a minute it is mute for ten minutes,
and whoever goes on trying is answered 130101 all the same.
"""

import base64
import hashlib
import hmac
from datetime import datetime, timedelta
from typing import Any

import httpx

from tests import fakes
from tests.kit_markdown import draw

LARGEST = 20_000  # bytes of a body
MUTE = timedelta(minutes=10)
HOUR = timedelta(hours=1)
AT = fakes.table(
    {},
    isAtAll={"type": "boolean"},
    atMobiles={"type": "array", "items": {"type": "string"}},
    atUserIds={"type": "array", "items": {"type": "string"}},
)
BUTTON = fakes.table({"title": fakes.text(), "actionURL": fakes.text()})
SCHEMAS = {
    "text": fakes.table({"content": fakes.text()}),
    "markdown": fakes.table({"title": fakes.text(), "text": fakes.text()}),
    "actionCard": fakes.table(
        {"title": fakes.text(), "text": fakes.text(), "btns": {"type": "array", "items": BUTTON}},
        btnOrientation={"enum": ["0", "1"]},
    ),
}


class Fake(fakes.Fake):
    """A robot that demands both a signature and a keyword."""

    limits = ((20, 60.0),)

    def __init__(self, options: Any = None) -> None:
        super().__init__(options)
        self.mute_until: datetime | None = None
        self.mutes = 0

    def take(self, request: httpx.Request) -> fakes.Seen:
        url, own = request.url, httpx.URL(self.options.address)
        if (request.method, url.host, url.path) != ("POST", own.host, "/robot/send"):
            raise fakes.NoError("no such page", httpx.Response(404, text="<html>404</html>"))
        if url.params.get_list("access_token") != own.params.get_list("access_token"):
            raise _no(300001, "token is not exist")
        self._limit()
        self._signed(url.params)
        if len(request.content) > LARGEST:
            raise _no(460101, f"message too long, exceed {LARGEST} bytes")
        try:
            return self._read(fakes.json_of(request))
        except ValueError as error:
            raise _no(40035, f"缺少参数 json: {error}") from error

    def yes(self, seen: fakes.Seen) -> httpx.Response:
        return httpx.Response(200, json={"errcode": 0, "errmsg": "ok"})

    def _limit(self) -> None:
        if self.mute_until is not None and self.now < self.mute_until:
            raise _no(130101, "send too fast, the robot is muted")
        if self.crowded():
            self.mute_until, self.mutes = self.now + MUTE, self.mutes + 1
            raise _no(130101, "send too fast, exceed 20 times per minute")

    def _signed(self, params: httpx.QueryParams) -> None:
        if self.options.sign_key is None:
            return
        secret = self.options.sign_key.reveal
        said = params.get_list("timestamp")
        if len(said) != 1 or not said[0].isdecimal():
            raise _no(310000, "错误描述: timestamp 无效; 解决方案: 请检查时间戳")
        if abs(float(said[0]) / 1000 - self.now.timestamp()) > HOUR.total_seconds():
            raise _no(310000, "invalid timestamp")
        words = f"{said[0]}\n{secret}".encode()
        right = base64.b64encode(hmac.digest(secret.encode(), words, hashlib.sha256))
        if params.get_list("sign") != [right.decode()]:
            raise _no(310000, "错误描述:签名不匹配;解决方案:请检查签名")

    def _read(self, body: Any) -> fakes.Seen:
        kind = body.get("msgtype") if isinstance(body, dict) else None
        if kind not in SCHEMAS:
            raise ValueError(f"msgtype {kind!r}")
        fakes.check(body, fakes.table({"msgtype": {}, kind: SCHEMAS[kind]}, at=AT))
        inner = body[kind]
        drawn = draw(inner.get("text", inner.get("content", "")))
        buttons = inner.get("btns", [])
        shown = [inner.get("title", ""), drawn.text, *(each["title"] for each in buttons)]
        if not any(self.options.keyword in each for each in shown):
            raise _no(310000, "keywords not in content")
        at = body.get("at", {})
        everybody = ("all",) if at.get("isAtAll") else ()
        named = (*at.get("atMobiles", ()), *at.get("atUserIds", ()))
        return fakes.Seen(
            at=self.now,
            text="\n".join(shown),
            pinged=(*everybody, *named, *drawn.mentions),
            links=(*drawn.links, *(each["actionURL"] for each in buttons)),
            marks=(*drawn.tags, *drawn.headings, *drawn.strong),
        )


def _no(code: int, text: str) -> fakes.NoError:
    answer = httpx.Response(200, json={"errcode": code, "errmsg": text})
    return fakes.NoError(f"{code}: {text}", answer)
