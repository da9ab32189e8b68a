import httpx
import pytest

from detectors import outbox
from detectors.routing import Desk
from tests.kit_telling import DING, HOOK, SLACK, Build


def test_the_same_telling_is_owed_once_to_each_that_wants_it(build: Build) -> None:
    house = build(ops=SLACK, soc=HOOK, boss=DING | {"min_severity": "critical"})
    alert = house.alert()

    assert [house.owe(alert), house.owe(alert)] == [2, 0]
    assert house.owe(alert | {"severity": "critical"}, "worse") == 3


def test_the_end_is_told_to_those_who_were_told_of_the_beginning(build: Build) -> None:
    house = build(ops=SLACK, boss=DING | {"min_severity": "critical"})
    alert = house.alert()
    house.owe(alert)

    assert house.owe(alert | {"severity": "critical", "tellings": 2}, "resolved") == 1
    assert house.owe(house.alert("al_2"), "resolved") == 0


def test_a_transaction_that_fails_owes_nothing(build: Build) -> None:
    house = build()
    alert = house.alert()

    def fail() -> None:
        with house.store.writing() as db:
            outbox.enqueue(db, alert, "open", house.now, Desk(house.routes))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()

    assert house.states() == []


def test_what_came_to_its_end_is_a_line_of_the_ledger(build: Build) -> None:
    house = build()
    house.owe(house.alert())
    house.run()

    [row] = house.rows("SELECT * FROM operator_log WHERE action = 'delivery'")
    [owed] = house.rows("SELECT * FROM deliveries")
    [state] = house.rows(
        "SELECT detail ->> 'state' AS state, detail -> 'alert' ->> 'subject' AS who,"
        " detail -> 'alert' ->> 'told_severity' AS severity FROM operator_log"
    )
    assert (row["subject"], row["actor"]) == (owed["delivery_id"], "gatewatch")
    assert state == {"state": "delivered", "who": "a1", "severity": "high"}


def test_after_a_rebuild_what_was_told_is_not_owed_again(build: Build) -> None:
    house = build()
    alert = house.alert()
    house.owe(alert)
    house.run()
    with house.store.writing() as db:
        db.execute("DELETE FROM deliveries")

    assert house.owe(alert) == 0


def test_death_between_sending_and_noting_gives_one_repeat_with_the_same_id(build: Build) -> None:
    house = build(ops=HOOK)
    house.owe(house.alert())

    def die(_: httpx.Request) -> httpx.Response:
        raise KeyboardInterrupt  # the service has it; the process is gone

    house.answer = die
    with pytest.raises(KeyboardInterrupt):
        house.run()
    house.restart()
    house.answer = lambda _: httpx.Response(204)
    house.run()

    first, second = (request for _, request in house.sent)
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert b'"repeat":false' in first.content
    assert b'"repeat":true' in second.content
    assert house.states() == ["delivered"]


def test_death_between_the_ledger_and_the_outbox_gives_no_repeat(build: Build) -> None:
    house = build()
    house.owe(house.alert())

    def die(done: str) -> None:
        if done == "commit":
            raise KeyboardInterrupt

    house.step = die
    with pytest.raises(KeyboardInterrupt):
        house.run()
    house.step = lambda done: None
    house.restart()

    assert house.run() is None
    assert (len(house.sent), house.states()) == (1, ["delivered"])


def test_a_store_that_refuses_for_a_moment_makes_nobody_be_told_twice(build: Build) -> None:
    house = build()
    house.owe(house.alert())

    def refuse(done: str) -> None:
        if done == "ledger":
            raise OSError("disk full")

    house.step = refuse
    for _ in range(3):
        with pytest.raises(OSError, match="disk full"):
            house.run()
    house.step = lambda done: None

    assert house.run() is None
    assert (len(house.sent), house.states()) == (1, ["delivered"])
