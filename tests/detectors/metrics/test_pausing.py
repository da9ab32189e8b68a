"""Pauses on the page of metrics: all states from the start, and only what is not over."""

from detectors.metrics import pausing
from ingest.store import memory_store
from tests.dashboards.insert import NOW, pauses


def test_each_state_is_there_before_anybody_was_paused() -> None:
    [family] = pausing.families(memory_store(), NOW)

    assert family.rows == {(state,): 0.0 for state in pausing.STATES}


def test_what_is_over_counts_no_more_but_a_gate_that_does_not_let_go_does() -> None:
    store = memory_store()
    pauses(
        store, ("confirmed", 1), ("confirmed", 1), ("refused", 1), ("refused", -1), ("stuck", -1),
        ("resumed", 1), ("expired", -1),
    )  # fmt: skip

    [family] = pausing.families(store, NOW)

    assert family.rows == {
        ("asked",): 0.0, ("confirmed",): 2.0, ("refused",): 1.0, ("resuming",): 0.0,
        ("stuck",): 1.0,
    }  # fmt: skip
