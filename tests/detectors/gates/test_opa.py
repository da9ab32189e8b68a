"""OPA: a document that a policy reads, and the question whether one does."""

from dataclasses import replace
from datetime import timedelta

import httpx
import pytest

from detectors.receivers import Delivered, Refused
from ingest.config import ConfigError
from tests.kit_gates import HOSTILE, OPA, ORDER, TRACE, Opa, asked, gate
from tests.kit_receivers import NOW

ASKING = OPA | {"ask": "gatewatch/denied"}


def test_a_pause_is_a_document_of_its_own_that_the_rule_denies_by_until_its_time() -> None:
    opa = Opa()

    got = asked(gate(**ASKING), "pause", opa)
    [document] = opa.data["gatewatch"]["paused"].values()
    opa.now = lambda: NOW + timedelta(hours=1)

    assert got.outcome == Delivered()
    assert document["target"] == {"kind": "agent", "name": "a1"}
    assert document["until"] == "2026-03-10T10:30:00Z"
    after = httpx.Request(
        "POST", "https://opa.example:8181/v1/data/gatewatch/denied",
        headers={"authorization": f"Bearer {opa.token}"},
        json={"input": {"agent": "a1", "trace": ""}},
    )  # fmt: skip
    assert opa(after).json() == {"result": False}


def test_two_pauses_of_one_agent_do_not_lift_each_other() -> None:
    opa, other = Opa(), replace(ORDER, id="pa_ffffffffffff")
    asked(gate(**ASKING), "pause", opa)
    asked(gate(**ASKING), "pause", opa, other)

    asked(gate(**ASKING), "resume", opa, other)

    assert list(opa.data["gatewatch"]["paused"]) == [ORDER.id]


def test_stored_is_not_obeyed_where_no_policy_reads_it() -> None:
    opa = Opa()
    opa.rule = False

    got = asked(gate(**ASKING), "pause", opa)

    assert got.outcome == Refused(
        "stored, but gatewatch/denied says '{}': no policy reads it", "other"
    )


def test_without_a_question_it_says_that_nobody_asked() -> None:
    got = asked(gate(**OPA), "pause", Opa())

    assert isinstance(got.outcome, Delivered)
    assert "nobody has asked" in got.outcome.hint


def test_a_trace_and_a_hostile_name_travel_as_values() -> None:
    opa = Opa()

    assert asked(gate(**ASKING), "pause", opa, TRACE).outcome == Delivered()
    assert asked(gate(**ASKING), "pause", opa, replace(ORDER, name=HOSTILE)).outcome == Delivered()
    assert list(opa.data["gatewatch"]["paused"]) == [ORDER.id]


def test_the_second_time_changes_nothing_and_what_is_gone_is_resumed() -> None:
    opa = Opa()
    asked(gate(**ASKING), "pause", opa)
    once = dict(opa.data["gatewatch"]["paused"])

    assert asked(gate(**ASKING), "pause", opa).outcome == Delivered()
    assert opa.data["gatewatch"]["paused"] == once
    assert asked(gate(**ASKING), "resume", opa).outcome == Delivered()
    assert asked(gate(**ASKING), "resume", opa).outcome == Delivered("it was not there any more")
    assert opa.data["gatewatch"]["paused"] == {}


def test_a_token_that_opa_does_not_know_is_refused_and_a_conflict_too() -> None:
    opa = Opa()
    opa.data = {"gatewatch": {"paused": "a text"}}
    wrong = asked(gate(**(ASKING | {"token": "another"})), "pause", opa)
    conflict = asked(gate(**ASKING), "pause", opa)

    assert (wrong.status, isinstance(wrong.outcome, Refused)) == (401, True)
    assert (conflict.status, isinstance(conflict.outcome, Refused)) == (404, True)
    assert "storage_write_conflict_error" in conflict.text


@pytest.mark.parametrize("status", [200, 202])
def test_a_page_that_is_not_opas_is_no_yes(status: int) -> None:
    got = asked(gate(**OPA), "pause", lambda _: httpx.Response(status, text="<html>"))

    assert isinstance(got.outcome, Refused)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"path": "../policies/x"}, "is no path of a document"),
        ({"ask": "data.gatewatch.denied"}, "is no path of a document"),
        ({"url": "http://opa.example"}, "must begin with https://"),
        ({"url": "https://127.0.0.1:8181"}, "allow_private = true permits that"),
    ],
)
def test_a_mistake_is_named(changed: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        gate(**(OPA | changed))
