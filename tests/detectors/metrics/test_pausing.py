"""Pauses on the page of metrics: all states from the start, and only what is not over."""

from datetime import timedelta

from detectors.metrics import pausing
from ingest.store import memory_store
from tests.dashboards.insert import NOW, put


def test_each_state_is_there_before_anybody_was_paused() -> None:
    [family] = pausing.families(memory_store(), NOW)

    assert family.rows == {(state,): 0.0 for state in pausing.STATES}


def test_what_is_over_counts_no_more_but_a_gate_that_does_not_let_go_does() -> None:
    store = memory_store()
    common = {
        "gate": "till", "kind": "agent", "tenant": "", "reason": "", "actor": "mei",
        "alert_id": "", "automatic": False, "asked_at": NOW, "next_at": NOW, "attempts": 1,
    }  # fmt: skip
    for number, (state, hours) in enumerate(
        (("confirmed", 1), ("confirmed", 1), ("refused", 1), ("refused", -1), ("stuck", -1),
         ("resumed", 1), ("expired", -1))
    ):  # fmt: skip
        put(store, "pauses", pause_id=f"pa_{number}", name="a1", state=state,
            until=NOW + timedelta(hours=hours), **common)  # fmt: skip

    [family] = pausing.families(store, NOW)

    assert family.rows == {
        ("asked",): 0.0, ("confirmed",): 2.0, ("refused",): 1.0, ("resuming",): 0.0,
        ("stuck",): 1.0,
    }  # fmt: skip
