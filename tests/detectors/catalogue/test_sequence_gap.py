import random
from datetime import timedelta
from typing import Any

import pytest

from tests.kit import Event, at, events, judge

LOW = {"late": "3 minutes"}

LATE = timedelta(minutes=15)


def columns(dice: random.Random) -> dict[str, Any]:
    number = {dice.choice(["seq", "ordinal", "event.sequence"]): dice.randrange(12)}
    chain = {"prev_hash": f"b{dice.randrange(30)}", "entry_hash": f"b{dice.randrange(30)}"}
    return {
        "attrs": dice.choice([None, number, number, chain]),
        "source": dice.choice(["gate", "gate", "proxy"]),
    }


def sent(*numbers: int, start: str = "09:00", key: str = "seq", **columns: Any) -> list[Event]:
    """One line a minute."""
    return [
        event
        for i, n in enumerate(numbers)
        for event in events(
            "heartbeat", at(start) + i * timedelta(minutes=1), attrs={key: n}, **columns
        )
    ]


@pytest.mark.parametrize("key", ["seq", "event.sequence", "ordinal"])
def test_a_number_that_never_came_fires_after_the_time_for_late_lines(key: str) -> None:
    [found] = judge("sequence_gap", sent(5, 6, 8, 9, key=key))

    assert (found["subject"], found["missing"]) == ("gate", 1)
    assert found["said"] == "1 missing between 6 and 8"
    assert (found["started_at"], found["ended_at"]) == (at("09:01"), at("09:02") + LATE)
    assert found["event_ids"] == ["e00001", "e00002"]


def test_every_number_that_came_is_quiet_in_whatever_order_and_however_often() -> None:
    assert judge("sequence_gap", sent(5, 7, 6, 8, 8, 9)) == []


def test_a_line_that_is_late_by_the_allowance_is_quiet_and_a_second_more_fires() -> None:
    found = sent(5, 6, 8, 9)

    assert judge("sequence_gap", found + sent(7, start="09:17")) == []
    assert judge("sequence_gap", found + sent(7, start="09:17:01"))


@pytest.mark.parametrize("first", [0, 1])
def test_a_numbering_that_begins_again_is_quiet_and_its_own_gap_fires(first: int) -> None:
    old = sent(*range(20, 30))

    assert judge("sequence_gap", old + sent(first, first + 1, start="09:10")) == []
    [found] = judge("sequence_gap", old + sent(first, first + 1, first + 3, start="09:10"))
    assert found["missing"] == 1


def test_the_first_line_of_a_stream_is_quiet_whatever_its_number() -> None:
    assert judge("sequence_gap", sent(37, 38)) == []


def test_numbers_are_of_a_session_so_two_sessions_are_quiet_and_a_gap_in_one_fires() -> None:
    other = sent(3, 4, 5, 6, 7, 8, session="s-2")

    assert judge("sequence_gap", sent(5, 6, 7, session="s-1") + other) == []
    [found] = judge("sequence_gap", sent(5, 7, 8, session="s-1") + other)
    assert (found["missing"], found["stream"]) == (1, "s-1")


def test_numbers_across_sessions_are_quiet_and_one_that_none_of_them_has_fires() -> None:
    def both(*numbers: int) -> list[Event]:
        return [e for n in numbers for e in sent(n, start=f"09:{n}", session=f"s-{n % 3}")]

    assert judge("sequence_gap", both(*range(10, 40))) == []
    assert judge("sequence_gap", both(*range(10, 20), *range(21, 40)))


def test_a_gap_before_the_first_line_of_a_session_fires_if_numbers_go_on() -> None:
    def each(*numbers: int) -> list[Event]:
        return [e for n in numbers for e in sent(n, start=f"09:{n}", session=f"s-{n}")]

    assert judge("sequence_gap", each(*range(10, 20), *range(21, 30)))
    assert judge("sequence_gap", each(10, 11, 21, 22)) == []


def test_a_source_that_sends_only_some_of_its_numbers_is_quiet() -> None:
    assert judge("sequence_gap", sent(*range(2, 60, 2))) == []


def test_a_thousand_lost_at_once_fire_as_one() -> None:
    [found] = judge("sequence_gap", sent(*range(2, 30), *range(1_030, 1_060)))

    assert found["missing"] == 1_000
    assert judge("sequence_gap", sent(*range(2, 30), *range(1_030, 1_060)), min_missing=1_001) == []


def test_a_gap_over_a_pause_of_hours_fires_and_over_more_than_six_is_quiet() -> None:
    assert judge("sequence_gap", sent(5, 6) + sent(8, start="14:00"))
    assert judge("sequence_gap", sent(5, 6) + sent(7, start="14:00")) == []
    assert judge("sequence_gap", sent(5, 6) + sent(8, start="16:30")) == []


def in_turn(*numbers: int) -> list[Event]:
    """One counter for heartbeats, without a session, and for two sessions."""
    streams = (None, "s-1", "s-2")
    return [
        event for n in numbers for event in sent(n, start=f"09:{n - 10:02}", session=streams[n % 3])
    ]


def test_a_source_that_numbers_all_its_lines_is_quiet_after_a_pause_that_lost_none() -> None:
    before = in_turn(*range(10, 40))

    assert judge("sequence_gap", before + sent(40, 41, start="11:00")) == []
    assert judge("sequence_gap", before + sent(40, 41, start="11:00", session="s-1")) == []


def test_lines_of_many_streams_that_an_hour_and_a_half_lost_fire() -> None:
    before = in_turn(*range(10, 40))

    [found] = judge("sequence_gap", before + sent(60, 61, start="11:00"))

    assert (found["missing"], found["started_at"]) == (20, at("09:29"))


def test_two_sources_do_not_fill_each_others_gaps_so_it_fires() -> None:
    assert judge("sequence_gap", sent(5, 6, 8) + sent(6, 7, 8, source="proxy"))


def chain(*links: tuple[str | None, str], **columns: Any) -> list[Event]:
    return [
        event
        for i, (before, own) in enumerate(links)
        for event in events(
            "heartbeat", f"09:0{i}", attrs={"prev_hash": before, "entry_hash": own}, **columns
        )
    ]


def test_a_line_whose_predecessor_is_not_in_the_chain_fires() -> None:
    [found] = judge("sequence_gap", chain((None, "aa"), ("aa", "bb"), ("cc", "dd")))

    assert found["event_ids"] == ["e00001", "e00002"]


def test_a_whole_chain_and_one_that_begins_anew_are_quiet() -> None:
    zeros = "0" * 64

    assert judge("sequence_gap", chain((None, "aa"), ("aa", "bb"), (zeros, "ee"))) == []
    assert judge("sequence_gap", chain(("99", "aa"), ("aa", "bb"))) == []
