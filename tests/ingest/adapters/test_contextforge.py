"""mcp-context-forge: what is sent again is the same event, and a failure is no refusal."""

from tests.ingest.adapters import kit


def test_an_event_that_is_sent_again_counts_once() -> None:
    first = kit.sample("contextforge")[0]

    rows = kit.read(
        "contextforge", [first | {"_meta": {"attempt": attempt}} for attempt in range(3)]
    )

    assert len({row["event_id"] for row in rows}) == 1


def test_an_operation_that_failed_was_not_denied_by_anybody() -> None:
    first = kit.sample("contextforge")[0]
    failed = first | {"action_taken": "denied", "context": first["context"] | {"success": False}}

    [row] = kit.read("contextforge", [failed])

    assert (row["kind"], row["status"], row["decision"]) == ("other", "error", None)
