"""Kong: what may run and what ran are one call."""

from pathlib import Path

from tests.ingest.adapters import kit
from tests.world import World, at


def test_the_audit_and_the_run_of_a_tool_are_one_call(tmp_path: Path) -> None:
    world = World(tmp_path)

    world.land([kit.encoded(doc) for doc in kit.sample("kong_ai")], at(0), adapter="kong_ai")
    rows = world.rows(
        "SELECT call_id, decision, executed_at IS NOT NULL AS ran, params FROM calls"
        " WHERE tool IS NOT NULL ORDER BY call_id"
    )
    world.close()

    assert [tuple(row.values()) for row in rows] == [
        ("k-1:delete_all", "deny", False, None),
        ("k-2:list_orders", "allow", True, '{"limit":5}'),
        ("k-4:refund_create", "allow", True, None),
    ]


def test_a_part_of_any_type_is_no_reason_to_lose_the_request() -> None:
    request = {"started_at": 1773133200123, "request": {"id": "k-1"}, "response": {"status": 200}}
    odd = [{"mcp": 7}, {"mcp": {"audit": "x", "rpc": {}}}, {"mcp": {"audit": [7, None]}}, 7, []]

    rows = kit.read("kong_ai", [{**request, "ai": ai} for ai in odd])

    assert {row["ledger_seq"] for row in rows} == {1, 2, 3, 4, 5}
