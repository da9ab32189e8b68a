"""HTTP: pauses. To order one, or to let go, needs the role operator; to look, viewer.

`POST /v1/pauses`: `{"actor", "target"? or "alert"?, "kind"?, "tenant"?, "for"? or "until"?,
"reason"?}`; with an alert alone its agent is meant. `POST /v1/pauses/preview`: the same, and says
who would be asked what. `POST /v1/pauses/{pause}/resume`: `{"actor", "reason"?}`. `GET /v1/pauses`:
a row a gate, with `?alert=` or `?pause=`.
Reads: requests. Writes: through detectors/pauses.py. Next: gatewatch/link_pages.py.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from detectors import applying, containing, pauses
from detectors.applying import passport
from detectors.containment import Gate, Whom, chosen
from detectors.pauses import Wish
from gatewatch.access import allowed
from gatewatch.acting import operator
from gatewatch.body import read_object
from gatewatch.parts import Parts, utc_now
from ingest.config import ConfigError, Duration, nearest

TEXTS = ("target", "kind", "tenant", "for", "until", "alert")  # that a body may hold
SHORT = {"m": "minutes", "h": "hours", "d": "days"}


@dataclass(frozen=True)
class Plan:
    """What would be asked of whom."""

    whom: Whom
    until: datetime
    gates: tuple[Gate, ...]
    alert: Mapping[str, Any] | None

    def told(self) -> dict[str, Any]:
        """For the person who is to say yes."""
        asked = [{"gate": gate.name, "where": gate.where} for gate in self.gates]
        return {
            "kind": self.whom.kind, "name": self.whom.name, "tenant": self.whom.tenant,
            "until": self.until, "gates": asked,
            "alert_id": self.alert["alert_id"] if self.alert else None,
        }  # fmt: skip


def plan(parts: Parts, asked: Mapping[str, Any], now: datetime) -> Plan:
    """Whom an order means, until when, and which gates. Raises ConfigError where that is open."""
    alert = _alert(parts, asked["alert"]) if asked.get("alert") else None
    tenant = asked.get("tenant") or (alert["tenant"] if alert else None)
    if asked.get("target"):
        whom = pauses.find(parts.store, asked["target"], asked.get("kind") or None, tenant)
    elif alert:
        whom = _meant(parts, alert)
    else:
        raise ConfigError("target: whom to pause, an agent or a trace.")
    gates = chosen(parts.gates, whom)
    if not gates:
        raise ConfigError(pauses.nobody(parts.gates, whom))
    until = _until(asked, now) or pauses.until_for(gates, whom, now)
    return Plan(whom, until, gates, alert)


def order(
    parts: Parts, asked: Mapping[str, Any], actor: str, reason: str, now: datetime, key: str = ""
) -> str:
    """Order what is planned. Returns the pause's id. `key`: the same order again is no second."""
    found = plan(parts, asked, now)
    key = key or "|".join(("by hand", found.whom.kind, found.whom.name, actor, now.isoformat()))
    alert = passport(found.alert) if found.alert else None
    wish = Wish(found.whom, found.until, actor, reason, key, alert)
    made = pauses.ask(parts.store, parts.lander, parts.gates, wish, now)
    _caught_up(parts)
    return made


def release(parts: Parts, pause: str, actor: str, reason: str, now: datetime) -> None:
    """Let go before the time."""
    pauses.resume(parts.store, parts.lander, pause, actor, reason, now)
    _caught_up(parts)


def length(text: str) -> timedelta:
    """How long: `1 hour`, or short as on a command line: 90m, 1h, 2d. Raises ConfigError."""
    if short := re.fullmatch(r"(\d{1,6})([mhd])", text.strip()):
        return timedelta(**{SHORT[short[2]]: int(short[1])})
    try:
        return Duration(text.strip())
    except ConfigError:
        raise ConfigError(f"for: {text!r} is no length of time: write 1h, or 1 hour.") from None


def _caught_up(parts: Parts) -> None:
    with parts.store.writing() as db:
        applying.catch_up(db)


def _alert(parts: Parts, alert_id: str) -> dict[str, Any]:
    rows = parts.rows("SELECT * FROM alerts WHERE alert_id = $id", id=alert_id)
    if not rows:
        known = [row["alert_id"] for row in parts.rows(
            "SELECT alert_id FROM alerts ORDER BY opened_at DESC LIMIT 20")]  # fmt: skip
        raise ConfigError(f"no alert {alert_id!r}.{nearest(alert_id, known) if known else ''}")
    return rows[0]


def _meant(parts: Parts, alert: Mapping[str, Any]) -> Whom:
    """The agent that an alert is about, where it is one."""
    found = list(containing.concerned(parts.store, alert))
    if len(found) == 1:
        return found[0]
    names = ", ".join(each.name for each in found[:5])
    said = (
        f"is about {len(found)} agents ({names}): say whom" if found else "names no agent: say whom"
    )
    raise ConfigError(f"{alert['alert_id']} {said}.")


def _until(asked: Mapping[str, Any], now: datetime) -> datetime | None:
    if asked.get("for"):
        return now + length(asked["for"])
    if not asked.get("until"):
        return None
    try:
        found = msgspec.convert(asked["until"], datetime)
    except msgspec.ValidationError:
        raise ConfigError("until: no time: write 2026-03-10T09:00:00Z.") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


class Pauses:
    """The routes over one set of parts."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def routes(self) -> list[Route]:
        return [
            Route("/v1/pauses", self.listed, methods=["GET"]),
            Route("/v1/pauses", self.pause, methods=["POST"]),
            Route("/v1/pauses/preview", self.preview, methods=["POST"]),
            Route("/v1/pauses/{pause}/resume", self.resume, methods=["POST"]),
        ]

    async def listed(self, request: Request) -> Response:
        allowed(request, self._parts.settings.tokens, "viewer")
        query = request.query_params
        return await self._list(query.get("alert"), query.get("pause"))

    async def preview(self, request: Request) -> Response:
        allowed(request, self._parts.settings.tokens, "viewer")
        asked = _texts(await read_object(request))
        found = await run_in_threadpool(plan, self._parts, asked, utc_now())
        return _json(found.told())

    async def pause(self, request: Request) -> Response:
        asked = _texts(await operator(request, self._parts.settings.tokens, ("actor",)))
        given = asked["actor"].strip(), asked.get("reason") or ""
        made = await run_in_threadpool(order, self._parts, asked, *given, utc_now())
        return await self._list(None, made)

    async def resume(self, request: Request) -> Response:
        asked = await operator(request, self._parts.settings.tokens, ("actor",))
        pause, reason = request.path_params["pause"], asked.get("reason") or ""
        await run_in_threadpool(
            release, self._parts, pause, asked["actor"].strip(), reason, utc_now()
        )
        return await self._list(None, pause)

    async def _list(self, alert: str | None, pause: str | None) -> Response:
        rows = await run_in_threadpool(
            pauses.listed, self._parts.store, utc_now(), alert or None, pause or None
        )
        return _json(rows)


def _texts(asked: dict[str, Any]) -> dict[str, Any]:
    for name in TEXTS:
        if not isinstance(asked.get(name) or "", str):
            raise HTTPException(400, f"{name!r} is no text.")
    return asked


def _json(found: object) -> Response:
    return Response(msgspec.json.encode(found, enc_hook=str), media_type="application/json")
