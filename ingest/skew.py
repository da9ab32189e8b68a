"""How the clock of each source stands to ours, and how long its lines take to come.

A line that is live (it came within an hour of the time that it claims, before or after) tells the
time from then to its arrival. The shortest of each minute of arrival is what a clock is off by:
lines that take long say nothing about a clock, the fastest does. The median of the last half hour
of minutes forgives a bad minute. Nothing is put right by it, and nothing is left out or sorted
anew: a person sees it, and a clock that a person sets is seen to be set.
It is a function of the ledger, whatever batches are landed together, and costs what is new.
Reads: the events of a landing. Writes: clocks. Next: detectors/metrics/listening.py.
"""

from datetime import datetime

from ingest.store import Db

WAITS = (1, 5, 15, 60, 300, 900, 3600)  # seconds, the buckets of the histogram
NOTE = """
    INSERT INTO clocks
    SELECT source, $minute, [min(wait)], [sum(wait)::BIGINT], [count(*)], [{buckets}],
        sum(greatest(wait, 0))::BIGINT
    FROM (SELECT source, date_diff('microsecond', ts, $at::TIMESTAMPTZ) AS wait
          FROM fresh WHERE ts_quality = 'source')
    WHERE wait BETWEEN -3600000000 AND 3600000000
    GROUP BY source
    ON CONFLICT (source) DO UPDATE SET
        minute = excluded.minute,
        lows = CASE WHEN excluded.minute <> minute THEN list_concat(lows, excluded.lows)[-30:]
            ELSE list_append(lows[:-2], least(lows[-1], excluded.lows[1])) END,
        sums = CASE WHEN excluded.minute <> minute THEN list_concat(sums, excluded.sums)[-30:]
            ELSE list_append(sums[:-2], sums[-1] + excluded.sums[1]) END,
        counts = CASE WHEN excluded.minute <> minute THEN list_concat(counts, excluded.counts)[-30:]
            ELSE list_append(counts[:-2], counts[-1] + excluded.counts[1]) END,
        waits = list_transform(list_zip(waits, excluded.waits), lambda lam_w: lam_w[1] + lam_w[2]),
        waited = waited + excluded.waited
""".format(  # noqa: S608 - of the numbers above
    buckets=", ".join(f"count(*) FILTER (WHERE wait <= {each * 1_000_000})" for each in WAITS)
)


def note(db: Db, at: datetime) -> None:
    """Learn from the events in `fresh`, which came at one moment."""
    db.execute(NOTE, {"minute": at.replace(second=0, microsecond=0), "at": at})
