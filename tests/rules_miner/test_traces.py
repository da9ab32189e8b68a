import json
import warnings
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ingest.config import ConfigError
from ingest.store import Store, memory_store
from rules_miner import traces
from rules_miner.mine import mine
from rules_miner.points import history, points
from rules_miner.settings import Settings
from rules_miner.traces import Run, family_of, runs
from tests.kit import ROOT
from tests.rules_miner.kit import NOW, done, insert, run_of, said, stored
from tests.rules_miner.planted import draw

FIXTURES = ROOT.parent / "shared/cases/fixtures"


def event(name: str, minute: int, kind: str = "tool_executed", **more: Any) -> dict[str, Any]:
    row = {"event_id": name, "kind": kind, "source": "gate", "ledger_seq": minute, "agent": "a1"}
    return row | {"ts": NOW + timedelta(minutes=minute), "trace_id": "t-1", **more}


def label(name: str = "i1", what: str = "misaction", **more: Any) -> dict[str, Any]:
    row = {"incident_id": name, "label": what, "trace_id": "t-1", "author": "u"}
    return row | {"labelled_at": NOW, **more}


def read(events: list[dict[str, Any]], *labels: dict[str, Any], **more: Any) -> list[Run]:
    return runs(filled(events, *labels), **more)


def filled(events: list[dict[str, Any]], *labels: dict[str, Any]) -> Store:
    store = memory_store()
    for row in events:
        insert(store, "events", [row])
    for row in labels:
        insert(store, "incidents", [row])
    return store


class Remote:
    """Answers as the service does: what SQL gives, as Arrow, cut, and back into rows."""

    def __init__(self, store: Store, rows: int = 100_000) -> None:
        self.store, self.most = store, rows

    def rows(self, sql: str, **params: Any) -> list[dict[str, Any]]:
        with self.store.reading() as db, warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # about a copy of the rows
            table: Any = db.execute(sql, params).to_arrow_table()
        found: list[dict[str, Any]] = table.slice(0, self.most).to_pylist()
        return found


def test_a_call_whose_parts_arrived_apart_is_one_decision_point() -> None:
    parts = [
        event("p", 1, "tool_proposed", call_id="c", tool="pay", op="commit", params='{"n": 1}'),
        event("m", 2, "message", role="user", text="yes"),
        event("d", 3, "tool_decided", call_id="c", decision="allow"),
        event("x", 4, call_id="c", status="ok", response='{"done": true}'),
    ]
    store = filled(parts)
    call = {
        "call_key": "k",
        "trace_id": "t-1",
        "tool": "pay",
        "op": "commit",
        "event_ids": ["p", "d", "x"],
    }
    insert(store, "calls", [{**call, "params": '{"n": 1}', "ts": NOW, "last_ts": NOW}])

    [run] = runs(store)

    [point] = points(run)
    assert (point.at, point.point, point.call.params) == (0, "pre_commit", {"n": 1})
    assert [each.call_key for each in run.events] == ["k", "m", "k", "k"]
    assert run.events[3].response == {"done": True}
    assert len(history(run.events)) == 1


def test_only_calls_whose_operation_is_known_are_decision_points() -> None:
    rows = [event("a", 1, tool="x"), event("b", 2, tool="y", op="verify")]

    [run] = read(rows)

    assert [each.point for each in points(run)] == ["pre_call"]


def test_a_run_belongs_to_the_window_in_which_it_began() -> None:
    rows = [event("a", 0, tool="x"), event("b", 60, tool="x")]

    assert len(read(rows, since=NOW, until=NOW + timedelta(minutes=1))) == 1
    assert read(rows, since=NOW + timedelta(minutes=1)) == []
    assert read(rows, until=NOW) == []


def test_traces_without_a_call_and_events_without_a_trace_are_no_runs() -> None:
    assert read([event("a", 0, "message"), event("b", 1, tool="x", trace_id=None)]) == []


def test_a_label_that_was_given_after_the_window_is_not_known_in_it() -> None:
    rows, late = [event("a", 0, tool="x")], label(labelled_at=NOW + timedelta(days=2))

    assert [run.label for run in read(rows, late)] == ["misaction"]
    assert [run.label for run in read(rows, late, until=NOW + timedelta(days=1))] == [None]


def test_a_label_without_a_tenant_is_for_the_run_of_that_trace() -> None:
    rows = [event("a", 0, tool="x", tenant="north")]

    assert read(rows, label())[0].label == "misaction"
    assert read(rows, label(tenant="north"))[0].label == "misaction"
    assert read(rows, label(tenant="south"))[0].label is None


def test_a_reader_over_arrow_gives_the_same_runs() -> None:
    store = stored(draw(0)[:20])

    assert runs(Remote(store)) == runs(store)


def test_an_answer_that_was_cut_is_an_error_and_not_half_a_run() -> None:
    store = filled([event(str(at), at, tool="x") for at in range(8)])

    with pytest.raises(ConfigError, match="has 8 events, and the service gave 5 of them"):
        runs(Remote(store, rows=5))


def test_the_latest_label_of_a_run_counts() -> None:
    rows = [event("a", 0, tool="x")]
    first, second = label("i1"), label("i2", "good", labelled_at=NOW + timedelta(days=1))

    [run] = read(rows, first, second)

    assert (run.label, run.commit) == ("good", None)


@pytest.mark.parametrize(
    ("more", "step"),
    [
        ({"event_id": "c"}, 2),
        ({"committed_at": NOW + timedelta(minutes=4)}, 4),
        ({"committed_at": NOW + timedelta(minutes=4, seconds=5)}, 4),
        ({"event_id": "unheard of"}, 3),
        ({}, 3),
    ],
)
def test_the_commit_step_is_as_labelled_or_the_first_commit_that_took_effect(
    more: dict[str, Any], step: int
) -> None:
    rows = [
        event("a", 0, tool="get", op="lookup", status="ok"),
        event("b", 1, "tool_decided", tool="pay", op="commit", decision="deny"),
        event("c", 2, tool="pay", op="commit", status="error"),
        event("d", 3, tool="pay", op="commit", status="ok"),
        event("e", 4, tool="pay", op="commit", status="ok"),
    ]

    [run] = read(rows, label(**more))

    assert run.commit == step


def test_families_come_from_the_label_the_task_the_prompt_or_the_trace() -> None:
    assert family_of("t-1", "task 7", "hello") == "task 7"
    assert family_of("t-1", None, "hello") == family_of("u-9", None, "hello")
    assert family_of("night-job-17", None, None) == family_of("night-job-18", None, None)
    assert family_of("night-job-17", None, None) != family_of("day-job-17", None, None)
    uuid = "6f1c2a4e-1111-2222-3333-444455556666"
    assert family_of(uuid, None, None) == uuid
    [run] = read([event("a", 0, tool="x", task="7")], label(family="same incident"))
    assert run.family == "same incident"


def test_domains_come_from_the_users_map_the_namespace_or_the_source() -> None:
    tools = ("crm.get_user", "mail_send", "get", "EVIL <b>.x")
    rows = [event(name, at, tool=name, op="lookup") for at, name in enumerate(tools)]

    [run] = read(rows, domains={"mail_": "mail", "m": "other"})

    found = [each.call.domain for each in points(run)]
    assert found[:3] == ["crm", "mail", "gate"]
    assert found[3].startswith("d-")


def test_pages_of_runs_join_without_a_seam(monkeypatch: pytest.MonkeyPatch) -> None:
    store = stored(draw(0)[:40])
    whole = runs(store)
    monkeypatch.setattr(traces, "PAGE", 7)
    monkeypatch.setattr(traces, "ROWS", 11)

    assert runs(store) == whole
    assert len(whole) == 40


def test_what_is_no_json_is_kept_as_text() -> None:
    [run] = read([event("a", 0, tool="x", response='"null"', params="null")])

    assert (run.events[0].response, run.events[0].params) == ("null", "")


def test_a_record_that_arrived_four_times_is_one_event() -> None:
    """B160: two approvals, repeated four times, support nothing."""
    lines = (FIXTURES / "B160-support-inflated.jsonl").read_text().splitlines()
    rows = [
        event(doc["event_id"], 0, "approval_decided", tool=doc["tool"], op="lookup")
        for doc in map(json.loads, lines)
    ]

    [run] = read(rows, label())
    found = mine([run], [], Settings())

    assert len(run.events) == 2
    assert found.runs == {"misaction": 1, "good": 0, "unknown": 0}
    assert found.proposals == ()


@pytest.mark.parametrize("name", ["B158-too-broad", "B162-verbatim", "B163-compound"])
def test_many_near_equal_commands_make_no_rule_about_a_command(name: str) -> None:
    """B158, B162: no rule rests on the words of an argument, so none is too broad."""
    lines = Path(FIXTURES / f"{name}.jsonl").read_text().splitlines()
    rows = [
        event(doc["event_id"], at, tool=doc["tool"], op="commit", trace_id=f"t-{at}",
              task=str(at), params=json.dumps(doc["params"]))
        for at, doc in enumerate(map(json.loads, lines))
    ]  # fmt: skip
    labels = [label(f"i{at}", trace_id=f"t-{at}") for at in range(len(rows))]

    found = mine(read(rows, *labels), [], Settings())

    assert len(found.proposals) <= 1
    assert all("params" not in each.normal["when"] for each in found.proposals)


def test_history_knows_what_came_since_the_user_and_since_the_last_commit() -> None:
    run = run_of(done("a"), done("b", "commit"), done("c"), said("user", "hello"), done("d"))

    past = history(run.events)

    assert [(each.tool, each.since_user, each.since_commit) for each in past] == [
        ("a", False, False), ("b", False, False), ("c", False, True), ("d", True, True),
    ]  # fmt: skip
