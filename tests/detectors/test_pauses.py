"""The life of a pause: asked, confirmed or not, ended; each step in the ledger, none twice."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from detectors import pauses
from detectors.containment import Whom
from ingest.config import ConfigError
from tests.kit_gates import OPA, TILL, Guarded
from tests.kit_telling import House

OPAS = OPA | {"ask": "gatewatch/denied"}


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(tmp_path)
    made.event("e1", made.now, tenant="acme", source="gate")
    yield made
    made.close()


@pytest.fixture
def guarded(house: House) -> Guarded:
    return Guarded(house)


def test_a_pause_is_confirmed_by_the_gate_and_ends_at_its_time(guarded: Guarded) -> None:
    pause = guarded.order()
    guarded.run()
    [row] = guarded.rows()
    paused = dict(guarded.till.paused)
    guarded.run(3_600)

    assert (row["state"], row["status"], row["answer"]) == ("confirmed", 200, '{"paused":true}')
    assert paused[pause]["target"] == {"kind": "agent", "name": "a1"}
    assert guarded.states() == ["expired"]
    assert guarded.till.paused == {}
    assert [each["type"] for each in guarded.till.seen] == ["gatewatch.pause", "gatewatch.resume"]
    assert guarded.till.seen[1]["data"]["reason"] == "its time was over"
    assert guarded.told() == []
    assert guarded.log() == [
        ("pause", "mei", pause),
        ("pause_answer", "gatewatch", pause),
        ("pause_expired", "gatewatch", pause),
        ("pause_answer", "gatewatch", pause),
    ]


def test_a_gate_that_knows_the_time_is_not_told_that_it_is_over(house: House) -> None:
    guarded = Guarded(house, till=TILL | {"honours_until": True})
    guarded.order()
    guarded.run(3_600)

    assert guarded.states() == ["expired"]
    assert len(guarded.till.seen) == 1


def test_a_resume_is_sent_and_is_not_over_before_the_gate_says_so(guarded: Guarded) -> None:
    pause = guarded.order()
    guarded.run()
    guarded.till.answer = lambda: httpx.Response(503)
    guarded.resume(pause)
    guarded.run()
    during = guarded.states()
    guarded.till.answer = lambda: None
    guarded.run(60)

    [row] = guarded.rows()
    assert during == ["resuming"]
    assert (row["state"], row["ended_by"], row["ended_reason"]) == (
        "resumed", "mei", "it was a drill",
    )  # fmt: skip
    assert guarded.till.paused == {}
    with pytest.raises(ConfigError, match=f"{pause} is over already: resumed."):
        guarded.resume(pause)


def test_a_gate_that_does_not_answer_is_asked_again_until_it_does_and_people_are_told(
    guarded: Guarded,
) -> None:
    guarded.till.answer = lambda: httpx.Response(503, text="starting")
    guarded.order()
    guarded.run(59)
    before = guarded.told()
    guarded.run(2)
    told = guarded.told()
    guarded.run(600)
    again = guarded.told()
    guarded.till.answer = lambda: None
    guarded.run(31)

    [row] = guarded.rows()
    assert before == []
    assert told == ["NOT PAUSED: gate till has not confirmed the pause of agent a1 within a minute"]
    assert again == told  # once
    assert (row["state"], 15 <= row["attempts"] <= 40) == ("confirmed", True)
    answers = [each for each in guarded.log() if each[0] == "pause_answer"]
    assert len(answers) == 2  # what it answers again and again is one line of the ledger


def test_a_refusal_is_told_at_once_with_the_gates_words_and_nothing_is_tried_again(
    guarded: Guarded,
) -> None:
    guarded.till.answer = lambda: httpx.Response(404, json={"error": "no such agent\u202e"})
    guarded.order()
    guarded.run()
    [row] = guarded.rows()
    guarded.run(600)

    assert (row["state"], row["status"], row["attempts"]) == ("refused", 404, 1)
    assert guarded.told() == ["NOT PAUSED: gate till refused the pause of agent a1"]
    [owed] = guarded.house.rows("SELECT * FROM deliveries")
    assert (owed["severity"], owed["kind"], owed["receiver"]) == ("critical", "open", "ops")
    assert "no such agent" in owed["message"]
    assert "\u202e" not in owed["message"]
    assert guarded.rows()[0]["attempts"] == 1


def test_where_another_gate_holds_it_is_less_bad_and_said(house: House) -> None:
    guarded = Guarded(house, till=TILL, opa=OPAS)
    guarded.till.answer = lambda: httpx.Response(403)
    guarded.order()
    guarded.run()

    assert guarded.states() == ["confirmed", "refused"]
    [owed] = house.rows("SELECT severity, message FROM deliveries")
    assert owed["severity"] == "high"
    assert "another gate has confirmed it" in owed["message"]


def test_a_gate_that_will_not_let_go_is_told_loudly(guarded: Guarded) -> None:
    pause = guarded.order()
    guarded.run()
    guarded.till.answer = lambda: httpx.Response(409)
    guarded.resume(pause)
    guarded.run()

    assert guarded.states() == ["stuck"]
    assert guarded.told() == ["STILL PAUSED: gate till refuses to let agent a1 go on"]
    guarded.till.answer = lambda: None
    guarded.resume(pause)
    guarded.run()
    assert guarded.states() == ["resumed"]


def test_a_restart_of_opa_lifts_a_pause_for_a_minute_at_most(house: House) -> None:
    guarded = Guarded(house, opa=OPAS)
    guarded.order()
    guarded.run(600)
    guarded.opa.restart()
    guarded.run(61)

    assert list(guarded.opa.data["gatewatch"]["paused"]) == [guarded.rows()[0]["pause_id"]]
    assert [each[0] for each in guarded.log()] == ["pause", "pause_answer"]
    guarded.run(3_600)
    assert guarded.opa.data["gatewatch"]["paused"] == {}
    assert guarded.states() == ["expired"]


def test_an_opa_that_no_longer_obeys_is_noticed(house: House) -> None:
    guarded = Guarded(house, opa=OPAS)
    guarded.order()
    guarded.run(5)
    guarded.opa.rule = False
    guarded.run(61)

    assert guarded.states() == ["refused"]
    assert guarded.told() == ["NOT PAUSED: gate opa refused the pause of agent a1"]


def test_the_same_wish_is_one_pause(guarded: Guarded) -> None:
    assert guarded.order(key="link-1") == guarded.order(key="link-1")
    guarded.run()

    assert len(guarded.till.seen) == 1


def test_a_resume_that_comes_while_the_gate_is_asked_wins(guarded: Guarded) -> None:
    pause = guarded.order()

    def meanwhile() -> None:
        guarded.till.answer = lambda: None
        guarded.resume(pause)

    guarded.till.answer = meanwhile  # the gate is thinking; then it pauses
    guarded.run()

    assert guarded.states() == ["resumed"]
    assert guarded.till.paused == {}


def test_a_process_that_dies_while_it_asks_asks_again_with_the_same_key(house: House) -> None:
    guarded = Guarded(house)
    guarded.order()
    sent: list[str] = []

    def die(request: httpx.Request) -> httpx.Response:
        sent.append(request.headers["webhook-id"])
        if len(sent) == 1:
            raise KeyboardInterrupt
        return httpx.Response(204)

    keeper = guarded.keepers[0]
    keeper._client = httpx.Client(transport=httpx.MockTransport(die))
    with pytest.raises(KeyboardInterrupt):
        keeper.step(house.now)
    guarded.keepers[0] = again = guarded.keeper(guarded.gates[0])
    again._client = httpx.Client(transport=httpx.MockTransport(die))
    early = again.step(house.now)
    house.now += timedelta(seconds=60)
    again.step(house.now)

    assert early == 60.0  # perhaps it still runs
    assert sent[0] == sent[1]
    assert guarded.states() == ["confirmed"]


def rebuilt(guarded: Guarded) -> list[dict[str, Any]]:
    """The table as the ledger alone gives it back."""
    with guarded.house.store.writing() as db:
        db.execute("DELETE FROM pauses")
        db.execute("UPDATE operator_log SET applied = false")
    guarded.caught_up()
    return guarded.rows("* EXCLUDE (attempts, next_at, told)")


def test_a_rebuilt_database_knows_every_pause_and_asks_nobody_twice(house: House) -> None:
    guarded = Guarded(house, till=TILL, opa=OPAS)
    standing, ended = guarded.order(), guarded.order("a2")
    guarded.order("a3", hours=0.1)
    guarded.run(400)
    guarded.resume(ended)
    guarded.run(5)
    before, asked = guarded.rows("* EXCLUDE (attempts, next_at, told)"), len(guarded.till.seen)

    after = rebuilt(guarded)
    guarded.run(30)

    assert after == before
    assert len(guarded.till.seen) == asked
    assert [row["state"] for row in guarded.rows()].count("confirmed") == 2
    assert {row["pause_id"] for row in guarded.rows() if row["state"] == "confirmed"} == {standing}


def test_what_was_told_is_not_told_again_after_a_rebuild(guarded: Guarded) -> None:
    guarded.till.answer = lambda: httpx.Response(403)
    guarded.order()
    guarded.run()
    guarded.house.run()
    sent = len(guarded.house.sent)
    with guarded.house.store.writing() as db:
        db.execute("DELETE FROM deliveries")
    rebuilt(guarded)
    guarded.run()
    guarded.house.run()

    assert (sent, len(guarded.house.sent)) == (1, 1)


def test_who_is_meant_is_looked_up(house: House) -> None:
    house.event("e2", house.now, agent="t-1", trace_id="t-9", tenant="acme")
    house.event("e3", house.now, agent="a2", trace_id="t-8", tenant="other", source="mail")
    house.event("e4", house.now, agent="a1", trace_id="t-8", tenant="acme")

    assert pauses.find(house, "a2") == Whom("agent", "a2", "other", ("a2",), ("mail",))
    assert pauses.find(house, "t-8", tenant="acme").agents == ("a1",)
    for asked, says in (
        (("a9",), "no agent or trace 'a9' has been seen"),
        (("a1", "trace"), "no trace 'a1' has been seen"),
        (("t-1",), "'t-1' is an agent and a trace: say which with --kind."),
        (("t-8",), "trace 't-8' is of several tenants: acme, other. Say which."),
        (("a1", "robot"), "kind: 'robot' is none. Known: agent, trace."),
    ):
        with pytest.raises(ConfigError) as caught:
            pauses.find(house, *asked)
        assert str(caught.value).startswith(says)


def test_a_pause_that_nobody_could_do_is_refused_with_the_reason(house: House) -> None:
    guarded = Guarded(house, till=TILL | {"agents": ["b*"]})

    with pytest.raises(ConfigError, match="none of till serves agent 'a1'"):
        guarded.order()
    with pytest.raises(ConfigError, match="until: between a minute and 30 days"):
        guarded.order("b1", hours=24 * 31)
    with pytest.raises(ConfigError, match="no pause 'pa_nope'"):
        guarded.resume("pa_nope")
    guarded.gates = ()
    with pytest.raises(ConfigError, match=r"configure \[containment\.NAME\]"):
        guarded.order()


def test_the_shortest_of_what_gates_say_is_the_end_that_nobody_named(house: House) -> None:
    guarded = Guarded(
        house, till=TILL | {"expires": "2 hours"}, opa=OPAS | {"expires": "30 minutes"}
    )
    whom = Whom("agent", "a1", "", ("a1",), ())

    until = pauses.until_for(guarded.gates, whom, house.now)

    assert until - house.now == timedelta(minutes=30)
