"""What is counted of events as they land, so that no detector has to read a month of them.

Both tables are appended to: a reader takes the sums of `minute_counts` and the least time of
`sightings`, so the order of the lines does not matter.
Reads: fresh (temporary), sightings. Writes: minute_counts, sightings. Next: detectors/catalogue/.
"""

from collections.abc import Sequence
from datetime import datetime

from ingest.store import Db

# One answer counts for at most 10^12 rows or bytes: a log can claim any number.
MINUTES = """
    INSERT INTO minute_counts (minute, tenant, agent, subject, events, denied, external, approvals,
        rows_read, bytes_read)
    SELECT date_trunc('minute', ts), tenant, agent, counted_for(agent, principal, source), count(*),
        count(*) FILTER (WHERE decision = 'deny' AND coalesce(reason_code, '') <> 'expired'),
        count(*) FILTER (WHERE coalesce(decision, '') <> 'deny' AND coalesce(status, '') <> 'denied'
            AND (kind = 'egress' OR (kind = 'tool_executed' AND host IS NOT NULL))),
        0,  -- approvals are counted by call, see ingest/calls.py
        coalesce(sum(greatest(0, least(response_rows, 1000000000000)))
            FILTER (WHERE kind = 'tool_executed' AND response_rows IS NOT NULL), 0),
        coalesce(sum(greatest(0, least(response_bytes, 1000000000000)))
            FILTER (WHERE kind = 'tool_executed' AND response_bytes IS NOT NULL), 0)
    FROM fresh GROUP BY ALL
"""
# What was refused or still waits for a yes is no sighting: an attempt must not make it familiar.
SIGHTINGS = """
    INSERT INTO sightings BY NAME
    WITH used AS (
        SELECT tenant, counted_for(agent, principal, source) AS subject, ts::DATE AS day,
            tool, host, CASE WHEN agent IS NOT NULL THEN principal END AS account, min(ts) AS ts
        FROM fresh
        WHERE coalesce(decision, 'allow') = 'allow'
            AND coalesce(status, '') NOT IN ('denied', 'cancelled')
            AND (kind IN ('tool_executed', 'egress')
                OR (kind = 'tool_decided' AND decision = 'allow'))
        GROUP BY ALL
    ),
    seen AS (
        SELECT tenant, subject, what, value, day, min(ts) AS ts
        FROM used UNPIVOT (value FOR what IN (tool, host, account))
        GROUP BY ALL
    )
    SELECT n.* FROM seen n
    ANTI JOIN (FROM sightings WHERE day >= $since::DATE AND day <= $until::DATE) s
        ON s.value = n.value AND s.what = n.what AND s.day = n.day AND s.subject = n.subject
        AND s.tenant IS NOT DISTINCT FROM n.tenant AND s.ts <= n.ts
"""


def add(db: Db, times: Sequence[tuple[datetime, datetime]]) -> None:
    """Count the events in `fresh`. `times`: their first and last, once or minute by minute."""
    db.execute(MINUTES)
    if times:
        firsts, lasts = zip(*times, strict=True)
        db.execute(SIGHTINGS, {"since": min(firsts), "until": max(lasts)})


def see_again(db: Db) -> None:
    """Note anew what was seen on the days of the temporary table `doomed`."""
    db.execute("CREATE OR REPLACE TEMP TABLE days AS SELECT DISTINCT ts::DATE AS day FROM doomed")
    db.execute("DELETE FROM sightings WHERE day IN (SELECT day FROM days)")
    db.execute("""
        CREATE OR REPLACE TEMP TABLE fresh AS
        SELECT * FROM events WHERE ts::DATE IN (SELECT day FROM days)
    """)
    span = db.execute("SELECT min(day), max(day) FROM days").fetchall()[0]
    db.execute(SIGHTINGS, {"since": span[0], "until": span[1]})
    db.execute("DROP TABLE IF EXISTS temp.days")
