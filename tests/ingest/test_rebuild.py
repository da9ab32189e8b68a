"""The database is a function of the ledger: made anew it is the same, table by table."""

import random
import shutil
from datetime import datetime, timedelta
from pathlib import Path

from detectors import triage
from ingest import adapter
from ingest.batch import Batch, Offset
from ingest.contents import digests
from tests.world import POLICY, World, at, denied, native

SAMPLES = Path(__file__).parent / "adapters"
DAY = 24 * 60  # minutes


def samples() -> dict[str, list[bytes]]:
    """The recorded lines of every adapter."""
    return {
        path.stem: path.read_bytes().splitlines()
        for path in sorted(SAMPLES.glob("*.ndjson"))
        if path.stem in adapter.names() and path.with_suffix(".golden.ndjson").exists()
    }


def contents(world: World, now: datetime) -> dict[str, str]:
    """Everything judged and applied, then what the tables hold."""
    world.engine.judge(now, whole=True)
    with world.store.writing() as db:
        triage.catch_up(db)
    world.engine.judge(now, whole=True)
    with world.store.reading() as db:
        return digests(db)


def again(world: World, folder: Path) -> World:
    """A second world, made of the first one's ledger alone."""
    world.close()
    shutil.copytree(world.folder / "gatewatch.ledger", folder / "gatewatch.ledger")
    return World(folder, policy=None)


def fill(world: World, seed: int) -> None:
    """All formats in random batches, some of them twice, with lines that nobody can read."""
    chance = random.Random(seed)  # noqa: S311 - an order, not a secret
    batches: list[Batch] = []
    for name, lines in samples().items():
        size = chance.randint(4, 12)
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
        world.lander.land(given, at(3 * DAY + number))


def test_a_database_made_anew_from_the_ledger_is_the_same(tmp_path: Path) -> None:
    now = at(4 * DAY)
    world = World(tmp_path / "first")
    fill(world, 1)
    world.engine.judge(now, whole=True)
    first, second, third = (row["alert_id"] for row in world.rows(
        "SELECT alert_id FROM alerts WHERE status IN ('open', 'resolved') ORDER BY alert_id LIMIT 3"
    ))  # fmt: skip
    triage.acknowledge(world.store, world.lander, first, "ann", "on it", now)
    triage.judge(world.store, world.lander, second, "true", "ann", "it did", now)
    triage.judge(world.store, world.lander, third, "expected", "bob", "a drill", now)
    triage.silence(world.store, world.lander, "deny_retry", None, now, "ann", "noise", now)
    triage.label(world.store, world.lander, [{"trace_id": "t-1", "label": "good"}], "import", now)
    world.lander.seal(now + timedelta(days=1))
    stricter = POLICY | {"tools": [{"name": "crm.read", "action": "deny", "op": "commit"}]}
    world.close()
    world = World(tmp_path / "first", policy=stricter)
    fill(world, 2)
    before = contents(world, now)

    other = again(world, tmp_path / "second")
    after = contents(other, now)
    other.close()

    assert after == before
    assert not any(each.startswith("0 ") for name, each in before.items()
                   if name not in ("prunes", "rules", "proposals"))  # fmt: skip
