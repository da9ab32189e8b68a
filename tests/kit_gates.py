"""What tests of containment are written with: an order, gates that refuse as real ones do, and a
house with a keeper for each gate of a config.

The stand-in of OPA follows its documentation: https://www.openpolicyagent.org/docs/rest-api.
"""

import base64
import hashlib
import hmac
import json
import tomllib
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx

from detectors import applying, containing, containment, pauses, routing
from detectors.containment import Answer, Gate, Verb, Whom
from detectors.gates import Order
from detectors.pauses import Wish
from detectors.pausing import Keeper
from detectors.routing import Desk
from gatewatch.parts import utc_now
from tests.dashboards.insert import put
from tests.kit_http import Asked
from tests.kit_receivers import NOW
from tests.kit_telling import SLACK, URL, House

ORDER = Order(
    id="pa_0123456789ab",
    kind="agent",
    name="a1",
    tenant="acme",
    until=NOW + timedelta(hours=1),
    reason="it exports customers",
    actor="mei",
    alert="al_7f3a",
    link=f"{URL}/alert?alert=al_7f3a",
)
TRACE = replace(ORDER, kind="trace", name="t-17")
HOSTILE = "a1'] or true; \"}]}\u202e <!channel> ../../etc/passwd\n😀"
KEY = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
TILL: dict[str, Any] = {
    "type": "webhook",
    "webhook": "https://gate.example/gatewatch-FAKE0001",
    "secrets": [KEY],
}
OPA: dict[str, Any] = {
    "type": "opa",
    "url": "https://opa.example:8181",
    "token": "FAKE-opa-token-0001",
}


def gate(name: str = "till", **table: Any) -> Gate:
    """A gate of a config."""
    [found] = containment.load({name: table or TILL})
    return found


def example(kind: str, folder: Path) -> Gate:
    """The gate of a module's own EXAMPLE; what it writes goes to `folder`."""
    from detectors import gates

    [(name, table)] = tomllib.loads(gates.load(kind, "tests").EXAMPLE)["containment"].items()
    if "policies" in table:
        table["policies"] = str(folder)
    return gate(name, **table)


def asked(
    of: Gate, verb: Verb, reply: Callable[[httpx.Request], httpx.Response], order: Order = ORDER,
    now: datetime = NOW,
) -> Answer:  # fmt: skip
    """Ask a gate that replies so."""
    with httpx.Client(transport=httpx.MockTransport(reply)) as client:
        return containment.ask(of, verb, order, client, now)


class Till:
    """A gate of one's own, verifying as docs/containment.md says."""

    def __init__(self, now: Callable[[], datetime] = lambda: NOW) -> None:
        self.now, self.paused, self.seen = now, dict[str, Any](), list[dict[str, Any]]()
        self.answer: Callable[[], httpx.Response | None] = lambda: None

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if answer := self.answer():
            return answer
        if not verified(request, self.now()):
            return httpx.Response(401, json={"error": "who are you?"})
        said = json.loads(request.content)
        self.seen.append(said)
        if said["type"] == "gatewatch.pause":
            self.paused[said["data"]["pause_id"]] = said["data"]
        else:
            self.paused.pop(said["data"]["pause_id"], None)
        return httpx.Response(200, json={"paused": bool(self.paused)})


def verified(request: httpx.Request, now: datetime) -> bool:
    """Standard Webhooks 1.0.0, by the book and with nothing of ours."""
    stamp, key = request.headers["webhook-timestamp"], base64.b64decode(KEY[6:])
    signed = b".".join((request.headers["webhook-id"].encode(), stamp.encode(), request.content))
    digest = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    good = [each[3:] for each in request.headers["webhook-signature"].split() if each[:3] == "v1,"]
    fresh = abs(now.timestamp() - int(stamp)) < 300
    return fresh and any(hmac.compare_digest(digest, each) for each in good)


class Opa:
    """The part of OPA's Data API that is used, and the rule of docs/containment.md in Python."""

    def __init__(self, now: Callable[[], datetime] = lambda: NOW) -> None:
        self.now, self.data, self.token = now, dict[str, Any](), "FAKE-opa-token-0001"
        self.rule = True  # whether a policy reads what is stored
        self.requests: list[httpx.Request] = []

    def restart(self) -> None:
        self.data = {}

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        if request.headers.get("authorization") != f"Bearer {self.token}":
            return _error(401, "unauthorized", "request rejected by administrative policy")
        path = request.url.path.removeprefix("/v1/data/").split("/")
        if request.method == "POST":
            return self._ask(path, json.loads(request.content)["input"])
        *parents, last = path
        place = self.data
        for each in parents:
            if request.method == "DELETE" and each not in place:
                return _error(404, "resource_not_found", "storage_not_found_error")
            place = place.setdefault(each, {})
            if not isinstance(place, dict):
                return _error(404, "resource_conflict", "storage_write_conflict_error")
        if request.method == "PUT":
            try:
                place[last] = json.loads(request.content)
            except ValueError:
                return _error(400, "invalid_parameter", "body contains malformed input document")
        elif last not in place:
            return _error(404, "resource_not_found", "storage_not_found_error")
        else:
            del place[last]
        return httpx.Response(204)

    def _ask(self, path: list[str], given: dict[str, str]) -> httpx.Response:
        if not self.rule or path != ["gatewatch", "denied"]:
            return httpx.Response(200, json={})  # undefined
        standing = self.data.get("gatewatch", {}).get("paused", {}).values()
        denied = any(
            given[each["target"]["kind"]] == each["target"]["name"]
            and datetime.fromisoformat(each["until"]) > self.now()
            for each in standing
        )
        return httpx.Response(200, json={"result": denied})


def _error(status: int, code: str, message: str) -> httpx.Response:
    return httpx.Response(status, json={"code": code, "message": message})


class Guarded:
    """A house with gates: what the service does every round, on a clock of one's own."""

    def __init__(self, house: House, **gates: dict[str, Any]) -> None:
        self.house, self.gates = house, containment.load(gates or {"till": TILL})
        self.desk = Desk(routing.load({"ops": SLACK}), URL)
        self.till, self.opa = Till(lambda: house.now), Opa(lambda: house.now)
        self.detectors: dict[str, Any] = {}
        self.keepers = [self.keeper(each) for each in self.gates]

    def keeper(self, of: Gate) -> Keeper:
        reply = self.opa if of.type == "opa" else self.till
        client = httpx.Client(transport=httpx.MockTransport(reply))
        store, lander = self.house.store, self.house.lander
        return Keeper(of, store, lander, URL, client, chance=lambda: 1.0)

    def order(self, name: str = "a1", hours: float = 1, **wish: Any) -> str:
        """A pause as an operator orders it."""
        whom = wish.pop("whom", None) or Whom("agent", name, "", (name,), ("gate",))
        now = self.house.now
        full = {"actor": "mei", "reason": "looks wrong", "key": f"{name}|{now}"} | wish
        made = Wish(whom, now + timedelta(hours=hours), **full)
        found = pauses.ask(self.house.store, self.house.lander, self.gates, made, now)
        self.caught_up()
        return found

    def resume(self, pause_id: str, actor: str = "mei") -> None:
        pauses.resume(
            self.house.store, self.house.lander, pause_id, actor, "it was a drill", self.house.now
        )
        self.caught_up()

    def caught_up(self) -> None:
        with self.house.store.writing() as db:
            applying.catch_up(db)

    def run(self, seconds: float = 0) -> None:
        """Let time pass, a step of a second, or at once to what a keeper waits for."""
        end = self.house.now + timedelta(seconds=seconds)
        while True:
            containing.turn(
                self.house.store, self.house.lander, self.gates, self.desk, self.detectors,
                self.house.now,
            )  # fmt: skip
            waits = [each.step(self.house.now) for each in self.keepers]
            if any(each == 0.0 for each in waits):
                continue
            if self.house.now >= end:
                return
            step = min([each for each in waits if each is not None] + [30.0])
            self.house.now = min(end, self.house.now + timedelta(seconds=max(step, 0.001)))

    def rows(self, what: str = "*") -> list[dict[str, Any]]:
        return self.house.rows(f"SELECT {what} FROM pauses ORDER BY asked_at, pause_id, gate")

    def states(self) -> list[str]:
        return [row["state"] for row in self.rows()]

    def told(self) -> list[str]:
        """Titles of what people are owed about pauses."""
        rows = self.house.rows(
            "SELECT message ->> 'title' AS title FROM deliveries ORDER BY created_at, title"
        )
        return [row["title"] for row in rows]

    def log(self) -> list[tuple[str, str, str]]:
        rows = self.house.rows(
            "SELECT action, actor, subject FROM operator_log ORDER BY ledger_seq"
        )
        return [(row["action"], row["actor"], row["subject"]) for row in rows]


def afresh(house: Asked) -> Asked:
    """A house with one alert of agent a1, and nothing else that has happened."""
    with house.parts.store.writing() as db:
        for table in ("alerts", "events", "pauses", "operator_log"):
            db.execute(f"DELETE FROM {table}")
    house.again()
    alert(house)
    return house


def alert(asked: Asked, title: str = "a1: 3 denials", **more: Any) -> None:
    """An alert of an agent of which one call is known, as of this moment."""
    now = utc_now()
    event = {"event_id": "e1", "kind": "tool_decided", "source": "gate", "ledger_seq": 1}
    put(asked.parts.store, "events", ts=now, agent=more.pop("agent", "a1"), **event)
    values = {
        "alert_id": "al_7f3a", "detector": "deny_retry", "tenant": "", "subject": "a1",
        "severity": "high", "status": "open", "started_at": now, "ended_at": now, "rows": 1,
        "title": title, "title_zh": f"中 {title}", "facts": {}, "event_ids": ["e1"],
        "opened_at": now, "backfill": False, "tellings": 1,
    } | more  # fmt: skip
    put(asked.parts.store, "alerts", **values)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)
