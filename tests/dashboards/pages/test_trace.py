"""A trace step by step, its relatives, and one that is far too long (case B150)."""

from dashboards.filters import Filters
from dashboards.pages import trace
from ingest.store import memory_store
from tests.dashboards import rows, service
from tests.dashboards.insert import NOW, put

PAGE = 5_000_000  # bytes: the most that one page may send


def test_steps_come_in_order_with_the_alert_that_touches_them() -> None:
    data = trace.load(service.client(rows.example()), Filters(NOW, trace="t-17"))

    assert data.steps["step"].to_list() == [1, 2, 3, 4, 5, 6, 7]
    marked = data.steps.filter(alert_id="al_7f3a")
    assert marked["step"].to_list() == [3, 4, 5]
    assert marked["alert_severity"].unique().to_list() == ["high"]


def test_parent_and_children_are_named() -> None:
    store = rows.example()
    for own, parent in (("t-18", "t-17"), ("t-17", "t-16")):
        put(store, "events", event_id=own, kind="message", source="gate", ledger_seq=99,
                 ts=NOW, trace_id=own, parent_trace_id=parent)  # fmt: skip

    family = trace.load(service.client(store), Filters(NOW, trace="t-17")).family

    assert family.rows() == [("parent", "t-16"), ("child", "t-18")]


def test_a_million_steps_are_cut_to_a_page_and_counted() -> None:
    store = memory_store()
    with store.writing() as db:
        db.execute("""
            INSERT INTO events BY NAME
            SELECT 'e' || i AS event_id, 'tool_executed' AS kind, 'gate' AS source,
                   i AS ledger_seq, TIMESTAMPTZ '2026-03-10 09:00:00Z' AS ts, 'agent-a' AS agent,
                   't-1' AS trace_id, 'file.read' AS tool, 'allow' AS decision, 'ok' AS status,
                   {'p': repeat('x', 200)}::JSON AS params
            FROM range(1000000) AS r(i)""")

    client = service.client(store)
    data = trace.load(client, Filters(NOW, trace="t-1"))
    listed = trace.load(client, Filters(NOW))

    assert (len(data.steps), data.sums["steps"]) == (500, 1_000_000)
    assert data.steps.estimated_size() < PAGE
    assert (len(listed.traces), listed.traces["steps"].item(0)) == (1, 1_000_000)
