"""Codex rollout files: which session a line belongs to, a forked one, how a command ended."""

from pathlib import Path

from ingest.batch import Batch
from tests.ingest.adapters import kit
from tests.ingest.adapters.kit import Row
from tests.world import World, at

SESSION = "01a2b3c4-0000-7000-8000-00000000c0de"
FILE = f"/home/dev/.codex/sessions/2026/03/10/rollout-2026-03-10T09-00-00-{SESSION}.jsonl"


def line(second: int, kind: str, /, **payload: object) -> Row:
    stamp = f"2026-03-10T09:00:{second:02d}.000Z"
    return {"timestamp": stamp, "type": kind, "payload": payload}


def output(text: object) -> Row:
    return line(3, "response_item", type="function_call_output", call_id="call_1", output=text)


def read(*docs: Row, pos: str = "") -> list[Row]:
    return kit.read("codex_rollout", docs, pos)


def test_the_session_is_in_the_name_of_the_file_whatever_part_of_it_is_read() -> None:
    said = line(1, "response_item", type="message", role="user", content=[{"text": "Hi"}])

    assert [row["session"] for row in read(said, pos=f"{FILE}:4096")] == [SESSION]
    assert [row["session"] for row in read(said, pos=f"{FILE}.zst:0")] == [SESSION]
    assert [row["session"] for row in read(said, pos="http:127.0.0.1")] == [None]


def test_what_a_line_gives_does_not_depend_on_the_lines_beside_it() -> None:
    """They may be of another session."""
    first, second = (
        line(0, "session_meta", id="s-1", cli_version="0.150.0"),
        output("Exit code: 0\nOutput:\n"),
    )

    [_, beside] = read(first, second)
    [alone] = read(second)

    assert (beside["session"], alone["session"]) == (None, None)
    assert beside | {"ledger_seq": 1} == alone


ENDS = [
    ("Exit code: 0\nWall time: 1.5 seconds\nOutput:\nok", "ok"),
    ("Exit code: 2\nOutput:\nexit code: 0", "error"),
    ("Process exited with code 137\nOutput:\n", "error"),
    ("Output:\nexited with code 2 is what the manual says", "ok"),
    ('{"output": "x", "metadata": {"exit_code": 1, "duration_seconds": 0.2}}', "error"),
    ([{"type": "input_text", "text": "1,wang"}], "ok"),
    ({"content": "done", "success": True}, "ok"),
    (None, "ok"),
    (7, "ok"),
]


def test_how_a_command_ended_stands_before_what_it_wrote() -> None:
    rows = read(*(output(text) for text, _ in ENDS))

    assert [row["status"] for row in rows] == [status for _, status in ENDS]
    assert [row["latency_ms"] for row in rows[:5]] == [1500, None, None, None, 200]


def test_a_persons_no_is_an_answered_approval_and_the_guardians_is_a_decision() -> None:
    persons, guardians = read(
        output("exec command rejected by user"),
        output("This action was rejected due to unacceptable risk.\nReason: rm"),
    )

    assert (persons["kind"], persons["reason_code"]) == ("approval_decided", "rejected")
    assert (guardians["kind"], guardians["decision"]) == ("tool_decided", "deny")
    assert persons["status"] is guardians["status"] is None


def test_a_session_that_is_forked_into_a_second_file_has_the_same_calls(tmp_path: Path) -> None:
    call = "call_0123456789abcdef"
    past = [
        ("function_call", {"name": "exec_command", "arguments": '{"cmd": "ls"}'}),
        ("function_call_output", {"output": "Exit code: 0\nOutput:\n"}),
    ]
    first, fork = (
        [
            line(second + n, "response_item", type=t, call_id=call, **more)
            for n, (t, more) in enumerate(past)
        ]
        for second in (1, 30)
    )
    world = World(tmp_path)

    landed = [
        world.lander.land(
            Batch("codex", "codex_rollout", [kit.encoded(doc) for doc in docs]), at(60)
        )
        for docs in (first, first, fork)
    ]

    calls = world.rows("SELECT tool, status, len(event_ids) AS events FROM calls")
    world.close()
    assert [each.duplicates for each in landed] == [0, 2, 0]
    assert calls == [{"tool": "exec_command", "status": "ok", "events": 4}]
