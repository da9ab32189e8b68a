"""What a source can feed follows from what detectors need and from what its events hold."""

from datetime import UTC, datetime

import pytest

from detectors import coverage, detector
from ingest import adapter
from ingest.config import ConfigError
from ingest.store import memory_store

COLUMNS = ("agent", "tool", "decision", "status", "host", "trace_id", "call_id", "kind")
WANTED = coverage.needs(
    {
        "refused": ["agent", "tool", "decision"],
        "run": ["decision", "status", "call_id"],
        "away": ["agent", "host or kind egress"],
        "any": [],
    },
    COLUMNS,
)


def told(**sources: dict[str, float | None]) -> dict[tuple[str, str], coverage.Feed]:
    return {(each.source, each.detector): each for each in coverage.feeds(sources, WANTED)}


def test_a_source_that_holds_all_that_is_needed_feeds_alone() -> None:
    found = told(gate={"agent": 1.0, "tool": 0.9, "decision": 0.5})

    assert found["gate", "refused"].feeds == "alone"
    assert found["gate", "refused"].filled == {"agent": 1.0, "tool": 0.9, "decision": 0.5}
    assert found["gate", "any"].feeds == "alone"
    assert (found["gate", "away"].feeds, found["gate", "away"].lacks) == (
        "no",
        ("host or kind egress",),
    )


def test_what_no_event_holds_is_lacking() -> None:
    found = told(gate={"agent": 1.0, "tool": 0.0, "decision": 0.5})

    assert (found["gate", "refused"].feeds, found["gate", "refused"].lacks) == ("no", ("tool",))


def test_without_an_agent_it_is_fed_and_counts_for_less() -> None:
    found = told(gate={"tool": 1.0, "decision": 1.0})

    assert found["gate", "refused"].feeds == "alone"
    assert found["gate", "refused"].coarse == ("agent",)


def test_the_outcome_of_a_call_may_come_from_another_source_and_its_host_may_not() -> None:
    found = told(
        gate={"agent": 1.0, "decision": 1.0, "call_id": 1.0},
        proxy={"status": 1.0, "call_id": 0.2, "host or kind egress": 1.0},
    )

    assert found["gate", "run"].feeds == found["proxy", "run"].feeds == "with others"
    assert found["gate", "run"].others == {"status": ("proxy",)}
    assert found["gate", "away"].feeds == "no"
    assert found["gate", "away"].others == {}


def test_a_kind_needs_no_column() -> None:
    [need] = coverage.needs({"d": ["kind approval_requested or approval_decided"]}, COLUMNS)["d"]

    assert need.met([], ["approval_decided"])
    assert not need.met(["agent"], ["egress"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("agnet", "d: needs: no column 'agnet'. Did you mean 'agent'?"),
        ("agent or 1=1", "d: needs: '1=1' is neither a column nor a kind."),
    ],
)
def test_a_need_of_nothing_is_named(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        coverage.needs({"d": [text]}, COLUMNS)

    assert str(raised.value) == said


def test_every_detector_needs_columns_that_there_are() -> None:
    headers = {name: detector.declared(path).needs for name, path in detector.files().items()}
    with memory_store().writing() as db:
        wanted = coverage.needs(headers, coverage.columns_of(db))

    assert wanted.keys() == headers.keys()
    assert {need.text for those in wanted.values() for need in those} >= {"agent", "decision"}


@pytest.mark.parametrize(
    ("name", "fills"), [("gatehouse", {"agent", "decision"}), ("native", {*COLUMNS})]
)
def test_what_an_adapter_could_fill_is_what_its_columns_are(name: str, fills: set[str]) -> None:
    with memory_store().writing() as db:
        wanted = coverage.needs({each: [each] for each in COLUMNS[:5]}, COLUMNS)
        loaded = adapter.load(name, db, "tests")
        with adapter.lines(db, "", datetime.fromtimestamp(0, UTC), ()):
            found = coverage.possible(loaded, db, [each for [each] in wanted.values()])

    assert found.keys() >= fills & {*COLUMNS[:5]}
    assert ("status" in found) == ("status" in fills)
