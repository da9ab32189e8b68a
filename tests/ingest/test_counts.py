"""What is counted of events as they land."""

from pathlib import Path
from typing import Any

import duckdb
import pytest

from ingest.contents import digests
from ingest.store import open_store
from tests.kit import Event, allowed, at, denied, events, executed, numbered, store
from tests.world import World, native


def counted(found: list[Event], columns: str) -> list[tuple[Any, ...]]:
    """Of minute_counts."""
    return store(numbered(found)).sql(f"FROM minute_counts SELECT {columns}").fetchall()


@pytest.mark.parametrize(
    ("columns", "subject"),
    [
        ({"agent": "a1", "principal": "ann"}, "a1"),
        ({"agent": None, "principal": "ann"}, "principal ann"),
        ({"agent": None, "session": "s"}, "source gate"),
    ],
)
def test_an_event_counts_for_whoever_the_log_names(columns: Event, subject: str) -> None:
    assert counted(executed("09:00", **columns), "DISTINCT subject") == [(subject,)]


def test_an_approval_of_a_log_without_agents_counts_for_its_principal() -> None:
    asked = events("approval_requested", "09:00", agent=None, principal="ann", approval_id="ap-1")

    assert counted(asked, "subject, sum(approvals)::INT AS n GROUP BY ALL") == [
        ("principal ann", 1)
    ]


def test_a_denial_counts_and_an_approval_that_expired_does_not() -> None:
    expired = events("approval_decided", "09:00", decision="deny", reason_code="expired")

    assert counted(denied("09:00") + expired, "sum(denied)::INT") == [(1,)]


def test_what_calls_answered_is_summed_and_one_answer_counts_for_so_much_at_most() -> None:
    huge = {"response_rows": 2**63 - 1, "response_bytes": 2**63 - 1}
    calls = executed("09:00", response_rows=3, response_bytes=70) + executed("09:00", **huge)
    calls += executed("09:00", response_rows=-5) + executed("09:00")
    calls += events("model_call", "09:00", response_bytes=900)

    found = counted(calls, "sum(rows_read)::BIGINT, sum(bytes_read)::BIGINT")

    assert found == [(10**12 + 3, 10**12 + 70)]


def test_the_first_time_of_a_day_is_the_same_in_whatever_order_events_land() -> None:
    calls = numbered(
        executed("09:00", "09:05", "23:59", tool="x", host="a.example", principal="svc")
        + executed("2026-03-11T00:00:00", tool="x")
        + allowed("08:00", tool="y", host="b.example")
        + events("egress", "08:30", host="a.example")
    )
    sql = "SELECT * EXCLUDE (ts), min(ts) AS ts FROM sightings GROUP BY ALL ORDER BY ALL"

    forwards, backwards = store(calls, batch=2), store(calls[::-1], batch=2)

    found = forwards.sql(sql).fetchall()
    assert found == backwards.sql(sql).fetchall()
    assert [(row[2], row[3], row[5]) for row in found if row[2] == "host"] == [
        ("host", "a.example", at("08:30")),
        ("host", "b.example", at("08:00")),
    ]
    assert len(found) == 6


def test_the_same_thing_seen_again_on_a_day_adds_no_row() -> None:
    calls = numbered(executed("09:00", "09:01", "09:02", tool="x"))

    assert store(calls, batch=1).sql("SELECT count(*) FROM sightings").fetchall() == [(1,)]


@pytest.mark.parametrize(
    "event",
    [
        denied("09:00")[0],
        executed("09:00", status="denied")[0],
        executed("09:00", status="cancelled")[0],
        denied("09:00", decision="require_approval")[0],
        events("tool_proposed", "09:00", tool="x")[0],
        events("message", "09:00", tool="x")[0],
    ],
)
def test_what_was_refused_or_waits_is_no_sighting(event: Event) -> None:
    assert store(numbered([event])).sql("SELECT count(*) FROM sightings").fetchall() == [(0,)]


def test_a_database_of_before_counts_on_in_the_new_columns(tmp_path: Path) -> None:
    path = tmp_path / "gatewatch.duckdb"
    with duckdb.connect(str(path)) as db:
        db.execute("CREATE TABLE minute_counts (minute TIMESTAMPTZ NOT NULL, tenant VARCHAR,"
                   " agent VARCHAR, events UBIGINT NOT NULL, denied UBIGINT NOT NULL,"
                   " external UBIGINT NOT NULL, approvals BIGINT NOT NULL)")  # fmt: skip
        db.execute("INSERT INTO minute_counts VALUES (?, NULL, 'a1', 1, 0, 1, 0)", [at("09:00")])

    opened = open_store(path)

    sql = "SELECT subject, n::INT AS n FROM measured('external', $since, $until)"
    assert opened.rows(sql, since=at("08:00"), until=at("10:00")) == [{"subject": "a1", "n": 1}]
    opened.close()


def test_after_lines_were_landed_twice_over_the_sightings_are_the_same(tmp_path: Path) -> None:
    worlds = [World(tmp_path / name) for name in ("once", "twice")]
    lines = [native(n, tool="x", decision="allow", status="ok", event_id=f"e{n}") for n in range(9)]

    worlds[0].land(lines)
    for part in (lines[5:], lines[:6], lines):
        worlds[1].land(part)

    found = []
    for world in worlds:
        with world.store.reading() as db:
            found.append(digests(db)["sightings"])
        world.close()
    assert found[0] == found[1]
