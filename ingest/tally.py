"""Counters that Prometheus reads, counted where the thing happens, in its own transaction.

A scrape so reads a few hundred rows, whatever has happened since the beginning. The words of a
tally are of closed sets, or names from the configuration. A rebuild starts them at 0 again, which
every reader of counters expects.
Reads: tallies. Writes: tallies. Next: detectors/metrics/__init__.py.
"""

from collections.abc import Mapping

from ingest.store import Db, Reader

ADD = """
    INSERT INTO tallies SELECT unnest($names::VARCHAR[]), unnest($whose::VARCHAR[]),
        unnest($what::VARCHAR[]), unnest($n::DOUBLE[])
    ON CONFLICT (name, whose, what) DO UPDATE SET n = n + excluded.n
"""
Counts = Mapping[tuple[str, str], float]  # by whose it is, and what; either may be ""
Tallies = Mapping[str, Counts]  # by name


def add(db: Db, name: str, counts: Counts) -> None:
    """Raise counters of one name, inside the caller's transaction."""
    add_all(db, {name: counts})


def add_all(db: Db, tallies: Tallies) -> None:
    """Raise counters of several names at once."""
    rows = [(name, *key, n) for name, counts in tallies.items() for key, n in counts.items()]
    if rows:
        columns = map(list, zip(*rows, strict=True))
        db.execute(ADD, dict(zip(("names", "whose", "what", "n"), columns, strict=True)))


def read(reader: Reader) -> Tallies:
    """All counters as they stand."""
    found: dict[str, dict[tuple[str, str], float]] = {}
    for row in reader.rows("SELECT name, whose, what, n FROM tallies ORDER BY name, whose, what"):
        found.setdefault(row["name"], {})[row["whose"], row["what"]] = row["n"]
    return found
