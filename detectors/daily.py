"""Once a day each receiver is told how things stand, also when nothing happened: it is a heartbeat.

Due from the hour on that `daily` names, on the clock of the installation's zone, once per local
day: the delivery's id is that of the day, so neither a restart nor a clock that is set sends two.
Reads: alerts, deliveries. Writes: deliveries. Next: detectors/outbox.py.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from detectors import outbox
from detectors.detector import Detector
from detectors.phrases import WORDS
from detectors.receivers import Language, Message
from detectors.routing import Desk, Route
from detectors.shorten import cut, visible
from detectors.stretch import SEVERITIES
from detectors.wording import local, moment
from ingest.config import Telling
from ingest.store import Db, fetch, one

DAY = timedelta(days=1)
OPEN_SHOWN, NAMES_SHOWN = 30, 5  # open alerts, a line each; detectors or sources by name
HEAD_DIGITS = 12  # of the chain's hash, as on the metrics page
LATELY = """
    SELECT severity, detector, count(*) AS n,
        count(*) FILTER (acked_at IS NULL AND verdict IS NULL) AS waits
    FROM alerts WHERE status IN ('open', 'resolved') AND NOT backfill
        AND opened_at > $since::TIMESTAMPTZ AND opened_at <= $now::TIMESTAMPTZ
    GROUP BY ALL
"""
OPEN = f"""
    SELECT alert_id, severity, detector, subject, title, title_zh, opened_at, acked_by, assigned_to
    FROM alerts WHERE status = 'open' AND NOT backfill
    ORDER BY list_position({list(SEVERITIES)}, severity) DESC, opened_at, alert_id
"""
SAID: dict[Language, dict[str, str]] = {
    "en": {
        "title": "{day}: {opened} alerts in 24 hours, {still} open now",
        "opened": "opened in 24 hours",
        "none": "none",
        "open": "open now",
        "waits": "not looked at",
        "head": "ledger head",
        "line": "{seq} lines, {head}",
        "detectors": "detectors",
        "dead": "messages given up",
        "silent": "silent sources",
        "has": "{who} has it",
    },
    "zh": {
        "title": "{day}：24 小时内 {opened} 条告警，当前未恢复 {still} 条",
        "opened": "24 小时内新增",
        "none": "无",
        "open": "当前未恢复",
        "waits": "未处理",
        "head": "账本链头",
        "line": "{seq} 行，{head}",
        "detectors": "检测器",
        "dead": "放弃发送的消息",
        "silent": "静默的来源",
        "has": "{who} 处理中",
    },
}


@dataclass(frozen=True)
class Day:
    """How things stand at one moment. `head`: lines in the ledger, and the hash of its chain."""

    day: date
    severities: Counter[str]
    detectors: Counter[str]
    waits: int
    open: list[dict[str, Any]]
    dead: int
    silent: list[str]
    head: tuple[int, str]


def owe(
    db: Db, detectors: Mapping[str, Detector], desk: Desk, figures: Telling,
    head: tuple[int, str], now: datetime,
) -> int:  # fmt: skip
    """Owe the digest of this day to those whose hour has come. Returns how many are owed."""
    clocks = [(route, route.daily or figures.daily) for route in desk.routes]
    clocks = [(route, clock) for route, clock in clocks if clock != "never"]
    if not clocks:
        return 0
    zone = str(one(db, "SELECT local_zone()"))
    there = now.astimezone(ZoneInfo(zone))
    due = {
        outbox.delivery_id("daily", there.date(), route.name): route
        for route, clock in clocks
        if f"{there:%H:%M}" >= clock
    }
    for row in fetch(
        db,
        "SELECT delivery_id FROM deliveries WHERE list_contains($ids, delivery_id)",
        ids=list(due),
    ):
        del due[row["delivery_id"]]
    if not due:
        return 0
    day = gathered(db, detectors, there.date(), head, now)
    return sum(
        outbox.put(db, route.name, "low", now, _message(day, route, key, desk, zone, now))
        for key, route in due.items()
    )


def gathered(
    db: Db, detectors: Mapping[str, Detector], day: date, head: tuple[int, str], now: datetime
) -> Day:
    """What the last 24 hours brought, and what is wrong now."""
    rows = fetch(db, LATELY, since=now - DAY, now=now)
    still = fetch(db, OPEN)
    dead = one(
        db,
        "SELECT count(*) FROM deliveries WHERE state = 'dead' AND done_at > $1::TIMESTAMPTZ",
        [now - DAY],
    )
    sources = {name for name, each in detectors.items() if each.header.of_source}
    severities, names = Counter[str](), Counter[str]()
    for row in rows:
        severities[row["severity"]] += row["n"]
        names[row["detector"]] += row["n"]
    silent = [row["subject"] for row in still if row["detector"] in sources]
    waits = sum(row["waits"] for row in rows)
    return Day(day, severities, names, waits, still, int(dead or 0), silent, head)


def _message(day: Day, route: Route, key: str, desk: Desk, zone: str, now: datetime) -> Message:
    said = SAID[route.language]
    worst = [name for name in reversed(SEVERITIES) if any(a["severity"] == name for a in day.open)]
    return Message(
        kind="daily",
        alert=f"daily:{day.day}",
        delivery=key,
        at=moment(now),
        at_local=local(now, zone),
        detector="daily",
        severity=worst[0] if worst else "low",
        subject="gatewatch",
        title=said["title"].format(day=day.day, opened=day.severities.total(), still=len(day.open)),
        facts=tuple(_facts(day, route.language).items()),
        evidence=tuple(_line(row, route.language) for row in day.open[:OPEN_SHOWN]),
        events=len(day.open),
        respond="",
        link=f"{desk.public_url.rstrip('/')}/alerts",
        language=route.language,
    )


def _facts(day: Day, language: Language) -> dict[str, str]:
    """The first four are what no cut takes; those that are always told, also when they are zero."""
    said, words = SAID[language], WORDS[language]
    bad = [f"{words[name]} {day.severities[name]}" for name in reversed(SEVERITIES)
           if day.severities[name]]  # fmt: skip
    seq, head = day.head
    facts = {
        said["opened"]: ", ".join(bad) or said["none"],
        said["open"]: str(len(day.open)),
        said["waits"]: str(day.waits),
        said["head"]: said["line"].format(seq=seq, head=head[:HEAD_DIGITS]),
        said["dead"]: str(day.dead),
        said["silent"]: _named(day.silent) or said["none"],
    }
    if day.detectors:
        most = [f"{name} {n}" for name, n in sorted(day.detectors.items(), key=_most)]
        facts[said["detectors"]] = _named(most)
    return facts


def _most(counted: tuple[str, int]) -> tuple[int, str]:
    name, count = counted
    return -count, name


def _named(names: list[str]) -> str:
    shown = ", ".join(cut(visible(name), 60) for name in names[:NAMES_SHOWN])
    return f"{shown} (+{len(names) - NAMES_SHOWN})" if len(names) > NAMES_SHOWN else shown


def _line(row: Mapping[str, Any], language: Language) -> str:
    title = row["title_zh" if language == "zh" else "title"]
    who = row["acked_by"] or row["assigned_to"]
    has = f" · {SAID[language]['has'].format(who=cut(visible(who), 60))}" if who else ""
    head = f"{WORDS[language][row['severity']]} · {row['alert_id']}{has}"
    return f"{head} · {cut(visible(title), 160)}"
