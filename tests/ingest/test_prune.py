"""What is old goes, what is of high risk stays, and the chain says which is which."""

import json
import shutil
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from detectors import applying, triage
from ingest import frozen, policy
from ingest.batch import Offset
from ingest.chain import verify
from ingest.config import ConfigError, Duration, Retention
from ingest.contents import digests
from ingest.ledger import Ledger, LedgerError
from ingest.prune import finish, prune
from ingest.retention import Pruned
from tests.world import POLICY, World, at, denied, native

DAY = 24 * 60  # minutes
KEEP = Retention(Duration("14 days"), Duration("60 days"))
RISKY = POLICY | {
    "tools": [
        {"name": "vault.read", "action": "allow", "risk_level": "critical"},
        {"name": "crm.read", "action": "allow"},  # else allowing it would be a mismatch, and proof
    ]
}


class End(BaseException):
    """The process ends here."""


def allowed(minutes: float, number: int, **more: Any) -> bytes:
    return native(
        minutes, event_id=f"e-{number}", tool="crm.read", decision="allow", status="ok", **more
    )


def made(folder: Path) -> World:
    """A world whose policy came on the first day."""
    world = World(folder, policy=None)
    path = folder / "policy.json"
    path.write_text(json.dumps(RISKY))
    loaded = policy.load(path)
    detail = {"version": loaded.version, "path": str(path), "doc": loaded.doc}
    world.lander.record("policy", "gatewatch", loaded.version, detail, at(0))
    fill(world)
    return world


def fill(world: World) -> None:
    """Three old days and one of today; each line that must stay says so in its id."""
    for day in (0, 1, 2, 25):
        start = day * DAY
        world.land([allowed(start + n, day * 100 + n, trace_id=f"t{day}") for n in range(20)],
                   now=at(start + 30), offsets=offset(day))  # fmt: skip
        world.land(
            [
                b"nobody can read this",
                native(start + 31, event_id=f"stay-risk-{day}", tool="a", risk="high"),
                native(start + 32, event_id=f"stay-tool-{day}", tool="vault.read"),
                native(start + 33, event_id=f"stay-deny-{day}", tool="b", decision="deny"),
                native(start + 34, event_id=f"go-{day}", agent="calm", kind="model_call"),
                native(start + 35, kind="config_changed", event_id=f"stay-config-{day}",
                       config_object="limits"),
            ],
            now=at(start + 40),
        )  # fmt: skip
    # one call that began when all else may go and goes on today; a line that came again today
    world.land([allowed(3 * DAY, 900, call_id="call-0123456789abcdef")], now=at(3 * DAY))
    world.land([allowed(3 * DAY + 1, 901, call_id="call-0123456789abcdef")], now=at(25 * DAY))
    world.land([allowed(2 * DAY + 3, 203, trace_id="t2")], now=at(25 * DAY))
    world.land([denied(1 * DAY + n, agent="loop") for n in range(4)], now=at(DAY + 60))


def offset(pos: int) -> tuple[Offset, ...]:
    return (Offset("gate", "/nowhere/gate", 1, 2, pos, "print", pos, False),)


def judged(world: World, now: datetime) -> None:
    world.engine.judge(now, whole=True)
    with world.store.writing() as db:
        applying.catch_up(db)


def pruned(world: World, now: datetime) -> Pruned | None:
    reach = {each.id: each.lookback for each in world.detectors.values()}
    fits = {name: back for name, back in reach.items() if back < KEEP.ordinary}  # no monthly ones
    return prune(world.store, world.lander, KEEP, fits, now)


def contents(world: World, now: datetime) -> dict[str, str]:
    judged(world, now)
    with world.store.reading() as db:
        return digests(db)


def names(world: World) -> set[str]:
    return {row["native_id"] or "" for row in world.rows("SELECT native_id FROM events")}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    opened = made(tmp_path / "one")
    judged(opened, at(25 * DAY + 60))
    yield opened
    opened.close()


def rebuilt(world: World, now: datetime) -> dict[str, str]:
    folder = world.folder.with_name("two")
    shutil.copytree(world.ledger.folder, folder / "gatewatch.ledger")
    other = World(folder, policy=None)
    try:
        return contents(other, now)
    finally:
        other.close()
        shutil.rmtree(folder)


def test_what_is_old_goes_and_what_is_of_high_risk_stays(world: World) -> None:
    before = names(world)
    now = at(25 * DAY + 120)

    done = pruned(world, now)

    assert done is not None
    left = names(world)
    today = {name for name in before if name.endswith("-25") or name.startswith("e-25")}
    assert {name for name in before if name.startswith("stay-")} <= left
    assert {"e-900", "e-901", "e-203"} <= left  # its call, and its repeat, are of today
    assert left & {f"e-{n}" for n in range(100)} == set()
    assert left & {"go-0", "go-1", "go-2"} == set()
    assert today <= left
    assert world.rows("SELECT count(*) AS n FROM quarantine") == [{"n": 4}]
    # four denials in a row had no id of their own: they are evidence
    assert world.rows("SELECT count(*) AS n FROM events WHERE agent = 'loop'") == [{"n": 4}]
    found = verify(world.ledger.folder)
    assert found.problems == ()
    assert found.pruned == done.lines > 50


def test_a_database_made_anew_after_pruning_is_the_pruned_one(world: World) -> None:
    first = at(25 * DAY + 120)
    assert pruned(world, first) is not None
    before = contents(world, first)

    assert rebuilt(world, first) == before
    assert pruned(world, first) is None  # there is nothing left to do

    later = at(70 * DAY)  # of the first days not even what was of high risk
    assert pruned(world, later) is not None
    assert "stay-risk-0" not in names(world)
    assert "stay-risk-25" in names(world)
    assert verify(world.ledger.folder).problems == ()
    after = contents(world, later)
    assert rebuilt(world, later) == after


@pytest.mark.parametrize(
    ("step", "count"),
    [("ledger", 1), ("ledger", 2), ("ledger", 3), ("commit", 1), ("commit", 3), ("replaced", 1),
     ("unlinked", 1), ("unlinked", 2)],
)  # fmt: skip
def test_a_pruning_that_ends_anywhere_is_finished_by_the_next(
    step: str, count: int, tmp_path: Path
) -> None:
    """The new files are written before the first line of the ledger, the third names them."""
    now, seen = at(25 * DAY + 120), [0]

    def came(where: str) -> None:
        seen[0] += where == step
        if seen[0] == count:
            raise End

    whole, world = made(tmp_path / "whole"), made(tmp_path / "one")
    for each in (whole, world):
        judged(each, now)
    pruned(whole, now)
    world.lander._step = world.ledger._step = came
    with pytest.raises(End):
        pruned(world, now)
    assert verify(world.ledger.folder).problems == ()
    world.close()

    again = World(tmp_path / "one", policy=None)
    finish(again.store, again.lander)
    pruned(again, now)

    assert names(again) == names(whole)
    assert verify(again.ledger.folder).problems == ()
    files = {str(path.relative_to(again.folder)) for path in again.folder.rglob("*.zst")}
    assert files == {str(path.relative_to(whole.folder)) for path in whole.folder.rglob("*.zst")}
    assert rebuilt(again, now) == contents(again, now)
    for each in (whole, again):
        each.close()


def test_messages_that_went_out_long_ago_go_and_what_was_given_up_stays(world: World) -> None:
    now = at(26 * DAY)
    judged(world, now)
    with world.store.writing() as db:
        for name, state, day in (
            ("old", "delivered", -60), ("taken", "accepted", -60), ("dead", "dead", -60),
            ("owed", "pending", -60), ("new", "delivered", 25),
        ):  # fmt: skip
            db.execute(
                "INSERT INTO deliveries (delivery_id, receiver, alert_id, kind, severity,"
                " created_at, message, state, attempts, next_at, done_at) VALUES"
                " ($id, 'ops', 'al_gone', 'open', 'low', $at, '{}', $state, 1, $at, $at)",
                {"id": name, "at": at(day * DAY), "state": state},
            )

    assert pruned(world, now)

    left = {row["delivery_id"] for row in world.rows("SELECT delivery_id FROM deliveries")}
    assert left == {"dead", "owed", "new"}


def test_what_reaches_back_to_what_was_pruned_is_not_judged_again(world: World) -> None:
    now = at(25 * DAY + 120)
    pruned(world, now)
    judged(world, now)
    before = world.rows("SELECT * FROM stretches ORDER BY ALL")
    assert before

    world.land([denied(DAY + 10, agent="late", event_id=f"late-{n}") for n in range(5)], now=now)
    judged(world, now)

    assert world.rows("SELECT * FROM stretches ORDER BY ALL") == before
    with world.store.reading() as db:
        floor = frozen.floor(db)
    assert floor is not None
    [row] = world.rows("SELECT * FROM judgements WHERE detector = 'deny_retry'"
                       " AND status = 'frozen' AND since <= $at", at=at(DAY + 10))  # fmt: skip
    assert row["until"] <= floor + timedelta(hours=1)


def test_an_incident_keeps_its_whole_run(world: World) -> None:
    rows = [{"trace_id": "t1", "label": "misaction"}]
    triage.label(world.store, world.lander, rows, "ann", at(25 * DAY))

    pruned(world, at(25 * DAY + 120))
    pruned(world, at(400 * DAY))

    runs = world.rows("SELECT DISTINCT trace_id FROM events WHERE trace_id IS NOT NULL")
    assert [row["trace_id"] for row in runs] == ["t1"]


def test_a_taken_out_line_that_no_pruning_accounts_for_is_found(world: World) -> None:
    ledger = world.ledger
    [piece] = [each for each in ledger.pieces() if "2026-03-11" in each.sealed.segment]
    forged = Ledger(world.folder / "forged")  # what a writer without a key could write as well
    path = piece.path(ledger.folder).with_name(
        piece.sealed.segment.split("/")[1] + ".kept1.ndjson.zst"
    )
    shutil.copy(piece.path(ledger.folder), path)
    ledger.replace([piece.now.__class__(
        piece.sealed.segment, piece.sealed.first, piece.sealed.last, 0, "0" * 64, "",
        piece.sealed.head, piece.sealed.until, "0" * 64, of=piece.now.sha256,
    )])  # fmt: skip

    problems = " ".join(verify(ledger.folder).problems)

    assert "no line of the ledger says so" in problems
    forged.close()


def test_a_damaged_segment_is_not_pruned(world: World) -> None:
    piece = world.ledger.pieces()[0]
    path = piece.path(world.ledger.folder)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)

    with pytest.raises((LedgerError, Exception), match=r"sealed|rror"):
        pruned(world, at(25 * DAY + 120))

    assert "go-0" in names(world)


def test_offsets_of_files_that_are_gone_are_dropped(world: World, tmp_path: Path) -> None:
    there = tmp_path / "gate.jsonl"
    there.write_text("")
    kept = Offset("gate", str(tmp_path / "older name"), 1, there.stat().st_ino, 1, "p", 1, False)
    gone = Offset("gate", str(tmp_path / "gone"), 1, 4, 1, "p", 1, False)
    world.land([], now=at(3 * DAY), offsets=(kept, gone))

    pruned(world, at(25 * DAY + 120))

    found = world.rows("SELECT path FROM tail_offsets ORDER BY path")
    assert [row["path"] for row in found] == ["/nowhere/gate", kept.path]


def test_ordinary_lines_are_kept_as_long_as_detectors_look_back(world: World) -> None:
    short = Retention(Duration("9 days"), Duration("60 days"))
    reach = {each.id: each.lookback for each in world.detectors.values()}

    with pytest.raises(ConfigError, match="approval_surge looks back"):
        prune(world.store, world.lander, short, reach, at(25 * DAY))
