"""The database is a function of the ledger: made anew it is the same, table by table."""

import random
import shutil
from datetime import datetime, timedelta
from pathlib import Path

from detectors import applying, pauses, silences, triage
from detectors.containment import Answer, Whom
from detectors.pauses import Wish
from detectors.receivers import Delivered
from gatewatch.parts import put_protocols
from ingest import adapter
from ingest.batch import Batch, Offset
from ingest.config import Duration, Retention
from ingest.contents import digests
from ingest.prune import prune
from tests.kit_gates import gate
from tests.world import POLICY, World, at, denied, native

PROTOCOL = """
agents = ["till-*"]
initial = "start"
final = ["paid"]
[transitions.start]
pay = "paid"
"""
SAMPLES = Path(__file__).parent / "adapters"
DAY = 24 * 60  # minutes


def samples() -> dict[str, list[bytes]]:
    """The recorded lines of every adapter."""
    return {
        path.stem: path.read_bytes().splitlines()
        for path in sorted(SAMPLES.glob("*.ndjson"))
        if path.stem in adapter.names() and path.with_suffix(".golden.ndjson").exists()
    }


def paused(world: World, now: datetime) -> None:
    """Two agents that were paused: one stands still, one was let go."""
    kept, ended = (
        pauses.ask(
            world.store, world.lander, [gate()],
            Wish(Whom("agent", name), now + timedelta(hours=1), "ann", "odd", name), now,
        )
        for name in ("a1", "a2")
    )  # fmt: skip
    with world.store.writing() as db:
        applying.catch_up(db)
    pauses.resume(world.store, world.lander, ended, "bob", "a drill", now)
    [row] = world.rows("SELECT * FROM pauses WHERE pause_id = $id", id=kept)
    yes = Answer(Delivered(), 200, "paused")
    pauses.answered(world.lander, row, "pause", yes, now + timedelta(seconds=1))


def contents(world: World, now: datetime) -> dict[str, str]:
    """Everything judged and applied, then what the tables hold."""
    world.engine.judge(now, whole=True)
    with world.store.writing() as db:
        applying.catch_up(db)
    world.engine.judge(now, whole=True)
    with world.store.reading() as db:
        return digests(db)


def again(world: World, folder: Path) -> World:
    """A second world, made of the first one's ledger alone."""
    world.close()
    shutil.copytree(world.folder / "gatewatch.ledger", folder / "gatewatch.ledger")
    return World(folder, policy=None)


def fill(world: World, seed: int, day: int = 3) -> None:
    """All formats in random batches, some of them twice, with lines that nobody can read."""
    chance = random.Random(seed)  # noqa: S311 - an order, not a secret
    batches: list[Batch] = []
    for name, lines in samples().items():
        size = chance.randint(8, 20)
        for start in range(0, len(lines), size):
            some = lines[start : start + size]
            batches.append(Batch(f"of_{name}", name, tuple(some), pos=f"{name}:{start}"))
            if chance.random() < 0.3:  # comes again, half of it with something new behind it
                batches.append(
                    Batch(f"of_{name}", name, (*some[:2], *lines[-1:]), zone="Asia/Tokyo")
                )
    broken = (b"{not json", b"\xff\xfe", b'{"token":"AKIAIOSFODNN7EXAMPLE","ts":"x"}', b'{"a":1}')
    batches += [
        Batch("gate", "native", broken),
        Batch("gate", "native", (denied(5), native(6, decision="allow")), agent="a9"),
        Batch("gate", "native", tuple(denied(n) for n in range(4)), key="k1"),
        Batch("gate", "native", tuple(denied(n) for n in range(4)), key="k1"),
    ]
    chance.shuffle(batches)
    for number, batch in enumerate(batches):
        offsets = (Offset("gate", f"/logs/{number % 3}", 1, number % 3, number, "p", 1, False),)
        given = Batch(**{**vars(batch), "offsets": offsets})
        world.lander.land(given, at(day * DAY + number))
    live = day * DAY + len(batches)  # lines that come when they say that they were written
    world.land([native(live, kind="message"), native(live - 1, kind="message")], now=at(live))


def test_a_database_made_anew_from_the_ledger_is_the_same(tmp_path: Path) -> None:
    now = at(4 * DAY)
    world = World(tmp_path / "first")
    fill(world, 1)
    world.engine.judge(now, whole=True)
    first, second, third, fourth = (row["alert_id"] for row in world.rows(
        "SELECT alert_id FROM alerts WHERE status IN ('open', 'resolved') ORDER BY alert_id LIMIT 4"
    ))  # fmt: skip
    triage.acknowledge(world.store, world.lander, first, "ann", "on it", now)
    triage.judge(world.store, world.lander, second, "true", "ann", "it did", now)
    triage.judge(world.store, world.lander, third, "expected", "bob", "a drill", now)
    retries, hour = silences.Matchers(detector="deny_retry"), now + timedelta(hours=1)
    silences.add(world.store, world.lander, retries, hour, "ann", "noise", now)
    ended = silences.add(world.store, world.lander, retries, hour, "bob", "a drill", now)
    silences.end(world.store, world.lander, ended["silence_id"], "bob", now + timedelta(minutes=5))
    triage.assign(world.store, world.lander, first, "bob", "ann", "", now)
    triage.judge(world.store, world.lander, fourth, "true", "ann", "it did", now)
    triage.reopen(world.store, world.lander, fourth, "bob", "it did not", now)
    triage.label(world.store, world.lander, [{"trace_id": "t-1", "label": "good"}], "import", now)
    paused(world, now)
    world.lander.seal(now + timedelta(days=1))
    stricter = POLICY | {"tools": [{"name": "crm.read", "action": "deny", "op": "commit"}]}
    world.close()
    world = World(tmp_path / "first", policy=stricter)
    (tmp_path / "protocols").mkdir()
    (tmp_path / "protocols" / "till.toml").write_text(PROTOCOL)
    put_protocols(world.store, world.lander, tmp_path / "protocols")
    fill(world, 2)
    before = contents(world, now)

    other = again(world, tmp_path / "second")
    after = contents(other, now)
    other.close()

    assert after == before
    assert not any(each.startswith("0 ") for name, each in before.items()
                   if name not in ("prunes", "rules", "proposals"))  # fmt: skip


def test_a_database_made_anew_after_pruning_is_the_pruned_one_for_every_format(
    tmp_path: Path,
) -> None:
    """Lines that give many events, calls over many lines, what came twice, weeks apart."""
    now = at(46 * DAY)  # no detector may look back further than what is kept
    world = World(tmp_path / "first", policy=None)
    fill(world, 3, day=3)
    fill(world, 4, day=4)
    fill(world, 5, day=45)
    world.engine.judge(now, whole=True)
    [events] = world.rows("SELECT count(*) AS n FROM events")
    reach = {each.id: each.lookback for each in world.detectors.values()}

    done = prune(world.store, world.lander, Retention(Duration("30 days")), reach, now)
    before = contents(world, now)
    [left] = world.rows("SELECT count(*) AS n FROM events")
    other = again(world, tmp_path / "second")
    after = contents(other, now)
    other.close()

    assert done is not None
    assert done.lines > 100
    assert 0 < left["n"] < events["n"]
    assert after == before
