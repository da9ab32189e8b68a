"""HTTP: the pages behind signed links in messages. Only where `[links]` is configured.

A link is its own permission: no token is asked for. GET shows what would be done and does nothing,
because chat services and mail scanners open every link they see; POST, the button on that page,
does it. A pause is done once per link. The page has no script, loads nothing, tells no other site
where it was, and shows every text from logs as text.
Reads: links. Writes: through detectors/triage.py, pauses.py. Next: gatewatch/link_words.py.
"""

import hashlib
import logging
import time
from collections import OrderedDict
from datetime import datetime
from typing import Any
from urllib.parse import parse_qs

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from detectors import pauses, triage
from detectors.links import PATH, Links, Ticket
from detectors.receivers import Language
from detectors.shorten import cut, visible
from gatewatch import containing
from gatewatch.body import read_body
from gatewatch.link_words import NAME, WORDS, page
from gatewatch.parts import Parts, utc_now
from ingest.config import ConfigError

log = logging.getLogger("gatewatch")
FORM_BYTES = 4_096  # of what the page sends
FORGED, USED = 10, 30  # requests a minute: from one address with a bad link, and with one good link
REMEMBERED = 1_000  # addresses and links whose requests are counted


class Counter:
    """Requests a minute of each key, on the monotonic clock; the oldest keys are forgotten."""

    def __init__(self, most: int) -> None:
        self._most, self._seen = most, OrderedDict[str, list[float]]()

    def over(self, key: str) -> bool:
        """Count one. Is it one too many?"""
        now = time.monotonic()
        lately = [at for at in self._seen.pop(key, []) if now - at < 60.0]
        full = len(lately) >= self._most
        self._seen[key] = lately if full else [*lately, now]
        while len(self._seen) > REMEMBERED:
            self._seen.popitem(last=False)
        return full


class LinkPages:
    """The pages over one set of parts."""

    def __init__(self, parts: Parts, links: Links) -> None:
        self._parts, self._links = parts, links
        self._forged, self._used = Counter(FORGED), Counter(USED)

    def routes(self) -> list[Route]:
        path = f"/{PATH}/{{token}}"
        return [
            Route(path, self.show, methods=["GET", "HEAD"]),
            Route(path, self.act, methods=["POST"]),
        ]

    async def show(self, request: Request) -> Response:
        """What the button would do. Does nothing."""
        ticket = self._opened(request)
        if isinstance(ticket, Response):
            return ticket
        return await run_in_threadpool(self._shown, ticket, utc_now())

    async def act(self, request: Request) -> Response:
        """What the link is for, by whoever holds it."""
        ticket = self._opened(request)
        if isinstance(ticket, Response):
            return ticket
        try:
            form = parse_qs((await read_body(request, FORM_BYTES)).decode("utf-8", "replace"))
        except HTTPException as error:
            return page(self._language(ticket), error.status_code, "much", more="nothing")
        name = cut(visible(form.get("name", [""])[0].strip()), NAME)
        actor = f"{name} (link from {ticket.receiver})" if name else f"link from {ticket.receiver}"
        key = hashlib.sha256(request.path_params["token"].encode()).hexdigest()
        return await run_in_threadpool(self._done, ticket, actor, f"link|{key}", utc_now())

    def _opened(self, request: Request) -> Ticket | Response:
        """The ticket of a link that is good now, or the page that says why it is not."""
        token = request.path_params["token"]
        ticket, now = self._links.opened(token), utc_now()
        known = ticket and any(each.name == ticket.receiver for each in self._parts.desk.routes)
        if ticket is None or not known or ticket.action not in self._links.actions:
            host = request.client.host if request.client else "?"
            if self._forged.over(host):
                return page("en", 429, "crowd", more="wait")
            log.warning("links: refused one that is not ours, from %s", host)
            return page("en", 403, "forged", more="changed")
        if self._used.over(token):
            return page(self._language(ticket), 429, "often", more="wait")
        if ticket.over(now):
            log.warning("links: refused %s of %s: over", ticket.action, visible(ticket.alert))
            until = [("Until", _when(ticket.until))]
            return page(self._language(ticket), 403, "over", until, "instead")
        return ticket

    def _shown(self, ticket: Ticket, now: datetime) -> Response:
        language = self._language(ticket)
        alert = self._alert(ticket.alert)
        if alert is None:
            return page(language, 404, "gone", more="nothing")
        facts = _facts(alert, language)
        if ticket.action == "pause":
            try:
                plan = containing.plan(self._parts, {"alert": alert["alert_id"]}, now)
            except ConfigError as error:
                return page(language, 409, "nobody", facts, str(error))
            asked = ", ".join(f"{gate.name} ({gate.where})" for gate in plan.gates)
            target = f"{WORDS[language][plan.whom.kind]} {visible(plan.whom.name)}"
            facts = [("Pause", target), ("Until", _when(plan.until)), ("Asked", asked), *facts]
        return page(language, 200, ticket.action, facts, form=ticket.action)

    def _done(self, ticket: Ticket, actor: str, key: str, now: datetime) -> Response:
        language = self._language(ticket)
        alert = self._alert(ticket.alert)
        if alert is None:
            return page(language, 404, "gone", more="nothing")
        facts = [("By", actor), *_facts(alert, language)]
        if ticket.action == "pause":
            return self._pause(alert, actor, facts, key, language, now)
        if alert["acked_at"] is not None:
            by = f"{visible(alert['acked_by'] or '')}, {_when(alert['acked_at'])}"
            return page(language, 200, "already", [("By", by), *facts[1:]])
        store, lander = self._parts.store, self._parts.lander
        triage.acknowledge(store, lander, alert["alert_id"], actor, "from a message", now)
        return page(language, 200, "acked", facts)

    def _pause(
        self, alert: dict[str, Any], actor: str, facts: list[tuple[str, str]], key: str,
        language: Language, now: datetime,
    ) -> Response:  # fmt: skip
        known = "SELECT 1 FROM pauses WHERE pause_id = $id"
        if self._parts.rows(known, id=pauses.id_of(key)):
            return page(language, 409, "used", facts[1:], "once")
        asked = {"alert": alert["alert_id"]}
        try:
            made = containing.order(self._parts, asked, actor, "from a message", now, key)
        except ConfigError as error:
            return page(language, 409, "not", facts[1:], str(error))
        return page(language, 202, "ordered", [("Pause", made), *facts], "answer")

    def _alert(self, alert_id: str) -> dict[str, Any] | None:
        """The alert, or the one that it has become a part of."""
        sql = "SELECT * FROM alerts WHERE alert_id = $id"
        rows = self._parts.rows(sql, id=alert_id)
        if rows and rows[0]["merged_into"]:
            rows = self._parts.rows(sql, id=rows[0]["merged_into"]) or rows
        return rows[0] if rows else None

    def _language(self, ticket: Ticket) -> Language:
        """That of the message which carried the link."""
        routes = (each for each in self._parts.desk.routes if each.name == ticket.receiver)
        return next((each.language for each in routes), "en")


def _facts(alert: dict[str, Any], language: Language) -> list[tuple[str, str]]:
    title = alert["title_zh"] if language == "zh" else alert["title"]
    return [
        ("Alert", alert["alert_id"]), ("What", cut(visible(title), 300)),
        ("Severity", alert["severity"]), ("State", alert["status"]),
        ("Since", _when(alert["started_at"])),
    ]  # fmt: skip


def _when(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"
