import random
from typing import Any

from tests.kit import Event, denied, events, executed, judge

NAME = "posthoc_abstention"
REFUSAL = "I'm sorry, but I cannot process this refund."


def commit(clock: str, **columns: Any) -> list[Event]:
    base = {"tool": "payments.refund", "op": "commit", "params": {"order": "order-7781"}}
    return executed(clock, **base | columns)


def says(clock: str, text: str, role: str = "assistant", **columns: Any) -> list[Event]:
    return events("message", clock, **{"trace_id": "t-1", "role": role, "text": text} | columns)


def columns(dice: random.Random) -> dict[str, Any]:
    role, text = dice.choice([("assistant", REFUSAL), ("user", "And now?"), (None, None)])
    said = {"kind": "message", "tool": None, "role": role, "text": text}
    ran = {
        "kind": "tool_executed",
        "tool": dice.choice(["pay.refund", "get"]),
        "op": "commit",
        "status": "ok",
    }
    held = {"stance": dice.choice([None, "abstain"]), "decision": dice.choice(["allow", "deny"])}
    return {
        "agent": "a1",
        "trace_id": dice.choice(["t-1", None]),
        **dice.choice([said, ran, ran, held]),
    }


LOW = {"within": "1 hour"}


def test_a_refund_that_was_made_and_then_refused_fires() -> None:
    [found] = judge(NAME, commit("09:00") + says("09:01", REFUSAL))

    assert (found["subject"], found["tool"], found["severity"]) == ("a1", "payments.refund", "high")
    assert (found["way"], found["event_ids"]) == ("in words", ["e00000", "e00001"])
    assert found["refusal"] == REFUSAL.lower()


OF_THE_ACT = [
    ("cancel_reservation", "Unfortunately, I am not able to cancel this reservation."),
    ("cancel_reservation", "The cancellation of this reservation is not possible."),
    ("mcp__shop__send_certificate", "I cannot issue this certificate under our policy."),
    ("crm.delete_user", "I'm not authorized to delete a user."),
    ("book_flight", "I can't do that."),
    ("退款", "抱歉，无法为您办理。"),
    ("payments.refund", "很抱歉，根据规定，我无法为您办理退款。"),
    ("payments.refund", "Your order order-7781 is not eligible for a refund."),
    (
        "payments.refund",
        "Thank you for waiting.\nThe refund for order-7781 cannot be processed.",
    ),
]
OF_ELSE = [
    ("cancel_reservation", "I cannot cancel the reservations UDMOP1 and XAZ3C0."),
    ("cancel_reservation", "Regarding IFOYYZ, since it cannot be cancelled, please call us."),
    ("cancel_reservation", "Unfortunately I cannot cancel the remaining reservations."),
    ("cancel_reservation", "I can't cancel the other one."),
    ("cancel_reservation", "The following reservations cannot be cancelled:\n\n1. ID: UDMOP1"),
    ("update_reservation_flights", "I'm unable to change the passenger in the reservation."),
    ("update_reservation_flights", "I cannot remove checked bags."),
    ("payments.refund", "I cannot send an invoice."),
    ("payments.refund", "I cannot give legal advice."),
    ("payments.refund", "I cannot refund it again."),
    ("payments.refund", "The page was empty."),
    ("payments.refund", "I can't thank you enough!"),
    ("payments.refund", "Can't I help with anything else?"),
    ("payments.refund", 'The refund is done; for later: "we cannot refund after 24 hours".'),
    ("book_flight", "I cannot find a later flight, so I booked the one at 9."),
    ("book_flight", "I will not be able to change it after booking."),
    ("book_flight", "Please note that this booking cannot be changed."),
    ("book_flight", "Your seat is booked. This purchase is non-refundable."),
    ("payments.refund", "退款已办理，但无法为您取消酒店。"),
]


def each_in_a_talk_of_its_own(table: list[tuple[str, str]]) -> list[Event]:
    found = []
    for number, (tool, text) in enumerate(table):
        found += commit("09:00", tool=tool, trace_id=f"t-{number}")
        found += says("09:01", text, trace_id=f"t-{number}")
    return found


def test_a_refusal_of_the_very_act_fires() -> None:
    found = {row["run"] for row in judge(NAME, each_in_a_talk_of_its_own(OF_THE_ACT))}

    assert [said for n, said in enumerate(OF_THE_ACT) if f"t-{n}" not in found] == []


def test_a_refusal_of_something_else_and_no_refusal_are_quiet() -> None:
    found = {row["run"] for row in judge(NAME, each_in_a_talk_of_its_own(OF_ELSE))}

    assert [said for n, said in enumerate(OF_ELSE) if f"t-{n}" in found] == []


def test_after_a_new_request_it_is_quiet_unless_the_thing_is_named() -> None:
    asked = commit("09:00") + says("09:01", "And the hotel?", role="user")

    assert judge(NAME, asked + says("09:02", REFUSAL)) == []
    assert judge(NAME, asked + says("09:02", "I cannot refund order-7781."))


def test_a_refusal_after_a_call_that_was_denied_or_failed_is_quiet() -> None:
    said = says("09:02", REFUSAL)

    assert judge(NAME, commit("09:00") + denied("09:01", tool="payments.refund") + said) == []
    assert judge(NAME, commit("09:00") + commit("09:01", status="error") + said) == []
    assert judge(NAME, denied("08:59", tool="payments.refund") + commit("09:00") + said)


def test_what_failed_or_only_looked_is_quiet_when_it_is_refused() -> None:
    assert judge(NAME, commit("09:00", status="error") + says("09:01", REFUSAL)) == []
    assert judge(NAME, commit("09:00", op="lookup") + says("09:01", REFUSAL)) == []
    assert judge(NAME, says("08:59", REFUSAL) + commit("09:00")) == []


def test_only_the_agents_own_words_fire() -> None:
    assert judge(NAME, commit("09:00") + says("09:01", REFUSAL, role="user")) == []
    assert judge(NAME, commit("09:00") + says("09:01", REFUSAL, trace_id="t-2")) == []
    assert judge(NAME, commit("09:00") + says("09:01", REFUSAL, tenant="acme")) == []


def test_exactly_within_fires_and_a_second_more_is_quiet() -> None:
    assert judge(NAME, commit("09:00") + says("09:30", REFUSAL))
    assert judge(NAME, commit("09:00") + says("09:30:01", REFUSAL)) == []


def test_an_abstention_that_was_logged_after_the_commit_fires() -> None:
    own = events("agent_run", "09:01", trace_id="t-1", stance="abstain")
    same = events("tool_decided", "09:01", trace_id="t-1", stance="abstain", tool="payments.refund",
                  params={"order": "order-7781"})  # fmt: skip
    [by_agent], [by_gate] = judge(NAME, commit("09:00") + own), judge(NAME, commit("09:00") + same)

    assert by_agent["way"] == by_gate["way"] == "by its stance"


def test_an_abstention_from_another_call_is_quiet() -> None:
    other = events("tool_decided", "09:01", trace_id="t-1", stance="abstain", tool="mail.send")

    assert judge(NAME, commit("09:00") + other) == []


def test_a_hand_over_to_a_person_fires_low_and_is_quiet_after_a_new_request() -> None:
    over = executed("09:02", tool="transfer_to_human_agents")

    [found] = judge(NAME, commit("09:00") + over)

    assert (found["severity"], found["way"]) == ("low", "by a hand-over to a person")
    assert judge(NAME, commit("09:00") + says("09:01", "Another thing", role="user") + over) == []
    assert judge(NAME, over) == []
