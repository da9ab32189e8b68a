"""How the clock of each source stands to ours, and how long its lines take to come.

A line that is live (it came within an hour of the time that it claims, before or after) tells the
seconds from that time to its arrival. The lowest tenth of them, minute by minute of arrival, is
what a clock is off by: lines that take long say nothing about a clock, the fastest do. The median
of the last half hour of minutes forgives a bad minute. Nothing is put right by it, and nothing is
left out or sorted anew: a person sees it, and a clock that a person sets is seen to be set.
It is a function of the ledger, and costs what is new.
Reads: the events of a batch. Writes: clocks. Next: detectors/metrics.py.
"""

from ingest.segment import Batched
from ingest.store import Db

WAITS = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0)  # seconds, the buckets of the histogram
NOTE = """
    INSERT INTO clocks
    SELECT $source, $minute, [low], [mid], waits, total
    FROM (
        SELECT quantile_cont(wait, 0.1) AS low, median(wait) AS mid,
            [{buckets}] AS waits, sum(greatest(wait, 0)) AS total
        FROM (SELECT date_diff('microsecond', ts, $at::TIMESTAMPTZ) / 1000000.0 AS wait
              FROM fresh WHERE ts_quality = 'source' AND source = $source)
        WHERE wait BETWEEN -3600 AND 3600)
    WHERE low IS NOT NULL
    ON CONFLICT (source) DO UPDATE SET
        minute = greatest(minute, excluded.minute),
        lows = CASE WHEN excluded.minute > minute THEN list_append(lows, excluded.lows[1])[-30:]
            ELSE list_append(lows[:-2], least(lows[-1], excluded.lows[1])) END,
        mids = CASE WHEN excluded.minute > minute THEN list_append(mids, excluded.mids[1])[-30:]
            ELSE list_append(mids[:-2], greatest(mids[-1], excluded.mids[1])) END,
        waits = list_transform(list_zip(waits, excluded.waits), lambda lam_w: lam_w[1] + lam_w[2]),
        waited = waited + excluded.waited
""".format(buckets=", ".join(f"count(*) FILTER (WHERE wait <= {each})" for each in WAITS))  # noqa: S608 - of numbers above


def note(db: Db, batch: Batched) -> None:
    """Learn from the events of a batch's source, which are in `fresh`."""
    minute = batch.at.replace(second=0, microsecond=0)
    db.execute(NOTE, {"source": batch.marker.source, "minute": minute, "at": batch.at})
