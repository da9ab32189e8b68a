"""Transcripts of Claude Code: a resumed session, tokens that stand on every line, refusals."""

from pathlib import Path

from ingest.batch import Batch
from tests.ingest.adapters import kit
from tests.ingest.adapters.kit import Row
from tests.world import World, at

USAGE = {"input_tokens": 2, "output_tokens": 211}


def read(*docs: Row) -> list[Row]:
    return kit.read("claude_transcript", docs)


def said(content: object, **fields: object) -> Row:
    """A line of the assistant; what is not given is as in the middle of a message."""
    message = {"id": "msg_1", "role": "assistant", "content": content, "usage": USAGE}
    message["stop_reason"] = fields.pop("stop_reason", None)
    line = {"type": "assistant", "sessionId": "s-1", "uuid": "u-1", "message": message}
    return line | {"timestamp": "2026-03-10T09:00:00Z"} | fields


def result(text: object, **fields: object) -> Row:
    """What came of a call that failed or was refused."""
    block = {"type": "tool_result", "tool_use_id": "toolu_1", "content": text, "is_error": True}
    line = {"type": "user", "sessionId": "s-1", "message": {"role": "user", "content": [block]}}
    return line | {"timestamp": "2026-03-10T09:00:01Z"} | fields


def test_a_session_that_is_resumed_into_a_second_file_gives_the_same_events() -> None:
    first = [
        line for line in kit.sample("claude_transcript") if line["type"] in ("user", "assistant")
    ]
    again = [line | {"sessionId": "resumed", "uuid": f"new-{n}"} for n, line in enumerate(first)]

    before, after = read(*first), read(*again)

    timed = [row for row in before if row["ts_quality"] == "source"]
    assert len(timed) > 15
    assert {row["event_id"] for row in timed} <= {row["event_id"] for row in after}


def test_a_resumed_session_that_lands_later_adds_no_call_and_no_token(tmp_path: Path) -> None:
    first = [line for line in kit.sample("claude_transcript") if "message" in line][:9]
    again = [line | {"sessionId": "resumed", "uuid": f"new-{n}"} for n, line in enumerate(first)]
    world = World(tmp_path)

    first_time, second_time = (
        world.lander.land(
            Batch("claude", "claude_transcript", [kit.encoded(doc) for doc in docs]), at(60)
        )
        for docs in (first, again)
    )

    world.close()
    assert first_time.events > 9
    assert (second_time.events, second_time.duplicates) == (0, first_time.events)


def test_the_tokens_of_a_message_count_once() -> None:
    rows = read(
        said([{"type": "thinking", "thinking": "Hm."}]),
        said([{"type": "text", "text": "Two calls."}], uuid="u-2"),
        said(
            [{"type": "tool_use", "id": f"toolu_{n}", "name": "Bash", "input": {}} for n in (1, 2)],
            stop_reason="tool_use",
        ),
    )

    assert len(rows) == 4
    assert sum(row["tokens_out"] or 0 for row in rows) == 211


def test_equal_words_said_twice_are_two_messages() -> None:
    rows = read(said("Yes."), said("Yes.", timestamp="2026-03-10T09:00:05Z"))

    assert len({row["event_id"] for row in rows}) == 2


REFUSALS = [
    ("The user doesn't want to proceed with this tool use.", None, "approval_decided"),
    ("No.", "user-rejected", "approval_decided"),
    ("Permission to use Bash with command rm has been denied.", None, "tool_decided"),
    ("Permission for this action has been denied. Reason: risky.", None, "tool_decided"),
    ("Claude requested permissions to write to /etc, but you haven't granted it yet.", None,
     "tool_decided"),
    ("PreToolUse:Bash hook error: [guard.py]: build is shared", None, "tool_decided"),
    ("Some words of a later version", "permission-rule", "tool_decided"),
    ("Exit code 1", None, "tool_executed"),
    ("Exit code 1: The user doesn't want to proceed", None, "tool_executed"),
    ("Stopped", "interrupted", "tool_executed"),
    (7, None, "tool_executed"),
    (None, None, "tool_executed"),
]  # fmt: skip


def test_a_refusal_is_known_by_its_kind_or_else_by_its_wording() -> None:
    rows = read(*(result(text, toolDenialKind=denial) for text, denial, _ in REFUSALS))

    assert [row["kind"] for row in rows] == [kind for _, _, kind in REFUSALS]
    for row in rows:
        executed = row["kind"] == "tool_executed"
        assert (row["decision"] is None) == executed == (row["status"] is not None)
    assert [row["status"] for row in rows[-5:]] == ["error", "error", "cancelled", "error", "error"]


def test_words_of_a_refusal_in_a_result_that_is_no_error_refuse_nothing() -> None:
    line = result("The user doesn't want to proceed with this tool use.")
    line["message"]["content"][0]["is_error"] = False

    [row] = read(line)

    assert (row["kind"], row["status"]) == ("tool_executed", "ok")


def test_a_line_without_blocks_is_kept_as_other() -> None:
    shapes: list[object] = [[], None, 7, {}]

    rows = read(*(said(content) for content in shapes), {"type": "summary", "leafUuid": "u-9"})

    assert [row["kind"] for row in rows] == ["other"] * 5
