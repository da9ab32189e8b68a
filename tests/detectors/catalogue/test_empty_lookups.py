import json
import random
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.kit import Event, at, case, executed, judge, store

LOW = {"misses": 2}


def columns(dice: random.Random) -> dict[str, Any]:
    return {
        "kind": "tool_executed",
        "op": dice.choice(["lookup", "lookup", "commit", None]),
        "status": dice.choice([None, "ok", "ok", "error"]),
        "response": dice.choice([None, "[]", "[]", "[]", {"rows": [1]}]),
        "response_rows": dice.choice([None, None, 0, 3]),
    }


def minutes(count: int, every: float = 1, start: str = "09:00") -> list[Any]:
    return [at(start) + i * timedelta(minutes=every) for i in range(count)]


def looked(*clock: Any, **more: Any) -> list[Event]:
    """One lookup each, every one for something else, and nothing found."""
    own = {"tool": "crm.search", "op": "lookup", "response": "[]"} | more
    return [e for i, when in enumerate(clock) for e in executed(when, **{"params": {"q": i}} | own)]


def test_eight_lookups_that_find_nothing_fire_and_seven_are_quiet() -> None:
    [found] = judge("empty_lookups", looked(*minutes(8)))

    assert (found["subject"], found["misses"], found["tools"]) == ("a1", 8, ["crm.search"])
    assert (found["started_at"], len(found["event_ids"])) == (at("09:00"), 8)
    assert judge("empty_lookups", looked(*minutes(7))) == []


def test_the_same_lookup_eight_times_fires_as_well() -> None:
    assert judge("empty_lookups", looked(*minutes(8), params={"q": "x"}))


def test_whatever_the_tool_they_fire_together_with_the_names_of_all() -> None:
    half = looked(*minutes(4)), looked(*minutes(4, start="09:04"), tool="wiki.find")

    [found] = judge("empty_lookups", half[0] + half[1])

    assert found["tools"] == ["crm.search", "wiki.find"]


def test_an_answer_in_between_is_quiet_and_one_before_them_does_not_matter_so_they_fire() -> None:
    answer = {"response": {"results": [{"id": 1}]}}

    assert judge("empty_lookups", looked(*minutes(8)) + looked("09:04:30", **answer)) == []
    assert judge("empty_lookups", looked("08:59", **answer) + looked(*minutes(8)))


def test_exactly_within_fires_and_a_second_more_is_quiet() -> None:
    assert judge("empty_lookups", looked(*minutes(7), "09:30"))
    assert judge("empty_lookups", looked(*minutes(7), "09:30:01")) == []


@pytest.mark.parametrize(
    "columns",
    [
        {"response": None, "response_rows": 0},
        {"response": "{}"},
        {"response": "null"},
        {"response": '""'},
        {"response": '{"results": []}'},
        {"response": '{"query": "x", "items": [], "total": 0, "next": null}'},
        {"response": '{"ok": true, "data": null}'},
        {"response": '{"count": 0}'},
        {"response": '"No results found for x."'},
        {"response": '"未找到相关记录"'},
        {"response": '{"content": [{"type": "text", "text": "No files found"}]}'},
        {"response": None, "status": "error", "error": "HTTP 404"},
        {"response": None, "status": "error", "error": "NoSuchKey: the key does not exist"},
        {"response": None, "response_bytes": 0},
    ],
)
def test_whatever_says_that_there_is_nothing_fires(columns: dict[str, Any]) -> None:
    assert judge("empty_lookups", looked(*minutes(8), **columns))


@pytest.mark.parametrize(
    "columns",
    [
        {"response": '[{"id": 1}]'},
        {"response": '{"balance": 0}'},
        {"response": '{"exists": false}'},
        {"response": '{"user": {"name": "x", "items": []}}'},
        {"response": '{"count": 3, "items": []}'},
        {"response": "0"},
        {"response": '"the page was empty, so I filled it"'},
        {"response": "[]", "response_rows": 2},
        {"response": None, "status": "error", "error": "connection reset"},
        {"response": None, "status": "timeout"},
        {"response": None},
        {"op": "commit"},
        {"op": "verify"},
        {"tool": "queue.receive"},
        {"status": "denied"},
    ],
)
def test_an_answer_or_no_word_of_one_is_quiet(columns: dict[str, Any]) -> None:
    assert judge("empty_lookups", looked(*minutes(12), **columns)) == []


def test_a_lookup_that_timed_out_neither_counts_nor_ends_the_run_so_it_fires() -> None:
    unclear = looked("09:03:30", status="timeout", response=None)

    [found] = judge("empty_lookups", looked(*minutes(8)) + unclear)

    assert found["misses"] == 8


def test_two_agents_tenants_or_traces_do_not_add_up_so_they_are_quiet() -> None:
    for name in ("agent", "tenant", "trace_id"):
        both = looked(*minutes(7)) + looked(*minutes(7), **{name: "other"})
        assert judge("empty_lookups", both) == []


def test_without_a_trace_the_session_fires() -> None:
    assert judge("empty_lookups", looked(*minutes(8), trace_id=None, session="s-1"))


def test_a_call_that_is_told_twice_counts_once_so_four_calls_are_quiet_d13() -> None:
    twice = [
        e for i in range(4) for e in looked(*minutes(2, 0.5, f"09:0{i}"), call_id=f"call-0123-{i}")
    ]

    assert judge("empty_lookups", twice) == []


def test_a_thousand_misses_fire_with_the_last_twenty_as_evidence_d10() -> None:
    rows = judge("empty_lookups", looked(*minutes(1_000, 0.01)))

    assert rows[-1]["misses"] == 1_000
    assert rows[-1]["event_ids"] == [f"e{i:05}" for i in range(980, 1_000)]


def test_what_came_back_empty_all_the_day_before_is_quiet_and_new_it_fires_for_a_day() -> None:
    first = at("2026-03-08T00:00:00")
    watch = looked(*[first + i * timedelta(minutes=3) for i in range(20 * 30)])

    rows = judge("empty_lookups", watch)

    assert rows[0]["ended_at"] == first + timedelta(minutes=21)
    assert max(row["ended_at"] for row in rows) < first + timedelta(hours=30)


def test_an_answer_of_any_shape_is_read_without_an_error_and_deep_ones_are_quiet() -> None:
    deep = json.loads("[" * 100 + "]" * 100)
    shapes = [deep, {"a": "\\"}, {'"': []}, "x" * 5_000, {"content": "text"}, {"content": [[]]}]

    for shape in shapes:
        assert judge("empty_lookups", looked(*minutes(12), response=json.dumps(shape))) == []


def test_the_words_that_say_nothing_was_found_are_read_in_whole_answers_only() -> None:
    ask = "SELECT came_back_empty('ok', NULL, to_json($text), NULL, NULL)"
    db = store()

    def empty(text: str) -> object:
        return db.execute(ask, {"text": text}).fetchall()[0][0]

    assert empty("Nothing matched: 0 files found")
    assert not empty("No. 5 is ready")
    assert not empty("Report. " * 30 + "No results found")


@pytest.mark.parametrize("which", ["B064", "B066", "B083"])
def test_calls_without_an_answer_are_quiet(tmp_path: Path, which: str) -> None:
    assert case("empty_lookups", tmp_path, which) == []
