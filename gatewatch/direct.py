"""Tells people that lines cannot be kept, without the database: it may be what fails.

One message when it begins, one when it is over, each repeated until its receiver says yes or no.
What is owed is held in memory: a service that starts again on a full disk says it again.
Reads: nothing. Writes: nothing. Next: detectors/delivery.py.
"""

import logging
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

import httpx

from detectors import delivery, outbox
from detectors.masking import masked
from detectors.receivers import Delivered, Kind, Language, Message, Refused
from detectors.routing import Route
from detectors.wording import moment
from detectors.worker import client_for

log = logging.getLogger("gatewatch")
SURE = timedelta(seconds=5)  # in trouble for so long: told; what is over by then was a hiccup
CALM = timedelta(seconds=60)  # well for so long: over; what comes back sooner is the same trouble
FIRST, LONGEST = 5.0, 300.0  # seconds between two tries, doubled from the first to the longest
EVERY = 1.0
LONG_AGO = datetime.fromtimestamp(0, UTC)
NAME, SEVERITY = "intake_stopped", "critical"
WORDS: dict[Language, tuple[str, str, str]] = {
    "en": (
        "gatewatch takes no lines",
        "Make room on that disk, or see what the reason says. Senders are asked to come back, and"
        " files are read on later: nothing is lost that they keep. It goes on by itself.",
        "Reason",
    ),
    "zh": (
        "gatewatch 已停止接收日志",
        "请在该磁盘上腾出空间，或按原因处理。发送方会被要求稍后重试，日志文件稍后继续读取；"
        "对方仍保留的内容不会丢失。恢复后自动继续。",
        "原因",
    ),
}


class Direct:
    """Tells one receiver. `step` is called again and again, from one thread."""

    def __init__(self, route: Route, public_url: str, client: httpx.Client | None = None) -> None:
        self._route, self._link = route, public_url
        self._client = client or client_for(route)
        self._since: datetime | None = None
        self._told = False
        self._well: datetime | None = None  # since when there is no trouble any more
        self._owed: list[Message] = []
        self._tries, self._next = 0, LONG_AGO

    def step(self, why: str | None, now: datetime) -> float:
        """Note how things are, and send at most one message. Returns the seconds to wait."""
        self._note(why, now)
        if self._owed and self._next <= now:
            self._send(self._owed[0], now)
        return EVERY

    def _note(self, why: str | None, now: datetime) -> None:
        if why is not None:
            self._well, self._since = None, self._since or now
            if not self._told and now - self._since >= SURE:
                self._told = True
                self._owe("open", why, now)
        elif not self._told:
            self._since = None
        else:
            self._well = self._well or now
            if now - self._well >= CALM:
                self._owe("resolved", "", now)
                self._since, self._told = None, False

    def _owe(self, kind: Kind, why: str, now: datetime) -> None:
        title, respond, reason = WORDS[self._route.language]
        self._owed.append(
            Message(
                kind=kind,
                alert=f"own:{NAME}",
                delivery=outbox.delivery_id(NAME, self._route.name, self._since, kind),
                at=moment(now),
                detector=NAME,
                severity=SEVERITY,
                subject="gatewatch",
                title=title,
                facts=((reason, why),) if why else (),
                evidence=(),
                respond=respond if kind == "open" else "",
                link=self._link,
                language=self._route.language,
            )
        )

    def _send(self, message: Message, now: datetime) -> None:
        flow = self._route.module.deliver(message, self._route.options, now)
        outcome = delivery.attempt(flow, self._client)
        if isinstance(outcome, Delivered | Refused):
            if isinstance(outcome, Refused):
                log.error("%s refuses %s: %s", self._route.name, NAME, masked(outcome.reason))
            self._owed.pop(0)
            self._tries, self._next = 0, LONG_AGO
            return
        wait = outcome.after or min(LONGEST, FIRST * 2.0**self._tries)
        self._tries += 1
        self._next = now + timedelta(seconds=wait)


def told_of(routes: Iterable[Route]) -> Sequence[Route]:
    """Those that want to hear of it; when none does, all: somebody must."""
    every = tuple(routes)
    return [each for each in every if each.wants(SEVERITY, NAME)] or every
