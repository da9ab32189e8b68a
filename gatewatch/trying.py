"""Questions about what detectors would say: backtests, other values, why not. Nothing is kept.

The same functions answer on the command line and in a running service, where each has a reading
cursor and a limit of time.
Reads: the tables. Writes: nothing. Next: gatewatch/commands/tuning.py.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb
import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from detectors import engine, trial, whatif, whynot
from detectors.apart import Apart
from detectors.detector import Detector
from detectors.ranges import Range
from gatewatch.access import allowed
from gatewatch.body import read_object
from gatewatch.parts import Parts, utc_now
from ingest.config import ConfigError, nearest
from ingest.policy import Controls
from ingest.store import Db

SECONDS, GRACE = 300.0, 1.0  # of one question to a running service, and to end it
AT_ONCE = 2  # questions: each takes a core, and landing and judging need theirs
AROUND = timedelta(days=31)  # the longest that why-not looks around
FOUND = 10_000  # alerts that one answer lists; the counts are of all
LATER = timedelta(days=31)  # after the last event, or now, no window closes any more
Answer = dict[str, Any]


class Backtest(msgspec.Struct, forbid_unknown_fields=True):
    """What one pass over [since, until) would find. None: from the first event, until now."""

    since: datetime | None = None
    until: datetime | None = None
    only: list[str] = []
    sets: list[str] = []  # name=value, detector.name=value


class Tune(msgspec.Struct, forbid_unknown_fields=True):
    detector: str
    since: datetime | None = None
    until: datetime | None = None
    param: str | None = None
    values: list[str] = []


class WhyNot(msgspec.Struct, forbid_unknown_fields=True):
    detector: str
    subject: str
    ts: datetime
    around_seconds: float = 1800.0


class Otherwise(msgspec.Struct, forbid_unknown_fields=True):
    """Which past calls another policy would have decided otherwise."""

    policy: Controls
    since: datetime | None = None
    until: datetime | None = None


def backtest(parts: Parts, db: Db, asked: Backtest) -> Answer:
    """`{"alerts": [...], "counts": [...]}`. Raises ConfigError."""
    chosen, own = only(parts.detectors, asked.only), parts.settings.detectors
    sets = trial.assigned(asked.sets, chosen)
    for name in sets:
        chosen[name] = trial.varied(chosen[name], db, own, sets[name])
    span = _span(db, asked.since, asked.until)
    if span is None:
        return {"alerts": [], "counts": [], "total": 0}
    found = trial.over(db, chosen.values(), span)
    shown = [asdict(each) for each in found[-FOUND:]]
    return {"alerts": shown, "counts": trial.counts(db, found, span), "total": len(found)}


def tune(parts: Parts, db: Db, asked: Tune) -> Answer:
    """`{"steps": [...]}`, one a value: see detectors/trial.py. Raises ConfigError."""
    [each] = only(parts.detectors, [asked.detector], "").values()
    span = _span(db, asked.since, asked.until)
    own = parts.settings.detectors
    steps = trial.tune(db, each, own, span, asked.param, asked.values) if span else ()
    return {"detector": each.id, "steps": [asdict(step) for step in steps]}


def why_not(parts: Parts, db: Db, asked: WhyNot) -> Answer:
    """See detectors/whynot.py. Raises ConfigError."""
    if not 0 < asked.around_seconds <= AROUND.total_seconds():
        raise ConfigError(f"around: more than nothing, and up to {AROUND.days} days.")
    around, ts = timedelta(seconds=asked.around_seconds), _aware(asked.ts) or asked.ts
    return whynot.why_not(
        db, asked.detector, asked.subject, ts, parts.detectors, parts.settings.detectors,
        around,
    )  # fmt: skip


def otherwise(parts: Parts, db: Db, asked: Otherwise) -> Answer:
    """See detectors/whatif.py."""
    span = _span(db, asked.since, asked.until) or (utc_now(), utc_now())
    return whatif.what_if(db, asked.policy, *span).as_dict()


ROUTES: dict[str, tuple[type[msgspec.Struct], Callable[[Parts, Db, Any], Answer]]] = {
    "/v1/backtest": (Backtest, backtest),
    "/v1/tune": (Tune, tune),
    "/v1/why-not": (WhyNot, why_not),
    "/v1/what-if": (Otherwise, otherwise),
}


def only(
    detectors: Mapping[str, Detector], names: list[str], where: str = "--only: "
) -> dict[str, Detector]:
    """The detectors of these names; all without any. Raises ConfigError for an unknown one."""
    for name in names:
        if name not in detectors:
            raise ConfigError(f"{where}no detector {name!r}.{nearest(name, detectors)}")
    return {name: detectors[name] for name in names or detectors}


class Trying:
    """What a running service does of this when it is asked."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._free = threading.BoundedSemaphore(AT_ONCE)

    def routes(self) -> list[Route]:
        return [Route(path, self._answer, methods=["POST"]) for path in ROUTES]

    async def _answer(self, request: Request) -> Response:
        allowed(request, self._parts.settings.tokens, "viewer")
        kind, function = ROUTES[request.url.path]
        try:
            asked = msgspec.convert(await read_object(request), kind)
        except msgspec.ValidationError as error:
            raise HTTPException(400, f"{error}.") from None
        if not self._free.acquire(blocking=False):
            raise HTTPException(503, "others are asking: try again.", {"Retry-After": "10"})
        told = await run_in_threadpool(self._ask, function, asked)
        return Response(msgspec.json.encode(told, enc_hook=str), media_type="application/json")

    def _ask(self, function: Callable[[Parts, Db, Any], Answer], asked: msgspec.Struct) -> Answer:
        parts = self._parts
        try:
            apart = Apart(parts.store, "asked", lambda db: function(parts, db, asked))
            if apart.wait(SECONDS):
                return apart.result()
            if not apart.end(GRACE):
                apart.leave()
            raise HTTPException(400, f"not answered within {SECONDS:.0f} seconds.")
        except duckdb.Error as error:
            raise HTTPException(400, str(error).splitlines()[0]) from None
        except (OverflowError, UnicodeError):
            raise HTTPException(400, "a time, or a text, that nothing can have.") from None
        finally:
            self._free.release()


def _span(db: Db, since: datetime | None, until: datetime | None) -> Range | None:
    """Up to now without `until`, as live judging does: a window may close after the last event."""
    whole = engine.history(db)
    if whole is None:
        return None
    low = max(_aware(since) or whole[0], whole[0])  # a day without history is none without alerts
    last = max(whole[1], utc_now())
    return low, max(min(_aware(until) or last, last + LATER), low)


def _aware(moment: datetime | None) -> datetime | None:
    return moment.replace(tzinfo=UTC) if moment and moment.tzinfo is None else moment
