"""HTTP: what people do about alerts. Role operator; to look needs viewer.

`POST /v1/alerts/{alert}/ack`, `verdict`, `reopen`, `assign`, `comment`: `{"actor", ...}`, answered
with the alert as it then is. `GET` and `POST /v1/silences`, `POST /v1/silences/preview` and
`POST /v1/silences/{silence}/end` (or DELETE): silences. `POST /v1/labels` and `/v1/mined`: what
imports and the miner bring.
Reads: requests. Writes: through detectors/triage.py, silences.py. Next: gatewatch/api.py.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from detectors import silences, triage
from gatewatch.access import allowed
from gatewatch.body import read_object
from gatewatch.parts import Parts, utc_now
from ingest.config import Token

TEXTS = ("reason", "to", "text", *silences.Matchers.__struct_fields__)  # that a body may hold
MATCHERS = silences.Matchers.__struct_fields__


async def operator(
    request: Request, tokens: Sequence[Token], needed: tuple[str, ...]
) -> dict[str, Any]:
    """What an operator asks: a JSON object with these texts in it. Raises HTTPException."""
    allowed(request, tokens, "operator")
    asked = await read_object(request)
    for name in needed:
        if not isinstance(asked.get(name), str) or not asked[name].strip():
            raise HTTPException(400, f"{name!r} is missing.")
    for name in TEXTS:
        if not isinstance(asked.get(name) or "", str):
            raise HTTPException(400, f"{name!r} is no text.")
    return asked


class Acting:
    """The routes over one set of parts."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def routes(self) -> list[Route]:
        return [
            Route("/v1/alerts/{alert}/ack", self.ack, methods=["POST"]),
            Route("/v1/alerts/{alert}/verdict", self.verdict, methods=["POST"]),
            Route("/v1/alerts/{alert}/reopen", self.reopen, methods=["POST"]),
            Route("/v1/alerts/{alert}/assign", self.assign, methods=["POST"]),
            Route("/v1/alerts/{alert}/comment", self.comment, methods=["POST"]),
            Route("/v1/silences", self.listed, methods=["GET"]),
            Route("/v1/silences", self.silence, methods=["POST"]),
            Route("/v1/silences/preview", self.preview, methods=["POST"]),
            Route("/v1/silences/{silence}/end", self.end, methods=["POST"]),
            Route("/v1/silences/{silence}", self.end, methods=["DELETE"]),
            Route("/v1/labels", self.labels, methods=["POST"]),
            Route("/v1/mined", self.mined, methods=["POST"]),
        ]

    async def ack(self, request: Request) -> Response:
        """`{"actor", "reason"?}`"""
        asked = await self._asked(request, "actor")
        return await self._alert(request, triage.acknowledge, asked["actor"], _reason(asked))

    async def verdict(self, request: Request) -> Response:
        """`{"actor", "verdict", "reason"?}`"""
        asked = await self._asked(request, "actor", "verdict")
        given = asked["verdict"], asked["actor"], _reason(asked)
        return await self._alert(request, triage.judge, *given)

    async def reopen(self, request: Request) -> Response:
        """`{"actor", "reason"?}`"""
        asked = await self._asked(request, "actor")
        return await self._alert(request, triage.reopen, asked["actor"], _reason(asked))

    async def assign(self, request: Request) -> Response:
        """`{"actor", "to", "reason"?}`; an empty `to` takes it from whoever had it."""
        asked = await self._asked(request, "actor")
        given = asked.get("to") or "", asked["actor"], _reason(asked)
        return await self._alert(request, triage.assign, *given)

    async def comment(self, request: Request) -> Response:
        """`{"actor", "text"}`"""
        asked = await self._asked(request, "actor", "text")
        return await self._alert(request, triage.comment, asked["text"], asked["actor"])

    async def listed(self, request: Request) -> Response:
        """Those in force, and those that ended in the last seven days, as a list."""
        allowed(request, self._parts.settings.tokens, "viewer")
        return _json(await run_in_threadpool(silences.listed, self._parts.store, utc_now()))

    async def preview(self, request: Request) -> Response:
        """Matchers as of a silence: what it would hide, see silences.preview."""
        allowed(request, self._parts.settings.tokens, "viewer")
        wanted = self._matchers(await read_object(request))
        tags = silences.tags(self._parts.detectors)
        return _json(
            await run_in_threadpool(silences.preview, self._parts.store, wanted, tags, utc_now())
        )

    async def silence(self, request: Request) -> Response:
        """`{"actor", "reason", "until", and at least one matcher}`: the silence that was made."""
        asked = await self._asked(request, "until", "actor", "reason")
        try:
            until = msgspec.convert(asked["until"], datetime)
        except msgspec.ValidationError:
            raise HTTPException(400, "'until' is no time: 2026-03-10T09:00:00Z.") from None
        until = until if until.tzinfo else until.replace(tzinfo=UTC)
        given = self._matchers(asked), until, asked["actor"], asked["reason"]
        return await self._done(silences.add, *given)

    async def end(self, request: Request) -> Response:
        """`{"actor"}`: it is over now."""
        asked = await self._asked(request, "actor")
        return await self._done(silences.end, request.path_params["silence"], asked["actor"])

    async def labels(self, request: Request) -> Response:
        """`{"actor", "rows"}`"""
        asked = await self._asked(request, "actor")
        rows = asked.get("rows") or []
        await run_in_threadpool(
            triage.label, self._parts.store, self._parts.lander, rows, asked["actor"], utc_now()
        )
        return JSONResponse({"kept": len(rows)})

    async def mined(self, request: Request) -> Response:
        """`{"actor", "results", "rules"}`"""
        asked = await self._asked(request, "actor")
        await run_in_threadpool(
            triage.mined, self._parts.store, self._parts.lander, asked.get("results") or [],
            asked.get("rules") or [], asked["actor"], utc_now(),
        )  # fmt: skip
        return JSONResponse({"kept": True})

    async def _asked(self, request: Request, *needed: str) -> dict[str, Any]:
        return await operator(request, self._parts.settings.tokens, needed)

    def _matchers(self, asked: dict[str, Any]) -> silences.Matchers:
        given = {name: asked[name] for name in MATCHERS if asked.get(name)}
        return silences.matchers(given, self._parts.detectors, "silence")

    async def _alert(
        self, request: Request, action: Callable[..., dict[str, Any]], *given: str
    ) -> Response:
        return await self._done(action, request.path_params["alert"], *given)

    async def _done(self, action: Callable[..., dict[str, Any]], *given: Any) -> Response:
        parts = self._parts
        done = await run_in_threadpool(action, parts.store, parts.lander, *given, utc_now())
        return _json(done)


def _reason(asked: dict[str, Any]) -> str:
    return asked.get("reason") or ""


def _json(found: object) -> Response:
    return Response(msgspec.json.encode(found, enc_hook=str), media_type="application/json")
