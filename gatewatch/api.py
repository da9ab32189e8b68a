"""HTTP: lines in, questions answered, people's actions taken.

A batch is answered only when it is durable. Roles by token: writer (push), viewer (read), operator
(act). Without tokens everything is allowed, and then only from this machine.
Reads: requests. Writes: through ingest/land.py and detectors/triage.py. Next: gatewatch/service.py.
"""

import hashlib
import hmac
import re
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import duckdb
import msgspec
import pyarrow as pa
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from detectors import explain, metrics, triage
from gatewatch import asking
from gatewatch.body import read_body, read_object
from gatewatch.parts import Parts, utc_now
from ingest.batch import Batch
from ingest.config import ConfigError, nearest
from ingest.land import BehindError
from ingest.ledger import LedgerError
from ingest.parse import elements

LOCAL = {"127.0.0.1", "localhost", "[::1]"}
RANK = {"viewer": 1, "operator": 2}
WAITING = 64  # batches that may wait for the writer; then senders are asked to come back
SQL_SECONDS, SQL_ROWS = 20.0, 200_000
ARROW = "application/vnd.apache.arrow.stream"


class Api:
    """The routes over one set of parts.

    `health` says how the service is; `landed` is called when lines have come.
    """

    def __init__(
        self, parts: Parts, health: Callable[[], Mapping[str, str]], landed: Callable[[], None]
    ) -> None:
        self._parts, self._health, self._landed = parts, health, landed
        self._waiting = 0

    def app(self) -> Starlette:
        routes = [
            Route("/v1/events", self.events, methods=["POST"]),
            Route("/v1/ingest/{source}", self.ingest, methods=["POST"]),
            Route("/v1/sql", self.sql, methods=["POST"]),
            Route("/v1/alerts/{alert}/ack", self.ack, methods=["POST"]),
            Route("/v1/alerts/{alert}/verdict", self.verdict, methods=["POST"]),
            Route("/v1/alerts/{alert}/explain", self.explain, methods=["GET"]),
            Route("/v1/labels", self.labels, methods=["POST"]),
            Route("/v1/mined", self.mined, methods=["POST"]),
            Route("/v1/silences", self.silences, methods=["POST"]),
            Route("/healthz", self.healthz, methods=["GET"]),
            Route("/readyz", self.readyz, methods=["GET"]),
            Route("/metrics", self.metrics, methods=["GET"]),
        ]
        handlers = {
            HTTPException: _refused,
            ConfigError: _mistake,
            explain.UnknownAlertError: _mistake,
            BehindError: _behind,
            LedgerError: _behind,
        }
        return Starlette(routes=routes, exception_handlers=handlers)  # type: ignore[arg-type]

    async def events(self, request: Request) -> Response:
        """Native lines. The source is the token's own, else `http`."""
        token = self._allowed(request, "writer")
        source = token.source if token and token.source else "http"
        known = self._parts.settings.sources.get(source)
        return await self._land(request, source, known.adapter if known else "native")

    async def ingest(self, request: Request) -> Response:
        """Lines of any configured source, by its adapter."""
        token = self._allowed(request, "writer")
        source, known = request.path_params["source"], self._parts.settings.sources
        if token and token.source not in (None, source):
            raise HTTPException(403, f"this token writes to {token.source!r} only.")
        if source not in known:
            raise HTTPException(404, f"no source {source!r}.{nearest(source, known)}")
        return await self._land(request, source, known[source].adapter)

    async def _land(self, request: Request, source: str, adapter: str) -> Response:
        if self._waiting >= WAITING:
            raise HTTPException(429, "the writer is behind.", {"Retry-After": "1"})
        limits = self._parts.settings.limits
        self._waiting += 1
        try:
            body = await read_body(request, limits.body_bytes)
            lines = await run_in_threadpool(elements, body, limits.line_bytes)
            # a key that is used again for other lines must not lose them
            key = request.headers.get("idempotency-key", "sha256")
            key += ":" + hashlib.sha256(body).hexdigest()
            batch = Batch(source, adapter, tuple(lines), key, f"http:{_peer(request)}")
            landed = await run_in_threadpool(self._parts.lander.land, batch, utc_now())
        finally:
            self._waiting -= 1
        self._landed()
        return JSONResponse(msgspec.to_builtins(landed))

    async def sql(self, request: Request) -> Response:
        """One SELECT over our own tables, as an Arrow stream."""
        self._allowed(request, "viewer")
        asked = await read_object(request)
        sql, params = asked.get("sql"), asked.get("params") or {}
        if not isinstance(sql, str) or not isinstance(params, dict):
            raise HTTPException(400, 'expected {"sql": "SELECT ...", "params": {...}}.')
        try:
            data = await run_in_threadpool(self._select, sql, params)
        except duckdb.Error as error:
            raise HTTPException(400, str(error).splitlines()[0]) from None
        return Response(data, media_type=ARROW)

    def _select(self, sql: str, params: dict[str, Any]) -> bytes:
        with self._parts.store.reading() as db:
            asking.check(db, sql)
            timer = threading.Timer(SQL_SECONDS, db.interrupt)
            timer.start()
            try:
                table: pa.Table = (
                    db.sql(sql, params=params or None).limit(SQL_ROWS).to_arrow_table()
                )
            finally:
                timer.cancel()
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return bytes(sink.getvalue())

    async def ack(self, request: Request) -> Response:
        asked = await self._operator(request, ("actor",))
        return await self._act(
            triage.acknowledge,
            request.path_params["alert"],
            asked["actor"],
            asked.get("reason") or "",
        )

    async def verdict(self, request: Request) -> Response:
        asked = await self._operator(request, ("verdict", "actor"))
        alert, reason = request.path_params["alert"], asked.get("reason") or ""
        return await self._act(triage.judge, alert, asked["verdict"], asked["actor"], reason)

    async def _act(self, action: Callable[..., dict[str, Any]], *given: str) -> Response:
        parts = self._parts
        done = await run_in_threadpool(action, parts.store, parts.lander, *given, utc_now())
        return Response(msgspec.json.encode(done, enc_hook=str), media_type="application/json")

    async def silences(self, request: Request) -> Response:
        asked = await self._operator(request, ("until", "actor", "reason"))
        try:
            until = msgspec.convert(asked["until"], datetime)
        except msgspec.ValidationError:
            raise HTTPException(400, "'until' is no time: 2026-03-10T09:00:00Z.") from None
        until = until if until.tzinfo else until.replace(tzinfo=UTC)
        await run_in_threadpool(
            triage.silence, self._parts.store, self._parts.lander, asked.get("detector"),
            asked.get("subject"), until, asked["actor"], asked["reason"], utc_now(),
        )  # fmt: skip
        return JSONResponse({"silenced": True})

    async def labels(self, request: Request) -> Response:
        asked = await self._operator(request, ("actor",))
        rows = asked.get("rows") or []
        await run_in_threadpool(
            triage.label, self._parts.store, self._parts.lander, rows, asked["actor"], utc_now()
        )
        return JSONResponse({"kept": len(rows)})

    async def mined(self, request: Request) -> Response:
        asked = await self._operator(request, ("actor",))
        await run_in_threadpool(
            triage.mined, self._parts.store, self._parts.lander, asked.get("results") or [],
            asked.get("rules") or [], asked["actor"], utc_now(),
        )  # fmt: skip
        return JSONResponse({"kept": True})

    async def explain(self, request: Request) -> Response:
        self._allowed(request, "viewer")
        parts = self._parts
        told = await run_in_threadpool(
            explain.explain, parts.store, request.path_params["alert"], parts.detectors
        )
        return Response(msgspec.json.encode(told, enc_hook=str), media_type="application/json")

    async def healthz(self, request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readyz(self, request: Request) -> Response:
        """Red while lines cannot be kept, or a worker has stopped."""
        found = dict(self._health())
        bad = {name: state for name, state in found.items() if state != "ok"}
        return JSONResponse(found, status_code=503 if bad else 200)

    async def metrics(self, request: Request) -> Response:
        page = await run_in_threadpool(
            metrics.page, self._parts.store, self._parts.detectors, self._parts.routes,
            self._parts.lander.head,
        )  # fmt: skip
        return Response(page, media_type=metrics.CONTENT_TYPE)

    async def _operator(self, request: Request, needed: tuple[str, ...]) -> dict[str, Any]:
        self._allowed(request, "operator")
        asked = await read_object(request)
        for name in needed:
            if not isinstance(asked.get(name), str) or not asked[name].strip():
                raise HTTPException(400, f"{name!r} is missing.")
        for name in ("reason", "detector", "subject"):
            if not isinstance(asked.get(name) or "", str):
                raise HTTPException(400, f"{name!r} is no text.")
        return asked

    def _allowed(self, request: Request, role: str) -> Any:
        """The token that lets this request in. Refuses with 401 or 403."""
        tokens = self._parts.settings.tokens
        if not tokens:  # then a browser page of another origin must not get in either
            host = re.sub(r":\d*$", "", request.headers.get("host", "").lower())
            if host not in LOCAL or "origin" in request.headers:
                raise HTTPException(403, "without tokens only programs on this machine may ask.")
            return None
        given = request.headers.get("authorization", "").removeprefix("Bearer ").encode()
        for token in tokens:
            if hmac.compare_digest(token.token.reveal.encode(), given):
                if token.role == role or RANK.get(token.role, 0) >= RANK.get(role, 9):
                    return token
                raise HTTPException(403, f"the token {token.name!r} is a {token.role}'s.")
        raise HTTPException(401, "no such token.", {"WWW-Authenticate": "Bearer"})


def _peer(request: Request) -> str:
    return request.client.host if request.client else "unknown"


async def _refused(request: Request, error: HTTPException) -> Response:
    return JSONResponse({"error": error.detail}, error.status_code, headers=error.headers)


async def _mistake(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, status_code=400)


async def _behind(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, status_code=503, headers={"Retry-After": "5"})
