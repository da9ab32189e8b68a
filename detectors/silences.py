"""Who need not be told of what, for a while: matchers, made by a person with a reason and an end.

A silence hides what it matches from receivers, never from pages. What gets worse after it was
hidden is told all the same, unless the silence itself names how bad it may be (`at_most`).
Reads: silences, alerts. Writes: silences, through the ledger. Next: detectors/telling.py.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec

from detectors.applying import noted
from detectors.detector import Detector
from detectors.routing import SEVERITIES, Severity
from ingest.config import ConfigError, convert, nearest
from ingest.land import Lander
from ingest.store import Reader, Store

LONGEST = timedelta(days=30)  # nobody remembers a longer one; a new one takes a minute
WEEK = timedelta(days=7)  # of which a preview tells what would have been hidden
SHOWN = 50  # alerts that a preview lists; it counts all
REASON = 1_000  # characters
COVERING = """
    SELECT unnest($covering::STRUCT(cover VARCHAR, what VARCHAR, detector VARCHAR, subject VARCHAR,
        agent VARCHAR, tenant VARCHAR, tag VARCHAR, severity VARCHAR, at_most VARCHAR)[],
        recursive := true)
"""
# Does the row `s` of COVERING match the row `a` of alerts? A name matches itself, too, whatever
# signs of patterns it holds.
MATCHES = f"""
    (s.detector IS NULL OR a.detector = s.detector OR a.detector GLOB s.detector)
    AND (s.subject IS NULL OR a.subject = s.subject OR a.subject GLOB s.subject)
    AND (s.tenant IS NULL OR a.tenant = s.tenant OR a.tenant GLOB s.tenant)
    AND (s.agent IS NULL OR len(list_filter(coalesce(a.about, []), lambda x:
        x = 'agent ' || s.agent OR x GLOB 'agent ' || s.agent)) > 0)
    AND (s.tag IS NULL OR len(list_filter(
        coalesce(map($tagged::VARCHAR[], $tags::VARCHAR[][])[a.detector], []),
        lambda x: x = s.tag OR x GLOB s.tag)) > 0)
    AND (s.severity IS NULL OR a.severity = s.severity)
    AND (s.at_most IS NULL OR list_position({list(SEVERITIES)}, a.severity)
        <= list_position({list(SEVERITIES)}, s.at_most))
"""
HIDDEN = f"""
    SELECT a.alert_id, a.severity, a.status, a.title, a.title_zh, a.detector, a.subject,
           a.opened_at, count(*) OVER () AS total
    FROM alerts a JOIN ({COVERING}) s ON {MATCHES}
    WHERE NOT a.backfill AND {{}}
    ORDER BY list_position({list(SEVERITIES)}, a.severity) DESC, a.opened_at DESC, a.alert_id
    LIMIT {SHOWN}
"""
OPEN, LATELY = (
    HIDDEN.format(where)
    for where in (
        "a.status = 'open'",
        "a.status IN ('open', 'resolved') AND a.opened_at > $since::TIMESTAMPTZ",
    )
)
LISTED = """
    SELECT s.*, s.expires_at > $now::TIMESTAMPTZ AS active FROM silences s
    WHERE s.expires_at > $since::TIMESTAMPTZ ORDER BY active DESC, s.expires_at, s.silence_id
"""


class Matchers(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an alert must be like; what is not named may be anything. Names are patterns: `*`, `?`.

    `agent` is whom the alert's evidence names, `tag` one of its detector's. `severity` is exactly
    that bad, `at_most` no worse than that.
    """

    detector: str | None = None
    subject: str | None = None
    agent: str | None = None
    tenant: str | None = None
    tag: str | None = None
    severity: Severity | None = None
    at_most: Severity | None = None

    def covering(self, cover: str, what: str) -> dict[str, Any]:
        """As a row of COVERING."""
        return {"cover": cover, "what": what, **msgspec.structs.asdict(self)}


def exactly(name: str) -> str:
    """The pattern that matches this name alone: a log may name somebody `*`."""
    return re.sub(r"([\\*?[])", r"\\\1", name)


def matchers(given: Mapping[str, Any], known: Iterable[str], where: str) -> Matchers:
    """Matchers as a person writes them. `known`: the detectors there are. Raises ConfigError."""
    told = {key: value for key, value in given.items() if value not in (None, "")}
    names = [field.name for field in msgspec.structs.fields(Matchers)]
    found = convert(told, Matchers, where)
    if not told:
        raise ConfigError(
            f"{where}: it would match everything: name at least one of {', '.join(names)}."
            ' Where everything is meant, write detector = "*".'
        )
    if found.severity and found.at_most:
        raise ConfigError(f"{where}: `severity` is exactly, `at_most` no worse than: name one.")
    if found.detector and not set("*?[") & set(found.detector) and found.detector not in set(known):
        raise ConfigError(
            f"{where}: no detector called {found.detector!r}.{nearest(found.detector, known)}"
        )
    return found


def tags(detectors: Mapping[str, Detector]) -> dict[str, list[str]]:
    """What each detector is about, for `tag`."""
    return {name: list(each.tags) for name, each in detectors.items() if each.tags}


def until(given: datetime, now: datetime) -> datetime:
    """The end of a silence, checked. Raises ConfigError."""
    if given <= now:
        raise ConfigError(f"until: {given:%Y-%m-%dT%H:%M:%S%z} is over: name a time to come.")
    if given > now + LONGEST:
        raise ConfigError(
            f"until: a silence lasts {LONGEST.days} days at most."
            " For longer, exempt the subject in gatewatch.toml, or set the detector's parameters."
        )
    return given


def preview(
    reader: Reader, wanted: Matchers, tags: Mapping[str, list[str]], now: datetime
) -> dict[str, Any]:
    """What such a silence would hide: open alerts, and those of the last seven days, the worst
    first. `open` and `week` list SHOWN at most; `open_count` and `week_count` count all."""
    given: dict[str, Any] = {
        "covering": [wanted.covering("", "")],
        "tagged": list(tags),
        "tags": list(tags.values()),
    }
    now_open = reader.rows(OPEN, **given)
    lately = reader.rows(LATELY, since=now - WEEK, **given)
    told: dict[str, Any] = {}
    for name, rows in (("open", now_open), ("week", lately)):
        told[f"{name}_count"] = rows[0].pop("total") if rows else 0
        told[name] = [{key: row[key] for key in row if key != "total"} for row in rows]
    return told


def add(
    store: Store, lander: Lander, wanted: Matchers, ends: datetime, actor: str, reason: str,
    now: datetime,
) -> dict[str, Any]:  # fmt: skip
    """Tell nobody of matching alerts until then. Returns the silence. Raises ConfigError."""
    ends = until(ends, now)
    if not reason.strip():
        raise ConfigError("reason: say why: somebody will ask while it hides what they look for.")
    if len(reason) > REASON:
        raise ConfigError(f"reason: longer than {REASON} characters.")
    detail = {"matchers": msgspec.structs.asdict(wanted), "until": ends, "reason": reason}
    key = msgspec.json.encode([now, actor, detail], enc_hook=str)
    silence_id = f"si_{hashlib.sha256(key).hexdigest()[:12]}"
    noted(store, lander, "silence", actor, silence_id, detail, now)
    return _one(store, silence_id)


def end(store: Store, lander: Lander, silence_id: str, actor: str, now: datetime) -> dict[str, Any]:
    """End a silence before its time: those who would have been told are told of what is still
    open. Returns the silence. Raises ConfigError where none of this id is in force."""
    rows = store.rows(LISTED, now=now, since=now)
    known = [row["silence_id"] for row in rows]
    if silence_id not in known:
        near = nearest(silence_id, known) if known else " None is in force."
        raise ConfigError(f"no silence {silence_id!r} is in force.{near}")
    noted(store, lander, "silence_end", actor, silence_id, {}, now)
    return _one(store, silence_id)


def listed(reader: Reader, now: datetime) -> list[dict[str, Any]]:
    """Those in force, the next to end first, then those that ended in the last seven days."""
    return reader.rows(LISTED, now=now, since=now - WEEK)


def _one(reader: Reader, silence_id: str) -> dict[str, Any]:
    return reader.rows("SELECT * FROM silences WHERE silence_id = $id", id=silence_id)[0]
