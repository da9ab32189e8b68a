"""What the senders of each format expect to hear, and how their bodies become lines.

Most want a 2xx and read no further. OTLP has answers of its own; a hook's answer may change what an
agent does, so it says nothing.
Reads: bodies. Writes: nothing. Next: gatewatch/intake.py.
"""

from collections.abc import Mapping
from typing import Literal

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from gatewatch.crowd import ENVELOPE, PLAIN, RECORDS, crowded, crowded_protobuf
from ingest import otlp
from ingest.adapter import Header
from ingest.apply import Landed
from ingest.batch import Line
from ingest.config import Limits
from ingest.cut import of_body

HOOK_SECONDS = 2.0  # the agent stands still meanwhile
PROTOBUF = "application/x-protobuf"
JSON = ("", "application/json", "application/x-ndjson")  # what OTLP in JSON may call itself


class Answers:
    """Of the formats that have no wishes: what became of each batch, as JSON.

    `patience`: seconds until a sender is told that its lines are not kept yet; None: any time.
    `key`: begins the key of a batch whose sender gave it none; None where equal bodies are
    different events, because no sender of the format sends anything twice.
    """

    patience: float | None = None
    key: str | None = "sha256"

    def lines(
        self, body: bytes, headers: Mapping[str, str], format: Header, limits: Limits
    ) -> list[Line]:
        """The lines of a body. Raises HTTPException when the body cannot be one of the format."""
        levels = PLAIN if format.envelope is None else ENVELOPE
        _bounded(crowded(body, limits.body_lines, levels), limits)
        return of_body(body, format, limits.line_bytes)

    def kept(self, request: Request, landed: Landed) -> Response:
        return JSONResponse(msgspec.to_builtins(landed))

    def refused(
        self, request: Request, status: int, why: str, headers: Mapping[str, str] | None
    ) -> Response:
        return JSONResponse({"error": why}, status, headers=headers)


class Hooks(Answers):
    """An empty object decides nothing, adds nothing to the context, and lets the agent go on.

    A refusal is no decision either: the agent goes on, unless its user has set `onFailure`.
    """

    patience = HOOK_SECONDS
    key = None

    def kept(self, request: Request, landed: Landed) -> Response:
        return JSONResponse({})


class Otlp(Answers):
    """https://opentelemetry.io/docs/specs/otlp/#otlphttp: clients repeat 429, 502, 503 and 504."""

    def __init__(self, signal: Literal["logs", "traces"]) -> None:
        self._signal: Literal["logs", "traces"] = signal

    def lines(
        self, body: bytes, headers: Mapping[str, str], format: Header, limits: Limits
    ) -> list[Line]:
        kind = _kind(headers)
        if kind != PROTOBUF and kind not in JSON:
            raise HTTPException(415, f"content-type {kind!r}: send {PROTOBUF} or {JSON[1]}.")
        if kind == PROTOBUF:
            _bounded(crowded_protobuf(body, limits.body_lines, self._signal), limits)
        else:
            _bounded(crowded(body, limits.body_lines, RECORDS), limits)
        try:
            return otlp.lines(body, kind == PROTOBUF, self._signal, limits.line_bytes)
        except otlp.OtlpError as error:
            raise HTTPException(400, str(error)) from None

    def kept(self, request: Request, landed: Landed) -> Response:
        protobuf, bad = _kind(request.headers) == PROTOBUF, landed.quarantined
        why = f"{bad} of {landed.lines} records gave no event; they are in quarantine."
        body = otlp.answer(protobuf, self._signal, bad, why if bad else "")
        return _typed(body, 200, protobuf, None)

    def refused(
        self, request: Request, status: int, why: str, headers: Mapping[str, str] | None
    ) -> Response:
        protobuf = _kind(request.headers) == PROTOBUF
        return _typed(otlp.status_body(protobuf, why), status, protobuf, headers)


_PLAIN = Answers()
_OF: dict[str, Answers] = {
    "claude_hooks": Hooks(),
    "otlp_logs": Otlp("logs"),
    "otlp_spans": Otlp("traces"),
}


def answers_of(adapter: str) -> Answers:
    """How the senders of an adapter's format are answered."""
    return _OF.get(adapter, _PLAIN)


def _bounded(crowd: bool, limits: Limits) -> None:
    if crowd:
        raise HTTPException(413, f"more than {limits.body_lines} lines: send smaller batches.")


def _kind(headers: Mapping[str, str]) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def _typed(body: bytes, status: int, protobuf: bool, headers: Mapping[str, str] | None) -> Response:
    kind = PROTOBUF if protobuf else "application/json"
    return Response(body, status, media_type=kind, headers=dict(headers or {}))
