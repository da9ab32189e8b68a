"""What every detector owes the engine: live is one backtest, and a round costs what is new.

A new file in detectors/catalogue/ is covered on arrival.
"""

import json
import random
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from detectors.detector import find
from detectors.ranges import INSTANT
from ingest import policy
from ingest.store import MACROS, Db, memory_store
from ingest.store import TABLES as SCHEMA
from tests.detectors.test_every_detector import LIST, NAMES, beside, made_up
from tests.kit import NOW, Event, land, loaded, numbered
from tests.world import World

GROUP = 2048  # rows of a row group, the smallest that DuckDB allows: what it skips is as small
HISTORY = 2 * GROUP  # rows of every table, and ten times that
DOCUMENTS = {"params", "response", "config_before", "config_after", "attrs"}  # columns of JSON
AGES_AGO = timedelta(days=200)  # further back than any detector looks
TABLES = {"events": "ts", "calls": "ts", "minute_counts": "minute", "arrivals": "minute",
          "rounds": "noted_at", "clock_steps": "noted_at"}  # fmt: skip


OWN = """
    INSERT INTO arrivals SELECT unnest(['gate', 'gatewatch']), m, 5, NULL
    FROM generate_series($since, $until, INTERVAL '10 minutes') t(m);
    INSERT INTO rounds SELECT 'deny_retry', m, 90, 0, 1, NULL
    FROM generate_series($since, $until, INTERVAL '10 minutes') t(m);
    INSERT INTO clock_steps SELECT m, -3600
    FROM generate_series($since, $until, INTERVAL '1 hour') t(m)
"""


def of(name: str, about: str) -> tuple[Any, random.Random]:
    return beside(name), random.Random(f"{name}-{about}")  # noqa: S311 - no secret


@pytest.mark.parametrize("name", NAMES)
def test_live_in_any_order_with_repeats_and_restarts_is_one_backtest(
    name: str, tmp_path: Path
) -> None:
    own, dice = of(name, "0")  # events that fire, see tests/detectors/test_every_detector.py
    found = numbered(made_up(dice, own))
    lines = [_line(each) for each in found]
    end = max(each["ts"] for each in found) + INSTANT + timedelta(days=3)

    live, whole = _lived(tmp_path / "live", name, own, lines, end, dice), tmp_path / "whole"
    at_once = _world(whole, name, own)
    try:
        at_once.land(lines, end, adapter="events")
        at_once.tick(end)
        said = at_once.alerts(without=())
        assert live == said
        assert said == at_once.backtest(without=())
    finally:
        at_once.close()
    by_arrival = any("ingested_at" in each for each in found)  # which a test cannot choose here
    assert by_arrival or bool(live) is getattr(own, "EVENTS", True)


def _lived(
    folder: Path, name: str, own: Any, lines: Sequence[bytes], end: datetime, dice: random.Random
) -> list[tuple[Any, ...]]:
    """The alerts that stand after lines came in pieces, some of them twice, while time passed."""
    left = [*lines, *dice.sample(lines, len(lines) // 8)]
    dice.shuffle(left)
    world, now = _world(folder, name, own), end - timedelta(days=6)
    try:
        while left:
            size = dice.randrange(1, 60)
            world.land(left[:size], end, adapter="events")
            left = left[size:]
            now = min(now + timedelta(hours=dice.randrange(20)), end)
            if dice.random() < 0.6:
                assert world.tick(now).failed == {}
            if dice.random() < 0.2:
                world.close()
                world = _world(folder, name, own)
        world.tick(end)
        return world.alerts(without=())
    finally:
        world.close()


def _world(folder: Path, name: str, own: Any) -> World:
    adapters = folder.parent / "adapters"
    if not adapters.exists():
        adapters.mkdir()
        with memory_store().writing() as db:
            (adapters / "events.sql").write_text(_adapter(db))
    settings = {name: getattr(own, "LOW", {})}
    world = World(folder, only=(name,), settings=settings, policy=None, adapters=adapters)
    if not world.rows("SELECT 1 FROM policies"):
        for action, doc in _rules(own):
            detail = {"version": "v1", "path": action, "doc": doc}
            world.lander.record(action, "test", action, detail, NOW)
    return world


def _rules(own: Any) -> Iterator[tuple[str, str]]:
    """What a detector's tests have in force: a policy, and protocols."""
    if getattr(own, "RULES", LIST) is None:
        return
    rules = dict(getattr(own, "RULES", LIST))
    if protocols := rules.pop("protocols", None):
        yield "protocols", msgspec.json.encode(protocols).decode()
    yield "policy", msgspec.json.encode(msgspec.convert(rules, policy.Controls)).decode()


def _line(event: Event) -> bytes:
    told = {key: value for key, value in event.items() if value is not None}
    for key in DOCUMENTS & told.keys():
        told[key] = json.loads(told[key]) if isinstance(told[key], str) else told[key]
    return json.dumps(told, default=str).encode()


def _adapter(db: Db) -> str:
    """A format that is the table itself: a line is an event, a key is a column."""
    columns = []
    for name, kind, *_ in db.execute("DESCRIBE events").fetchall():
        if name in ("source", "ledger_seq"):
            columns.append(name)
        elif kind == "JSON":
            columns.append(f"doc -> '$.{name}' AS {name}")
        elif kind.endswith("[]"):
            columns.append(f"""from_json(doc -> '$.{name}', '["VARCHAR"]') AS {name}""")
        else:
            columns.append(f"(doc ->> '$.{name}')::{kind} AS {name}")
    return f'-- title = "events"\nSELECT {", ".join(columns)} FROM lines'


class Counted:
    """A cursor that adds up how many rows its queries have scanned."""

    def __init__(self, db: Db, path: Path) -> None:
        self._db, self._path, self.rows = db, path, 0
        db.execute("USE small")
        db.execute("PRAGMA enable_profiling = 'json'")
        db.execute(f"PRAGMA profiling_output = '{path}'")

    def execute(self, *given: Any) -> Any:
        self._path.unlink(missing_ok=True)
        done = _Read(self._db.execute(*given))
        if self._path.exists():
            found = json.loads(self._path.read_text())
            self.rows += found["query"]["total_rows_scanned"]
        return done

    def __getattr__(self, name: str) -> Any:
        return getattr(self._db, name)


class _Read:
    """A result that was read whole, so that its profile is written."""

    def __init__(self, cursor: Any) -> None:
        self.description, self._rows = cursor.description, cursor.fetchall()

    def fetchall(self) -> Any:
        return self._rows

    def fetchmany(self, count: int) -> Any:
        return self._rows[:count]


@pytest.mark.parametrize("name", NAMES)
def test_a_round_costs_what_is_new_and_not_what_is_stored(name: str, tmp_path: Path) -> None:
    own, dice = of(name, "cost")
    found = numbered(made_up(dice, own))
    newest = max(each["ts"] for each in found)
    since, until = newest - timedelta(seconds=59), newest + INSTANT
    scanned, rows = [], []
    for times in (1, 10):
        store = memory_store()
        with store.reading() as db:
            file = f"{tmp_path}/{times}.duckdb"
            db.execute(f"COMMIT; ATTACH '{file}' AS small (ROW_GROUP_SIZE {GROUP}); BEGIN")
        with store.writing() as db:
            _stored(db, found, own, HISTORY * times)
            each = loaded(name, db, **getattr(own, "LOW", {}))
        with store.reading() as db:
            counted = Counted(db, tmp_path / f"{times}.json")
            rows.append(find(each, counted, since, until))  # type: ignore[arg-type]
            scanned.append(counted.rows)
            counted.execute("SELECT max(hash(event_id)) FROM events")
            assert counted.rows - scanned[-1] > HISTORY * times  # it sees what is read

    assert sorted(map(repr, rows[0])) == sorted(map(repr, rows[1]))
    assert scanned[1] <= scanned[0] + GROUP, f"{scanned}: the more is stored, the more it reads"


def _stored(db: Db, found: Sequence[Event], own: Any, past: int) -> None:
    """These events, and `past` rows of a time long gone in every table: the same ones over and
    over, each time earlier."""
    db.execute("USE small")
    for part in (SCHEMA, *MACROS):
        db.execute(part.read_text(encoding="utf-8"))
    for action, doc in _rules(own):
        table = "policies" if action == "policy" else action
        db.execute(f"INSERT INTO {table} VALUES ('v1', ?, 'a file', ?)", [NOW, doc])
    land(db, found)
    span = {"since": min(e["ts"] for e in found), "until": max(e["ts"] for e in found)}
    for statement in OWN.split(";"):
        db.execute(statement, span)
    ids = ("event_id", "call_key", "call_id", "last_event_id")
    for table, time in TABLES.items():
        columns = [row[0] for row in db.execute(f"DESCRIBE {table}").fetchall()]
        other = "".join(f", {c} || '-' || n AS {c}" for c in ids if c in columns)
        times = [c for c in columns if c == time or c == "last_ts" or c.endswith("_at")]
        moved = ", ".join(
            f"{c} - INTERVAL '{AGES_AGO.days} days' - n * INTERVAL '1 hour' AS {c}" for c in times
        )
        db.execute(f"CREATE TEMP TABLE recent AS SELECT * FROM {table}; DELETE FROM {table}")
        [(count,)] = db.execute("SELECT count(*) FROM recent").fetchall()
        db.execute(
            f"INSERT INTO {table} SELECT * EXCLUDE (n) REPLACE ({moved}{other})"
            f" FROM recent, range({past // count + 1}) r(n) ORDER BY n DESC, {time} LIMIT {past}"
        )
        db.execute(f"INSERT INTO {table} SELECT * FROM recent ORDER BY {time}; DROP TABLE recent")
