"""What the tables hold, as one number a table: equal contents give equal numbers, in any order.

Only tables that are a function of the ledger. Left out: `arrivals` (the service notes there that
it listens), `rounds`, `clock_steps`, `attempts`, `alert_events`, `judgements` and `judged` (times
of the work itself),
`deliveries` (a message that is owed is made anew), `landed` (where a pruned segment was begun).
Reads: every table. Writes: nothing. Next: gatewatch/commands/ledger.py.
"""

from ingest.store import Db, fetch

LEDGERS_OWN = {
    "sources": "SELECT * FROM sources",
    "clocks": "SELECT * FROM clocks",
    "tail_offsets": "SELECT * FROM tail_offsets",
    "batch_keys": "SELECT * FROM batch_keys",
    "repeats": "SELECT * FROM repeats",
    "early": "SELECT * FROM early",
    "quarantine": "SELECT * FROM quarantine",
    "events": "SELECT * FROM events",
    "calls": "SELECT * FROM calls",
    # appended by landing: what counts is the sum
    "minute_counts": """
        SELECT minute, tenant, agent, subject, sum(events) AS events, sum(denied) AS denied,
            sum(external) AS external, sum(approvals) AS approvals,
            sum(rows_read) AS rows_read, sum(bytes_read) AS bytes_read
        FROM minute_counts GROUP BY ALL HAVING sum(events) <> 0 OR sum(approvals) <> 0
    """,
    "sightings": "SELECT * EXCLUDE (ts), min(ts) AS ts FROM sightings GROUP BY ALL",
    "prunes": "SELECT * FROM prunes",
    "policies": "SELECT * FROM policies",
    "protocols": "SELECT * FROM protocols",
    "operator_log": "SELECT * EXCLUDE (applied) FROM operator_log",
}
# These follow once everything is judged. An alert that nobody was told of gets its times anew, and
# so may its id; one that was withdrawn, and was never told, is not found again at all.
JUDGED = {
    "stretches": "SELECT * FROM stretches",
    "alerts": """
        SELECT detector, tenant, subject, severity, started_at, ended_at, rows, title, title_zh,
            facts, event_ids, acked_by, verdict, verdict_reason, verdict_by, assigned_to
        FROM alerts WHERE status IN ('open', 'resolved')
    """,
    "incidents": "SELECT * FROM incidents",
    "silences": "SELECT * FROM silences",
    "pauses": "SELECT * EXCLUDE (next_at, attempts, told) FROM pauses",  # those: of asking itself
    "rules": "SELECT * FROM rules",
    "proposals": "SELECT * FROM proposals",
}


def digests(db: Db) -> dict[str, str]:
    """Per table: how many rows, and the sum over the hashes of the rows."""
    found: dict[str, str] = {}
    for name, sql in (LEDGERS_OWN | JUDGED).items():
        [row] = fetch(
            db,
            "SELECT count(*) AS n, sum(md5_number_lower(t::VARCHAR)::HUGEINT) AS h"  # noqa: S608 - our own
            f" FROM ({sql}) t",
        )
        found[name] = f"{row['n']} rows, {row['h'] or 0:x}"
    return found
