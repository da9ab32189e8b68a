"""Smokescreen: a connection counts once, and one that is only reported is an open door."""

from pathlib import Path

from tests.ingest.adapters import kit
from tests.ingest.adapters.kit import Row
from tests.world import World, at

DECISION: Row = {
    "allow": True, "decision_reason": "rule is report only", "enforce_would_deny": True,
    "id": "sm-1", "level": "info", "msg": "CANONICAL-PROXY-DECISION", "proxy_type": "connect",
    "requested_host": "new.example.org:443", "role": "billing-bot",
    "start_time": "2026-03-10T09:00:00.1Z", "time": "2026-03-10T01:00:00-08:00",
}  # fmt: skip
CLOSE = DECISION | {
    "msg": "CANONICAL-PROXY-CN-CLOSE", "bytes_in": 5, "error": "",
    "end_time": "2026-03-10T09:00:09Z",
}  # fmt: skip


def test_the_end_of_a_connection_is_no_second_one() -> None:
    rows = kit.read("smokescreen", [DECISION, CLOSE])

    assert [(row["kind"], row["response_bytes"]) for row in rows] == [
        ("egress", None),
        ("other", 5),
    ]
    assert rows[0]["event_id"] != rows[1]["event_id"]


def test_an_answer_of_any_type_is_read() -> None:
    said = [True, "true", "TRUE", False, "false", None, 1]

    rows = kit.read("smokescreen", [DECISION | {"allow": answer} for answer in said])

    assert [row["decision"] for row in rows] == ["allow"] * 3 + ["deny"] * 2 + [None] * 2


def test_what_is_only_reported_reached_its_host(tmp_path: Path) -> None:
    world = World(tmp_path)
    denied = DECISION | {"id": "sm-2", "allow": False, "role": "report-bot"}

    world.land(
        [kit.encoded(each) for each in (DECISION, CLOSE, denied)], at(60), adapter="smokescreen"
    )
    found = {row[1]: row[2] for row in world.backtest() if row[0] == "'unlisted_egress'"}
    world.close()

    assert found == {
        "'billing-bot -> new.example.org'": "'high'",
        "'report-bot -> new.example.org'": "'low'",
    }


def test_the_two_lines_of_a_connection_are_no_conflict_of_ids(tmp_path: Path) -> None:
    world = World(tmp_path)

    landed = world.land([kit.encoded(DECISION), kit.encoded(CLOSE)], adapter="smokescreen")
    world.close()

    assert (landed.events, landed.id_conflicts) == (2, 0)
