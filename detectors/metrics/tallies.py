"""Counters as they stand, by name.

Reads: tallies. Writes: nothing. Next: detectors/metrics/listening.py.
"""

from collections.abc import Mapping

from ingest.store import Reader

Tallies = Mapping[str, Mapping[tuple[str, str], float]]


def read(reader: Reader) -> Tallies:
    """By name, then by whose it is and what."""
    found: dict[str, dict[tuple[str, str], float]] = {}
    for row in reader.rows("SELECT name, whose, what, n FROM tallies ORDER BY name, whose, what"):
        found.setdefault(row["name"], {})[row["whose"], row["what"]] = row["n"]
    return found
