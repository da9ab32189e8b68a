"""Dead letters: shown with their reason, sent after all, and still there after a rebuild."""

from datetime import timedelta
from typing import Any

import httpx
import pytest

from detectors import applying, letters, settling
from ingest.config import ConfigError
from tests.kit_receivers import NOW
from tests.kit_telling import HOOK, SLACK, Build, House

DAY = timedelta(days=2)
NO = httpx.Response(403)
MINUTES = timedelta(minutes=40)


def rows(house: House) -> list[dict[str, Any]]:
    return house.rows("SELECT * FROM deliveries ORDER BY created_at, delivery_id")


def again(house: House, *ids: str, **more: Any) -> dict[str, Any]:
    names = [route.name for route in house.routes]
    return letters.retry(house.store, house.lander, names, "kim", house.now, ids, **more)


def test_what_is_owed_to_a_receiver_that_is_gone_is_given_up_and_said(build: Build) -> None:
    house = build(ops=SLACK, soc=HOOK)
    house.owe(house.alert())

    assert settling.bury(house.store, house.lander, ["ops"], NOW) == 1
    assert settling.bury(house.store, house.lander, ["ops"], NOW) == 0

    [dead] = letters.listed(house.store, ["dead"])
    assert (dead["receiver"], dead["label"]) == ("soc", "other")
    assert "no receiver of this name" in dead["reason"]
    assert "Put [receivers.NAME] back" in dead["hint"]
    kept = house.rows("SELECT detail ->> 'state' AS s FROM operator_log")
    assert kept == [{"s": "dead"}]


def test_a_dead_letter_is_sent_after_all_and_marked_late(build: Build) -> None:
    house = build()
    house.owe(house.alert())
    house.answer = lambda _: NO
    house.run()
    [dead] = letters.listed(house.store, ["dead"])
    assert (dead["label"], dead["attempts"]) == ("authError", 1)
    house.now += MINUTES
    house.answer = lambda _: httpx.Response(200, text="ok")

    assert again(house, dead["delivery_id"])["retried"] == [dead["delivery_id"]]
    assert again(house, dead["delivery_id"])["retried"] == []  # asked for twice, done once
    house.restart()
    house.run()

    assert b"delayed" in house.sent[-1][1].content
    assert house.states() == ["delivered"]
    log = house.rows("SELECT actor, action FROM operator_log ORDER BY ledger_seq")
    assert [(row["action"], row["actor"]) for row in log] == [
        ("delivery", "gatewatch"), ("retry", "kim"), ("delivery", "gatewatch")]  # fmt: skip


def test_a_dead_letter_of_an_alert_that_is_over_says_so(build: Build) -> None:
    house = build()
    house.owe(house.alert(status="resolved"))
    house.answer = lambda _: NO
    house.run()
    house.answer = lambda _: httpx.Response(200, text="ok")
    house.now += MINUTES

    again(house)
    house.run()

    assert b"Fired and resolved" in house.sent[-1][1].content


def test_a_retry_is_given_up_in_its_own_time_again(build: Build) -> None:
    house = build()
    house.owe(house.alert())
    house.answer = lambda _: httpx.Response(503)
    house.run(DAY)
    tries = len(house.sent)
    assert house.states() == ["dead"]

    again(house, receiver="ops")
    house.run(DAY)

    assert house.states() == ["dead"]
    last, first = house.sent[-1][0], house.sent[tries][0]
    assert last - first > timedelta(hours=5, minutes=30)


def test_after_a_rebuild_dead_letters_can_still_be_sent(build: Build) -> None:
    house = build(ops=SLACK, soc=HOOK)
    house.owe(house.alert())
    house.answer = lambda _: NO
    house.run(name="ops")
    house.run(name="soc")
    again(house, receiver="soc")
    house.answer = lambda _: httpx.Response(204)
    house.run(name="soc")
    before = _told(house)
    with house.store.writing() as db:
        db.execute("DELETE FROM deliveries; UPDATE operator_log SET applied = false")
        applying.catch_up(db)

    assert _told(house) == before == [("ops", "dead"), ("soc", "delivered")]
    house.answer = lambda _: httpx.Response(200, text="ok")
    assert len(again(house, receiver="ops")["retried"]) == 1
    house.run(name="ops")
    assert b"al_7f3a" in house.sent[-1][1].content


def test_only_what_was_given_up_is_retried_and_mistakes_are_named(build: Build) -> None:
    house = build()
    house.owe(house.alert())
    house.run()
    [row] = rows(house)

    with pytest.raises(ConfigError, match="is delivered: only what was given up"):
        again(house, row["delivery_id"])
    with pytest.raises(ConfigError, match="no delivery 'dl_nonsense'"):
        again(house, "dl_nonsense")


def test_what_cannot_be_retried_is_left_and_said(build: Build) -> None:
    house = build(ops=SLACK, soc=HOOK)
    house.owe(house.alert())
    house.answer = lambda _: NO
    house.run(name="ops")
    house.run(name="soc")

    done = letters.retry(house.store, house.lander, ["soc"], "kim", house.now, receiver="ops")

    assert (done["retried"], [each["why"] for each in done["left"]]) == ([], [letters.UNKNOWN])


def _told(house: House) -> list[tuple[str, str]]:
    """Receivers and states of what is owed about alerts, not about receivers."""
    found = [row for row in rows(house) if row["alert_id"].startswith("al_")]
    return sorted((row["receiver"], row["state"]) for row in found)
