"""Which detectors a source can feed: what their headers need, against what its events hold.

Reads: events, sources, the headers of detectors, adapters. Writes: nothing.
Next: gatewatch/commands/coverage.py.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ingest.adapter import Adapter
from ingest.config import ConfigError, nearest
from ingest.store import Db, Reader, fetch

# Whom a detector counts for; without it, it counts for the session or for the whole source.
COUNTED_FOR = {"agent", "trace_id"}
# What one source may tell of a call and another not: landing joins them.
JOINED = {"decision", "status"}
# What landing fills where an adapter leaves it: from which column.
LANDED = {"params_digest": "params", "op": "tool"}
Feeds = Literal["alone", "with others", "no"]


@dataclass(frozen=True)
class Need:
    """One need of a detector, `text` as its header has it: any of these columns or kinds."""

    text: str
    columns: tuple[str, ...]
    kinds: tuple[str, ...]

    @property
    def sql(self) -> str:
        """Whether an event meets it. Column names of `events`, and words without a quote."""
        parts = [f"{name} IS NOT NULL" for name in self.columns]
        return " OR ".join([*parts, *(f"kind = '{kind}'" for kind in self.kinds)])

    def met(self, columns: Iterable[str], kinds: Iterable[str]) -> bool:
        return bool({*self.columns} & {*columns} or {*self.kinds} & {*kinds})


@dataclass(frozen=True)
class Feed:
    """One source and one detector. `filled`: need to the share of events that meet it.

    With others it feeds a detector that lacks no more than what another source may tell of the
    same call. `others`: what it lacks, and the sources that meet it. `coarse`: what a detector
    would count for and this source does not know: it counts for a session, or the whole source.
    """

    source: str
    detector: str
    feeds: Feeds
    lacks: tuple[str, ...]
    coarse: tuple[str, ...]
    filled: Mapping[str, float | None]
    others: Mapping[str, tuple[str, ...]]


Known = Mapping[str, Mapping[str, float | None]]  # source to need to share; None: not known


def columns_of(db: Db) -> tuple[str, ...]:
    """The columns of `events`."""
    return tuple(row["column_name"] for row in fetch(db, "DESCRIBE events"))


def needs(
    headers: Mapping[str, Sequence[str]], columns: Iterable[str]
) -> dict[str, tuple[Need, ...]]:
    """The needs of each detector, read. Raises ConfigError for a column that `events` has not."""
    known = sorted(columns)
    return {
        name: tuple(_need(text, known, name) for text in texts) for name, texts in headers.items()
    }


def measured(reader: Reader, wanted: Iterable[Need]) -> dict[str, dict[str, float | None]]:
    """What the events of each source hold: source to need to share of its events."""
    every = {each.text: each for each in wanted}
    counts = "".join(
        f", count(*) FILTER (WHERE {each.sql}) AS n{at}" for at, each in enumerate(every.values())
    )
    sql = f"SELECT source, count(*) AS events{counts} FROM events GROUP BY source ORDER BY source"  # noqa: S608 - see Need.sql
    return {
        row["source"]: {text: row[f"n{at}"] / row["events"] for at, text in enumerate(every)}
        for row in reader.rows(sql)
    }


def possible(adapter: Adapter, db: Db, wanted: Iterable[Need]) -> dict[str, float | None]:
    """What an adapter can fill at all: the needs that its columns and its kinds meet.

    The relation `lines` must be there, see ingest/adapter.py.
    """
    described = fetch(db, f"DESCRIBE {adapter.sql}")
    columns = {row["column_name"] for row in described if row["column_type"] != '"NULL"'}
    columns |= {name for name, made_of in LANDED.items() if made_of in columns}
    return {
        each.text: None
        for each in wanted
        if each.met(columns, [kind for kind in each.kinds if f"'{kind}'" in adapter.sql])
    }


def sampled(rows: Sequence[Mapping[str, Any]], wanted: Iterable[Need]) -> dict[str, float | None]:
    """What recorded events hold, before landing has seen them: absent columns are left out."""
    if not rows:
        return {}
    shares: dict[str, float | None] = {}
    for each in wanted:
        met = sum(each.met([*row, *_landed(row)], [row["kind"]]) for row in rows)
        shares[each.text] = met / len(rows)
    return shares


def feeds(found: Known, wanted: Mapping[str, Sequence[Need]]) -> list[Feed]:
    """Every source with every detector: what it feeds alone, what with others, and what not."""
    return [_feed(source, name, those, found) for source in found for name, those in wanted.items()]


def _feed(source: str, name: str, those: Sequence[Need], found: Known) -> Feed:
    shares = found[source]
    missing = [each for each in those if not _has(shares, each)]
    lacks = tuple(each.text for each in missing if not COUNTED_FOR & {*each.columns})
    joined = {each.text for each in missing if {*each.columns} & JOINED}
    others = {
        text: tuple(
            other for other, known in found.items() if other != source and known.get(text, 0) != 0
        )
        for text in lacks
        if text in joined
    }
    verdict: Feeds = "no"
    if not lacks:
        verdict = "alone"
    elif joined.issuperset(lacks) and len(lacks) < len(those):
        verdict = "with others"
    return Feed(
        source, name, verdict, lacks,
        tuple(each.text for each in missing if each.text not in lacks),
        {each.text: shares.get(each.text) for each in those if _has(shares, each)}, others,
    )  # fmt: skip


def _has(shares: Mapping[str, float | None], need: Need) -> bool:
    return need.text in shares and shares[need.text] != 0


def _landed(row: Mapping[str, Any]) -> list[str]:
    return [name for name, made_of in LANDED.items() if row.get(made_of) is not None]


def _need(text: str, known: Sequence[str], name: str) -> Need:
    columns: list[str] = []
    kinds: list[str] = []
    for part in text.split(" or "):
        word = part.removeprefix("kind ").strip()
        if not word.replace("_", "").isalpha():
            raise ConfigError(f"{name}: needs: {part!r} is neither a column nor a kind.")
        if part.startswith("kind ") or (kinds and word not in known):
            kinds.append(word)
        elif word in known:
            columns.append(word)
        else:
            raise ConfigError(f"{name}: needs: no column {word!r}.{nearest(word, known)}")
    return Need(text, tuple(columns), tuple(kinds))
