"""What Prometheus sees of pauses: how many stand, and how many a gate does not hold.

Reads: pauses. Writes: nothing. Next: detectors/pauses.py.
"""

from collections.abc import Iterator
from datetime import datetime

from detectors.metrics.budget import Family, Key, Value
from ingest.store import Reader

STATES = ("asked", "confirmed", "refused", "resuming", "stuck")  # those that are not over
COUNTS = """
    SELECT state, count(*) AS n FROM pauses
    WHERE list_contains($states, state)
        AND (until > $now::TIMESTAMPTZ OR state IN ('resuming', 'stuck'))
    GROUP BY 1
"""


def families(reader: Reader, now: datetime) -> Iterator[Family]:
    """A pause that several gates were asked for counts once a gate."""
    rows: dict[Key, Value] = {(state,): 0.0 for state in STATES}
    for row in reader.rows(COUNTS, states=list(STATES), now=now):
        rows[row["state"],] = float(row["n"])
    yield Family("gatewatch_pauses", "gauge", "Pauses that are not over.", ("state",), rows)
