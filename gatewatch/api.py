"""HTTP: questions answered; people's actions are gatewatch/acting.py, lines in gatewatch/intake.py.

Roles by token: writer (push), viewer (read), operator (act); see gatewatch/access.py.
Reads: requests. Writes: nothing. Next: gatewatch/service.py.
"""

import threading
from collections.abc import Callable, Mapping
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

from detectors import explain, metrics
from detectors.links import Links
from gatewatch import asking
from gatewatch.access import allowed
from gatewatch.acting import Acting
from gatewatch.body import read_object
from gatewatch.containing import Pauses
from gatewatch.delivering import Delivering
from gatewatch.disk import Disk
from gatewatch.intake import Intake
from gatewatch.keeping import Keeping
from gatewatch.link_pages import LinkPages
from gatewatch.parts import Parts, utc_now
from gatewatch.routing_answers import RoutingAnswers
from gatewatch.trying import Trying
from ingest.config import ConfigError
from ingest.land import BehindError
from ingest.ledger import LedgerError

SQL_SECONDS, SQL_ROWS = 20.0, 200_000
ARROW = "application/vnd.apache.arrow.stream"


class Api:
    """The routes over one set of parts.

    `health` says how the service is; `landed` is called when lines have come; `own` are values of
    metrics.OWN.
    """

    def __init__(
        self, parts: Parts, health: Callable[[], Mapping[str, str]], landed: Callable[[], None],
        disk: Disk, own: Callable[[], Mapping[str, float]] = dict,
    ) -> None:  # fmt: skip
        self._parts, self._health, self._disk, self._own = parts, health, disk, own
        self.intake = Intake(parts, landed, disk)

    def app(self) -> Starlette:
        links = self._parts.desk.links
        routes = [
            *self.intake.routes(),
            *Acting(self._parts).routes(),
            *Delivering(self._parts).routes(),
            *Pauses(self._parts).routes(),
            *(LinkPages(self._parts, links).routes() if isinstance(links, Links) else ()),
            *Keeping(self._parts).routes(),
            *Trying(self._parts).routes(),
            *RoutingAnswers(self._parts).routes(),
            Route("/v1/sql", self.sql, methods=["POST"]),
            Route("/v1/alerts/{alert}/explain", self.explain, methods=["GET"]),
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

    async def sql(self, request: Request) -> Response:
        """One SELECT over our own tables, as an Arrow stream."""
        self._role(request, "viewer")
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

    async def explain(self, request: Request) -> Response:
        self._role(request, "viewer")
        parts = self._parts
        told = await run_in_threadpool(
            explain.explain, parts.store, request.path_params["alert"], parts.detectors
        )
        return Response(msgspec.json.encode(told, enc_hook=str), media_type="application/json")

    async def healthz(self, request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readyz(self, request: Request) -> Response:
        """Red while lines cannot be kept, or a worker has stopped. Why, only viewers are told."""
        found = dict(self._health())
        status = 503 if any(state != "ok" for state in found.values()) else 200
        try:
            self._role(request, "viewer")
        except HTTPException:
            return JSONResponse({"ready": status == 200}, status_code=status)
        return JSONResponse(found, status_code=status)

    async def metrics(self, request: Request) -> Response:
        self._role(request, "viewer")
        own = {
            "gatewatch_intake_stopped": float(self._disk.why is not None),
            "gatewatch_disk_free_bytes": float(self._disk.free),
            **self._own(),
        }
        found = await run_in_threadpool(
            metrics.collected, self._parts.store, self._parts.detectors, self._parts.desk.routes,
            self._parts.lander.head, utc_now(), own=own, sources=self._parts.settings.sources,
        )  # fmt: skip
        page, kind = metrics.written(found, request.headers.get("accept", ""))
        return Response(page, headers={"content-type": kind})

    def _role(self, request: Request, role: str) -> None:
        allowed(request, self._parts.settings.tokens, role)


async def _refused(request: Request, error: HTTPException) -> Response:
    return JSONResponse({"error": error.detail}, error.status_code, headers=error.headers)


async def _mistake(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, status_code=400)


async def _behind(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, status_code=503, headers={"Retry-After": "5"})
