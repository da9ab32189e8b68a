"""How long lines are kept, and how they leave: pruning, compacting, and whole days going out.

One pruning at a time; the service does it every day where [retention] is set.
Reads: gatewatch.toml. Writes: through ingest/prune.py. Next: gatewatch/commands/ledger.py.
"""

import re
import threading
from collections.abc import Iterator
from datetime import date, datetime
from typing import Any

import msgspec
import pyarrow as pa
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from gatewatch.access import allowed
from gatewatch.body import read_object
from gatewatch.parts import Parts, utc_now
from ingest import prune
from ingest.config import Retention
from ingest.export import TIMES, StoreDays

ARROW = "application/vnd.apache.arrow.stream"
_one_at_a_time = threading.Lock()


def pruned(
    parts: Parts, now: datetime, before: datetime | None = None, dry_run: bool = False
) -> dict[str, Any]:
    """Prune what is due, or say what would be: lines and segments, and bytes on disk.

    Raises ConfigError where `before` is later than [retention] allows.
    """
    keep = parts.settings.retention or Retention()  # R1.3 where nothing is configured
    reach = {each.id: each.lookback for each in parts.detectors.values()}
    with _one_at_a_time:
        size = {"before": sizes(parts)}
        if dry_run:
            limits = prune.limits(keep, reach, now, before)
            plan = prune.plan(parts.store, parts.ledger, *limits)
            kept = sum(len(plan.of(each)) for each in plan.pieces)
            return {"pruned": False, "lines": plan.lines, "kept": kept,
                    "segments": len(plan.pieces), "bytes": size}  # fmt: skip
        done = prune.prune(parts.store, parts.lander, keep, reach, now, before)
        left = done.left if done else ()
        return {"pruned": done is not None, "lines": done.lines if done else 0,
                "kept": sum(each.count for each in left), "segments": len(left),
                "bytes": size | {"after": sizes(parts)}}  # fmt: skip


def check(parts: Parts) -> None:
    """Raises ConfigError where [retention] asks for less than detectors need."""
    if parts.settings.retention is not None:
        reach = {each.id: each.lookback for each in parts.detectors.values()}
        prune.limits(parts.settings.retention, reach, utc_now(), None)


def sizes(parts: Parts) -> dict[str, int]:
    """Bytes on disk, of the database and of the ledger."""
    path = parts.store.path
    files = [path, path.with_name(path.name + ".wal")] if path else []
    return {
        "database": sum(each.stat().st_size for each in files if each.exists()),
        "ledger": sum(
            each.stat().st_size for each in parts.ledger.folder.rglob("*") if each.is_file()
        ),
    }


class Keeping:
    """What a running service does of this when it is asked."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def routes(self) -> list[Route]:
        return [
            Route("/v1/prune", self.prune, methods=["POST"]),
            Route("/v1/head", self.head, methods=["GET"]),
            Route("/v1/days/{table}/{day}", self.day, methods=["GET"]),
        ]

    async def prune(self, request: Request) -> Response:
        """Prune now, or with `dry_run` say what would go."""
        allowed(request, self._parts.settings.tokens, "operator")
        asked = await read_object(request)
        try:
            before = msgspec.convert(asked.get("before"), datetime | None)
        except msgspec.ValidationError:
            raise HTTPException(400, "'before' is no time: 2026-03-10T00:00:00Z.") from None
        done = await run_in_threadpool(
            pruned, self._parts, utc_now(), before, bool(asked.get("dry_run"))
        )
        return JSONResponse(done)

    async def head(self, request: Request) -> Response:
        """Where the chain stands."""
        allowed(request, self._parts.settings.tokens, "viewer")
        seq, head = self._parts.lander.head
        return JSONResponse({"seq": seq, "head": head})

    async def day(self, request: Request) -> Response:
        """The rows of one table and day, all of them, as an Arrow stream; the schema says how
        many."""
        allowed(request, self._parts.settings.tokens, "viewer")
        table, text = request.path_params["table"], request.path_params["day"]
        if table not in TIMES or not re.fullmatch(r"\d{4}-\d\d-\d\d", text):
            raise HTTPException(404, "no such table, or no day: 2026-03-10.")
        try:
            day = date.fromisoformat(text)
        except ValueError:
            raise HTTPException(404, f"{text!r} is no day.") from None
        return StreamingResponse(_stream(self._parts, table, day), media_type=ARROW)


class _Sink:
    """Takes what the Arrow writer writes, and gives it on."""

    closed = False

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, data: Any) -> int:
        self._parts.append(bytes(data))
        return len(self._parts[-1])

    def flush(self) -> None:
        """Nothing waits."""

    def taken(self) -> bytes:
        data = b"".join(self._parts)
        self._parts.clear()
        return data


def _stream(parts: Parts, table: str, day: date) -> Iterator[bytes]:
    sink = _Sink()
    with StoreDays(parts.store).day(table, day) as given:
        schema = given.schema.with_metadata({"rows": str(given.count)})
        with pa.ipc.new_stream(sink, schema) as writer:
            for batch in given.batches:
                writer.write_batch(batch.replace_schema_metadata(schema.metadata))
                yield sink.taken()
    yield sink.taken()
