"""latch: an answer that a person gave was asked for, whatever it was."""

from pathlib import Path

from tests.ingest.adapters import kit
from tests.world import World, at


def test_an_approval_counts_whether_it_was_given_or_refused(tmp_path: Path) -> None:
    answers = [
        {
            "id": f"{n:08}-0000-4000-8000-00000000a7c4", "timestamp": at(n).isoformat(),
            "toolName": "Bash", "toolInput": {"command": "ls"}, "action": "browser",
            "decision": decision, "reason": "a person", "method": "browser", "mode": "hook",
        }
        for n, decision in enumerate(("allow", "deny", "deny"))
    ]  # fmt: skip
    world = World(tmp_path)

    world.land([kit.encoded(each) for each in answers], adapter="latch")
    [row] = world.rows("SELECT sum(approvals)::BIGINT AS n FROM minute_counts")
    world.close()

    assert row["n"] == 3
