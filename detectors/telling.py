"""Who must be told what, decided in the transaction that writes the outbox.

Told once when it opens; again when it gets worse, or when it is still growing after its cool-down
(60 minutes, doubling to 8 hours); once when it is over or withdrawn, if it was told at all. When
many open at once, one summary tells of them. The rules are in detectors/owing.py. At the end of
each round come those who hear of an alert only because nobody else took it, or can be reached.
Reads: alerts, silences. Writes: alerts, deliveries, alert_events. Next: detectors/outbox.py.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from detectors import escalation, fallback, maintenance, outbox, owing, storm
from detectors.alerts import note, note_all
from detectors.detector import Detector
from detectors.receivers import OVER, Kind
from detectors.routing import Desk
from ingest.config import Telling
from ingest.store import Db, one

ROUND = 200  # alerts told of in one round, the worst first: the next is half a second away
Rows = list[Mapping[str, Any]]
PACED = ("open", "worse", "unsilenced")  # kinds that many alerts can have at once
AGAIN = (*PACED, "reminder")  # kinds after which the cool-down begins anew


def tell(
    db: Db, detectors: Mapping[str, Detector], desk: Desk, now: datetime,
    figures: Telling | None = None, windows: Sequence[maintenance.Window] = (),
) -> int:  # fmt: skip
    """Queue what is owed. Returns how many alerts were told of. `windows`: of planned work."""
    figures = figures or Telling()
    zone = str(one(db, "SELECT local_zone()"))
    covering = list(maintenance.covering(windows, now, zone))
    rows = owing.owed(db, detectors, figures, covering, now)
    quiet: dict[str, Rows] = defaultdict(list)
    for row in rows:
        if row["reason"] is not None:
            quiet[row["reason"]].append(row)
    owed = [row for row in rows if row["reason"] is None and row["kind"] != owing.CLEAR]
    paced = [row for row in owed if row["kind"] in PACED]
    herded = storm.gather(db, paced, desk, figures, now)
    quiet["storm"] += [row for row in paced if row["alert_id"] in herded]
    for reason, group in quiet.items():
        _keep_quiet(db, group, reason, now)
    _clear(db, [row["alert_id"] for row in rows if row["kind"] == owing.CLEAR])
    alone = [row for row in owed if row["kind"] not in PACED or row["alert_id"] not in herded]
    told = sum(_told(db, row, detectors[row["detector"]], desk, now) for row in alone[:ROUND])
    told += storm.summaries(db, detectors, desk, figures, zone, now)
    told += escalation.escalate(db, detectors, desk, now)
    return told + fallback.reach(db, detectors, desk, now)


def _told(db: Db, row: Mapping[str, Any], each: Detector, desk: Desk, now: datetime) -> bool:
    """Owe one telling to everybody whom it concerns, and note that on the alert."""
    kind = cast(Kind, row["kind"])
    counted = {**row, "tellings": row["tellings"] + (kind in AGAIN or kind in OVER)}
    try:
        outbox.enqueue(db, counted, kind, now, desk, each)
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        # one alert that cannot be worded must not keep the others from being told
        _keep_quiet(db, [row], f"cannot be worded: {type(error).__name__}: {error}", now)
        return False
    if kind == "acknowledged":
        db.execute("UPDATE alerts SET ack_told = true WHERE alert_id = ?", [row["alert_id"]])
        return True
    if kind == "flapping":
        db.execute("UPDATE alerts SET flapping = true WHERE alert_id = ?", [row["alert_id"]])
    else:
        over = kind in OVER
        db.execute(
            "UPDATE alerts SET told_at = coalesce(?, told_at), told_severity = severity,"
            " tellings = tellings + 1, quiet_reason = NULL, quiet_severity = NULL,"
            " closed_told = ?, continues = NULL WHERE alert_id = ?",
            [None if over else now, over, row["alert_id"]],
        )
    note(db, row["alert_id"], now, "told", kind)
    return True


def _keep_quiet(db: Db, group: Rows, reason: str, now: datetime) -> None:
    """Say why nobody is told, once; and how bad it was then: what gets worse is told."""
    changed = [row for row in group if row["quiet_reason"] != reason]
    if not changed:
        return
    ids = [row["alert_id"] for row in changed]
    heads = [row["head" if reason == "flapping" else "continues"] for row in changed]
    db.execute(
        "UPDATE alerts SET quiet_reason = $reason, continues = q.head,"
        " quiet_severity = coalesce(quiet_severity, severity) FROM (SELECT"
        " unnest($ids::VARCHAR[]) AS id, unnest($heads::VARCHAR[]) AS head) q"
        " WHERE alert_id = q.id",
        {"reason": reason, "ids": ids, "heads": heads},
    )
    note_all(db, ids, now, "quiet", reason)


def _clear(db: Db, ids: list[str]) -> None:
    """Nothing keeps them quiet any more, and nobody needs to hear of that."""
    if ids:
        db.execute("UPDATE alerts SET quiet_reason = NULL, quiet_severity = NULL"
                   " WHERE list_contains(?, alert_id)", [ids])  # fmt: skip
