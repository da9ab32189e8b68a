from datetime import datetime, timedelta
from itertools import permutations

import pytest

from detectors.controls.approval import Approval, Event, State, covers, latest, state
from tests.kit import at

TTL = timedelta(minutes=10)


def said(what: State, clock: str, digest: str | None = None, event_id: str = "") -> Event:
    return Event(at(clock), what, "wang" if what != "pending" else None, digest, event_id or what)


ASKED = said("pending", "09:00", "d-1")
YES, NO, LATE = (
    said("approved", "09:05"),
    said("rejected", "09:06"),
    said("approved", "09:11", event_id="late"),
)
OVER = said("expired", "09:10")


@pytest.mark.parametrize(
    ("events", "ttl", "expected", "since"),
    [
        ([], None, "pending", None),
        ([ASKED], None, "pending", "09:00"),
        ([ASKED], TTL, "expired", "09:10"),
        ([ASKED, YES], None, "approved", "09:05"),
        ([ASKED, YES], TTL, "approved", "09:05"),
        ([ASKED, NO], TTL, "rejected", "09:06"),
        ([ASKED, YES, NO], TTL, "approved", "09:05"),
        ([ASKED, NO, LATE], None, "rejected", "09:06"),
        ([ASKED, OVER, LATE], None, "expired", "09:10"),
        ([ASKED, LATE], TTL, "expired", "09:10"),
        ([ASKED, LATE], None, "approved", "09:11"),
        ([ASKED, said("approved", "09:10")], TTL, "expired", "09:10"),
        ([ASKED, said("approved", "09:09:59")], TTL, "approved", "09:09:59"),
        # asked for again: the deadline is that of the first request
        ([ASKED, said("pending", "09:08"), LATE], TTL, "expired", "09:10"),
        # two answers of one instant: the careful one
        ([ASKED, YES, said("rejected", "09:05")], None, "rejected", "09:05"),
        ([ASKED, YES, said("expired", "09:05")], None, "expired", "09:05"),
        # the request was never logged
        ([YES], TTL, "approved", "09:05"),
        ([OVER], None, "expired", "09:10"),
    ],
)
def test_an_approval_is_what_its_events_say_in_any_order_and_however_often(
    events: list[Event], ttl: timedelta | None, expected: str, since: str | None
) -> None:
    for order in permutations(events):
        for told in (order, order + order[:1], order[::-1] * 3):
            found = state(told, at("10:00"), ttl)

            assert found.state == expected
            assert found.since == (at(since) if since else None)


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        ("08:59", "pending"),
        ("09:00", "pending"),
        ("09:04:59", "pending"),
        ("09:05", "approved"),
        ("12:00", "approved"),
    ],
)
def test_what_comes_later_is_not_known_yet(moment: str, expected: str) -> None:
    assert state([ASKED, YES], at(moment), TTL).state == expected


def test_the_state_survives_a_crash_at_any_moment() -> None:
    """Whatever half was known before: the events told again give the same."""
    history = [ASKED, YES, NO, OVER, LATE]
    whole = state(history, at("10:00"), TTL)

    for cut in range(len(history)):
        assert state(history[:cut] + history, at("10:00"), TTL) == whole


@pytest.mark.parametrize(
    ("events", "digest", "expected"),
    [
        ([ASKED, YES], "d-1", True),
        ([ASKED, YES], "d-2", False),  # one customer's export is not every customer's
        ([ASKED, YES], None, True),
        ([ASKED, NO], "d-1", False),
        ([ASKED], "d-1", False),
        ([ASKED, OVER, LATE], "d-1", False),
        ([said("pending", "09:00"), said("approved", "09:05", "d-1")], "d-2", False),
        ([said("pending", "09:00"), YES], "d-2", True),
        # what was asked for is what was approved, whatever the answer's line says
        ([ASKED, said("approved", "09:05", "d-2")], "d-2", False),
        # asked for with other parameters under the same approval: the first request counts
        ([ASKED, said("pending", "09:01", "d-2"), YES], "d-2", False),
    ],
)
def test_an_approval_covers_one_call_with_its_exact_parameters(
    events: list[Event], digest: str | None, expected: bool
) -> None:
    assert covers(state(events, at("10:00")), digest) is expected


def test_who_answered_and_by_which_event_is_kept() -> None:
    moment: datetime = at("10:00")

    assert state([ASKED, YES, NO], moment) == Approval(
        "approved", at("09:05"), "wang", "d-1", "approved"
    )


AGAIN = said("pending", "09:20", "d-1", "again")


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([], "pending"),
        ([ASKED, NO], "rejected"),
        ([ASKED, NO, AGAIN], "rejected"),
        ([ASKED, NO, AGAIN, said("approved", "09:25")], "approved"),
        ([ASKED, YES, AGAIN], "approved"),
        ([ASKED, YES, AGAIN, said("rejected", "09:25")], "rejected"),
        ([ASKED, NO, LATE], "rejected"),
        ([ASKED, AGAIN, said("approved", "09:25")], "approved"),
    ],
)
def test_a_request_after_an_answer_is_a_new_approval(events: list[Event], expected: str) -> None:
    for order in permutations(events):
        assert latest(order + order[:1], at("10:00")).state == expected
