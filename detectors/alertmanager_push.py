"""Say to every Alertmanager what it must know: all of it each minute, what is new at once.

Each is asked in a thread of its own, so that one that hangs delays no other; one that took it is
enough, and each failure is counted. Nothing here waits on the judge, nor the judge on this.
Reads: alerts, firing. Writes: firing, tallies. Next: docs/alertmanager.md.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta

import httpx

from detectors import alertmanager, counting, delivery, peers
from detectors.alertmanager import EVERY, Alertmanager
from detectors.detector import Detector
from detectors.receivers import Delivered, Flow, Outcome, Refused, judge, quoted
from ingest import tally
from ingest.config import Settings
from ingest.store import Store

log = logging.getLogger("gatewatch")
CHUNK = 500  # alerts of one request
MOST = 64  # requests that one telling may take beyond its chunks, to find alerts that are refused
AGAIN = timedelta(seconds=10)  # when none has taken it
LOOK = 2.0  # seconds between two looks for what is new
NAME = "alertmanager-{}"  # as a receiver in metrics: the first in gatewatch.toml is 1
BAD = "alert"  # hint: the request was understood, and at least one alert of it is not right


@dataclass
class Answer:
    """What became of one telling at one Alertmanager."""

    outcomes: list[Outcome]
    refused: list[str]  # alerts that it does not take, each by itself


class Pusher:
    """`step` is called again and again, from one thread."""

    def __init__(
        self, store: Store, configured: Alertmanager, settings: Settings, now: datetime,
        client: Callable[[], httpx.Client] | None = None,
    ) -> None:  # fmt: skip
        self._store, self._configured, self._settings = store, configured, settings
        self._client = client or (lambda: peers.client(configured))
        self._pool = ThreadPoolExecutor(len(configured.urls), "alertmanager")
        self._began, self._whole_at = now, now
        self._troubles: dict[str, str] = {}
        with store.writing() as db:  # so that each stands on the page of metrics from now on
            db.execute("DELETE FROM tallies WHERE name = 'peer'")
            names = [NAME.format(number) for number, _ in enumerate(configured.urls, 1)]
            tally.add(db, "peer", {(name, ""): 0.0 for name in names})

    def step(self, detectors: Mapping[str, Detector], now: datetime) -> float:
        """Note what has changed, say what is due. Returns seconds until there may be more."""
        whole = now >= self._whole_at
        changed, ended = alertmanager.differs(self._store, whole)
        if changed or ended:
            with self._store.writing() as db:
                alertmanager.keep(db, changed, ended, detectors, self._settings,
                                  self._configured.runbooks, now)  # fmt: skip
        url = self._settings.public_url
        alerts = alertmanager.said(self._store, url, whole, self._began, now)
        if alerts:
            took = self._tell(alerts, now)
            if not took:
                self._whole_at = now + AGAIN
            elif whole:
                self._whole_at = now + EVERY
        return LOOK

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _tell(self, alerts: Sequence[str], now: datetime) -> bool:
        """Whether at least one Alertmanager has taken all that can be taken."""
        urls = self._configured.urls
        answers = list(self._pool.map(lambda url: self._post(url, alerts, now), urls))
        taken = [not _trouble(each) for each in answers]
        with self._store.writing() as db:
            for number, answer in enumerate(answers, 1):
                for outcome in answer.outcomes:
                    label = None if isinstance(outcome, Delivered) else outcome.label
                    counting.attempt(db, NAME.format(number), label, now)
            if any(taken):
                alertmanager.taken(db, now)
        for number, answer in enumerate(answers, 1):
            self._note(NAME.format(number), _trouble(answer), answer.refused)
        return any(taken)

    def _note(self, name: str, trouble: str, refused: Sequence[str]) -> None:
        """Say in the log what is new; a trouble that goes on is counted, and said once."""
        if self._troubles.get(name, "") != trouble:
            self._troubles[name] = trouble
            log.log(
                logging.WARNING if trouble else logging.INFO,
                "%s: %s", name, trouble or "has taken the alerts",
            )  # fmt: skip
        for each in refused:
            log.warning("%s: it does not take this alert: %s", name, each[:500])

    def _post(self, url: str, alerts: Sequence[str], now: datetime) -> Answer:
        """All of it to one Alertmanager. What is refused is halved until the alert is found that is
        not right: those beside it were stored, and are said again as they are."""
        answer = Answer([], [])
        waiting = [alerts[at : at + CHUNK] for at in range(0, len(alerts), CHUNK)]
        left = len(waiting) + MOST
        with self._client() as client:
            while waiting and left:
                part, left = waiting.pop(0), left - 1
                outcome = delivery.attempt(self._flow(url, part, now), client)
                bad = isinstance(outcome, Refused) and outcome.hint == BAD
                if bad and len(part) > 1:
                    half = len(part) // 2
                    waiting += [part[:half], part[half:]]
                elif bad:
                    answer.refused += part
                answer.outcomes.append(outcome)
                if not bad and not isinstance(outcome, Delivered):
                    break  # it is away: it is told all of it the next time
        return answer

    def _flow(self, url: str, alerts: Sequence[str], now: datetime) -> Flow:
        """https://prometheus.io/docs/alerting/latest/alerts_api/#sending-alerts"""
        response = yield httpx.Request(
            "POST", f"{url}/api/v2/alerts", content=f"[{','.join(alerts)}]".encode(),
            headers={"content-type": "application/json", **peers.headers(self._configured)},
        )  # fmt: skip
        if response.status_code == 400:
            return Refused(f"HTTP 400, it says {quoted(response)}", "clientError", BAD)
        return judge(response, now) or Delivered()


def _trouble(answer: Answer) -> str:
    """Why not all was taken; an alert that it refuses by itself is no trouble of the others."""
    last = answer.outcomes[-1]
    if isinstance(last, Delivered) or (isinstance(last, Refused) and last.hint == BAD):
        return ""
    return f"does not take alerts: {last.reason}"
