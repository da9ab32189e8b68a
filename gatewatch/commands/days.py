"""How much of one local day each detector has judged, and why it has not judged the rest.

Reads: judgements, judged, changes, policies, prunes. Writes: nothing.
Next: gatewatch/commands/coverage.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from detectors.detector import Detector
from detectors.ranges import INSTANT, Range, minus, union
from ingest.store import Reader

STATUSES = ("judged", "due", "frozen", "nothing")
DAY = """
    SELECT timezone(local_zone(), $day::TIMESTAMP) AS since,
        timezone(local_zone(), $day::TIMESTAMP + INTERVAL 1 DAY) AS until,
        local_zone() AS zone, (SELECT version FROM policies
            ORDER BY loaded_at DESC, rowid DESC LIMIT 1) AS policy
"""
RANGES = """
    SELECT detector, since, until, status, reason, judged_at FROM judgements
    WHERE until > $since::TIMESTAMPTZ AND since < $until::TIMESTAMPTZ ORDER BY since
"""
NEW = "never judged, or changed since: all of history is due"
LANDED = "what came here has not been taken up yet"


@dataclass(frozen=True)
class Span:
    """A part of the day. `reason`: why it is not judged."""

    since: datetime
    until: datetime
    status: str
    reason: str | None
    judged_at: datetime | None


@dataclass(frozen=True)
class Covered:
    """One detector's day. `share`: of the day by status; `nothing`: nothing came, nothing to do."""

    detector: str
    day: date
    zone: str
    share: dict[str, float]
    ranges: tuple[Span, ...]
    error: str | None


def covered(there: Reader, detectors: Mapping[str, Detector], day: date) -> list[Covered]:
    """What `judgements` says of a day in the policy's zone, for each detector."""
    [whole] = there.rows(DAY, day=day.isoformat())
    span = whole["since"], whole["until"]
    ranges = there.rows(RANGES, since=span[0], until=span[1])
    known = {row["detector"]: row for row in there.rows("SELECT * FROM judged")}
    changes = there.rows("SELECT seq, since, until, kinds FROM changes")
    found = []
    for name, each in sorted(detectors.items()):
        row = known.get(name) or {"version": "", "seq": 0, "last_error": None}
        suffix = f"/{whole['policy']}" if each.by_policy else ""
        mine = [one for one in ranges if one["detector"] == name]
        if row["version"] != f"{each.version}{suffix}":
            spans = [Span(*span, "due", NEW, None)]
        else:
            spans = _spans(each, mine, changes, row["seq"], span)
        share = {status: _share(spans, status, span) for status in STATUSES}
        found.append(Covered(name, day, whole["zone"], share, tuple(spans), row["last_error"]))
    return found


def _spans(
    each: Detector, mine: list[dict[str, Any]], changes: list[dict[str, Any]], seq: int, day: Range
) -> list[Span]:
    """The day in parts, in order of time."""
    kinds = set(each.header.kinds)
    landed = union(
        (row["since"], row["until"] + each.lookback + INSTANT)
        for row in changes
        if row["seq"] > seq
        and (row["kinds"] is None or not kinds or not kinds.isdisjoint(row["kinds"]))
    )
    spans = [Span(*part, "due", LANDED, None) for part in _within(landed, day)]
    for row in mine:
        taken = [(one.since, one.until) for one in spans]
        for part in minus(_within([(row["since"], row["until"])], day), taken):
            spans.append(Span(*part, row["status"], row["reason"], row["judged_at"]))
    rest = minus([day], [(one.since, one.until) for one in spans])
    spans += [Span(*part, "nothing", None, None) for part in rest]
    return sorted(spans, key=lambda one: one.since)


def _within(ranges: list[Range], day: Range) -> list[Range]:
    cut = [(max(since, day[0]), min(until, day[1])) for since, until in ranges]
    return [part for part in cut if part[0] < part[1]]


def _share(spans: list[Span], status: str, day: Range) -> float:
    total = sum((one.until - one.since for one in spans if one.status == status), timedelta(0))
    return round(total / (day[1] - day[0]), 4)


def line(found: Covered) -> dict[str, Any]:
    """A row of the table for people."""
    reasons = dict.fromkeys(one.reason for one in found.ranges if one.reason)
    if found.error and found.share["due"]:
        reasons[f"fails: {found.error}"] = None
    times = [one.judged_at for one in found.ranges if one.judged_at]
    shares = {status: f"{found.share[status]:.0%}" for status in STATUSES}
    return {
        "detector": found.detector,
        **shares,
        "judged_at": f"{max(times):%Y-%m-%d %H:%M:%S} UTC" if times else "",
        "reason": "; ".join(filter(None, reasons)),
    }
