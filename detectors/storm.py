"""Many alerts of one detector at once: after the first few, one summary tells of the rest.

An alert joins a storm where as many at least as bad have been told, or have joined, within the
window: so what is worse than the storm is told at once, and so is another detector's. A summary
goes out when the storm begins and then every few minutes; who is in one counts as told. When the
last of them is over, that is said once.
Reads: deliveries, storms, storm_members, alerts. Writes: storms, storm_members, alerts, deliveries.
Next: detectors/telling.py.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from detectors import outbox
from detectors.alerts import note_all
from detectors.detector import Detector
from detectors.phrases import LINES, WORDS
from detectors.receivers import Kind, Language, Message
from detectors.routing import Desk, Route
from detectors.shorten import cut, visible
from detectors.stretch import SEVERITIES
from detectors.wording import local, moment
from ingest.config import Telling
from ingest.store import Db, fetch

Rows = Sequence[Mapping[str, Any]]
Herd = tuple[str, tuple[str, ...]]  # a detector, and the receivers who are told
LATELY = """
    SELECT a.detector, list_sort(list(DISTINCT d.receiver)) AS receivers,
        arg_max(d.severity, d.created_at) AS severity
    FROM deliveries d JOIN alerts a USING (alert_id)
    WHERE d.created_at > $since::TIMESTAMPTZ AND d.kind IN ('open', 'worse', 'unsilenced')
    GROUP BY a.detector, d.alert_id
    UNION ALL
    SELECT s.detector, s.receivers, m.severity
    FROM storm_members m JOIN storms s USING (storm_id) WHERE m.joined_at > $since::TIMESTAMPTZ
"""
GONE = """
    DELETE FROM storm_members WHERE told_at IS NULL AND alert_id IN
        (SELECT alert_id FROM alerts WHERE status IN ('withdrawn', 'merged') OR told_at IS NOT NULL
            AND quiet_reason IS DISTINCT FROM 'storm')
"""
STANDING = """
    SELECT s.storm_id, any_value(s.detector) AS detector, any_value(s.receivers) AS receivers,
        any_value(s.told_at) AS told_at, any_value(s.tellings) AS tellings,
        count(*) FILTER (m.told_at IS NULL) AS waiting,
        bool_or(a.status = 'open') AS still, max(a.ended_at) AS ended_at,
        bool_or(a.status = 'open' AND a.acked_at IS NULL AND a.ended_at > s.told_at) AS grows
    FROM storms s JOIN storm_members m USING (storm_id) JOIN alerts a USING (alert_id)
    WHERE s.calm_at IS NULL GROUP BY s.storm_id ORDER BY s.storm_id
"""
MEMBERS = """
    SELECT a.alert_id, a.severity, a.status, a.subject, a.title, a.title_zh, a.opened_at,
        m.told_at IS NULL AS fresh
    FROM storm_members m JOIN alerts a USING (alert_id) WHERE m.storm_id = $id
    ORDER BY list_position(['critical', 'high', 'medium', 'low'], a.severity), fresh DESC,
        a.opened_at, a.alert_id
"""
SAID: dict[Language, dict[str, str]] = {
    "en": {
        "storm": "{count} more alerts of {detector}, {fresh} of them new",
        "calm": "All {count} alerts of {detector} that were told together are over",
        "subjects": "subjects",
        "open": "still open",
    },
    "zh": {
        "storm": "{detector} 另有 {count} 条告警，其中 {fresh} 条为新增",
        "calm": "合并通知的 {count} 条 {detector} 告警已全部恢复",
        "subjects": "对象",
        "open": "仍未恢复",
    },
}


def gather(db: Db, rows: Rows, desk: Desk, figures: Telling, now: datetime) -> set[str]:
    """Of alerts that are to be told of, worst first, the ids of those that join a storm."""
    if not rows:
        return set()
    lately: dict[Herd, list[int]] = defaultdict(list)
    for row in fetch(db, LATELY, since=now - figures.storm_window):
        lately[row["detector"], tuple(row["receivers"])].append(SEVERITIES.index(row["severity"]))
    joined: dict[Herd, list[Mapping[str, Any]]] = defaultdict(list)
    for each in rows:
        names = tuple(sorted(route.name for route in desk.chosen(each, now)))
        herd, bad = (each["detector"], names), SEVERITIES.index(each["severity"])
        if names and sum(other >= bad for other in lately[herd]) >= figures.storm_after:
            joined[herd].append(each)
        lately[herd].append(bad)
    for herd, members in joined.items():
        _join(db, herd, members, now)
    return {row["alert_id"] for members in joined.values() for row in members}


def summaries(
    db: Db, detectors: Mapping[str, Detector], desk: Desk, figures: Telling, zone: str,
    now: datetime,
) -> int:  # fmt: skip
    """Tell of storms that have begun, gone on, or are over. Returns how many messages are owed."""
    if not fetch(db, "SELECT 1 FROM storms WHERE calm_at IS NULL LIMIT 1"):
        return 0
    db.execute(GONE)
    told = 0
    for row in fetch(db, STANDING):
        kind = _kind(row, figures, now)
        if kind is None:
            continue
        members = fetch(db, MEMBERS, id=row["storm_id"])
        names = {*row["receivers"], *(_also(db, row["storm_id"]) if kind == "calm" else ())}
        routes = [route for route in desk.routes if route.name in names]
        each = detectors.get(row["detector"])
        for route in routes:
            message = _message(row, members, kind, route, each, desk.public_url, zone, now)
            told += outbox.put(db, route.name, message.severity, now, message)
        _told(db, row["storm_id"], members, kind, now)
    db.execute(
        "DELETE FROM storms WHERE told_at IS NULL"
        " AND storm_id NOT IN (SELECT storm_id FROM storm_members)"
    )
    return told


def _also(db: Db, storm_id: str) -> set[str]:
    """Who was told of a storm without being chosen for it: by a step, or as the last resort."""
    sql = "SELECT DISTINCT receiver FROM deliveries WHERE alert_id = $id AND state <> 'dead'"
    return {row["receiver"] for row in fetch(db, sql, id=storm_id)}


def _kind(row: Mapping[str, Any], figures: Telling, now: datetime) -> Kind | None:
    if row["waiting"]:
        due = row["told_at"] is None or now - row["told_at"] >= figures.storm_every
        return "storm" if due else None
    if not row["still"]:
        return "calm" if row["ended_at"] + figures.hold <= now else None
    wait = min(figures.cool_down * 2 ** min(int(row["tellings"]) - 1, 20), figures.longest)
    return "storm" if row["grows"] and now - row["told_at"] >= wait else None


def _join(db: Db, herd: Herd, members: Rows, now: datetime) -> None:
    detector, receivers = herd
    found = fetch(
        db,
        "SELECT storm_id FROM storms WHERE detector = $detector AND receivers = $names"
        " AND calm_at IS NULL",
        detector=detector, names=list(receivers),
    )  # fmt: skip
    if found:
        storm_id = found[0]["storm_id"]
    else:
        key = "|".join((detector, *receivers, members[0]["alert_id"], now.isoformat()))
        storm_id = "st_" + hashlib.sha256(key.encode()).hexdigest()[:12]
        db.execute("INSERT INTO storms VALUES (?, ?, ?, ?, NULL, 0, NULL)",
                   [storm_id, detector, list(receivers), now])  # fmt: skip
    ids = [row["alert_id"] for row in members]
    db.execute("DELETE FROM storm_members WHERE list_contains(?, alert_id)"
               " AND (told_at IS NULL OR storm_id = ?)", [ids, storm_id])  # fmt: skip
    db.execute(
        "INSERT INTO storm_members SELECT $storm, alert_id, severity, $now::TIMESTAMPTZ, NULL"
        " FROM alerts WHERE list_contains($ids, alert_id)",
        {"storm": storm_id, "now": now, "ids": ids},
    )


def _told(db: Db, storm_id: str, members: Rows, kind: Kind, now: datetime) -> None:
    """Whom a summary names counts as told; with the last word, that it is over counts, too."""
    fresh = [row["alert_id"] for row in members if row["fresh"]]
    db.execute(
        "UPDATE storms SET told_at = $now::TIMESTAMPTZ, tellings = tellings + 1, calm_at ="
        " CASE WHEN $calm THEN $now::TIMESTAMPTZ END WHERE storm_id = $id",
        {"now": now, "calm": kind == "calm", "id": storm_id},
    )
    if kind == "calm":
        db.execute(
            "UPDATE alerts SET closed_told = true, tellings = tellings + 1, quiet_reason = NULL"
            " WHERE status <> 'open' AND list_contains($ids, alert_id)"
            " AND alert_id NOT IN (SELECT alert_id FROM deliveries)",
            {"ids": [row["alert_id"] for row in members]},
        )
        return
    db.execute(
        "UPDATE storm_members SET told_at = coalesce(told_at, $now::TIMESTAMPTZ),"
        " severity = (SELECT severity FROM alerts a WHERE a.alert_id = storm_members.alert_id)"
        " WHERE storm_id = $id",
        {"now": now, "id": storm_id},
    )
    db.execute(
        "UPDATE alerts SET told_at = $now::TIMESTAMPTZ, told_severity = severity,"
        " tellings = tellings + 1, quiet_reason = NULL, quiet_severity = NULL,"
        " closed_told = false, continues = NULL WHERE list_contains($ids, alert_id)",
        {"now": now, "ids": fresh},
    )
    note_all(db, fresh, now, "told", f"storm {storm_id}")


def _message(
    row: Mapping[str, Any], members: Rows, kind: Kind, route: Route, each: Detector | None,
    public_url: str, zone: str, now: datetime,
) -> Message:  # fmt: skip
    language = route.language
    counts = Counter(one["severity"] for one in members)
    subjects = Counter(one["subject"] for one in members)
    fresh = sum(one["fresh"] for one in members)
    worst = [name for name in reversed(SEVERITIES) if counts[name]]
    return Message(
        kind=kind,
        alert=row["storm_id"],
        delivery=outbox.delivery_id(row["storm_id"], kind, row["tellings"] + 1, route.name),
        at=moment(now),
        at_local=local(now, zone),
        detector=row["detector"],
        severity=worst[0],
        subject=_most(subjects),
        title=SAID[language][kind].format(
            count=len(members), detector=row["detector"], fresh=fresh
        ),
        facts=(
            *((WORDS[language][name], str(counts[name])) for name in worst),
            (SAID[language]["subjects"], str(len(subjects))),
            (SAID[language]["open"], str(sum(one["status"] == "open" for one in members))),
        ),
        evidence=tuple(_line(one, language) for one in members[:LINES]),
        events=len(members),
        respond=_respond(each, language) if kind == "storm" else "",
        link=f"{public_url.rstrip('/')}/alerts",
        language=language,
    )


def _most(subjects: Counter[str]) -> str:
    """The three that most alerts are about."""
    most = ", ".join(f"{cut(visible(name), 60)} ×{n}" for name, n in subjects.most_common(3))
    return f"{most} (+{len(subjects) - 3})" if len(subjects) > 3 else most


def _respond(each: Detector | None, language: Language) -> str:
    if each is None:
        return ""
    return (language == "zh" and each.header.respond_zh) or each.header.respond


def _line(one: Mapping[str, Any], language: Language) -> str:
    words = WORDS[language]
    title = one["title_zh" if language == "zh" else "title"]
    over = f" · {words['resolved']}" if one["status"] != "open" else ""
    return f"{words[one['severity']]} · {one['alert_id']}{over} · {cut(visible(title), 160)}"
