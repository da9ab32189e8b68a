"""A receiver that fails: another is told, once, and told when it is over."""

from datetime import timedelta
from typing import Any

import httpx
import pytest

from tests.kit_receivers import Answer
from tests.kit_telling import HOOK, SLACK, Build, House

OK, NO = httpx.Response(200, text="ok"), httpx.Response(500)
SOC2 = HOOK | {"webhook": "https://other.example/FAKE"}
HALF = timedelta(minutes=30)
WELL = {"slack": httpx.Response(200, text="ok"), "soc": httpx.Response(204),
        "other": httpx.Response(204)}  # fmt: skip


def notes(house: House) -> list[tuple[str, str, str]]:
    """Who is told of which receiver, and what."""
    sql = (
        "SELECT receiver, alert_id, kind FROM deliveries"
        " WHERE starts_with(alert_id, 'receiver:') ORDER BY created_at, receiver"
    )
    return [
        (row["receiver"], row["alert_id"].removeprefix("receiver:"), row["kind"])
        for row in house.rows(sql)
    ]


def answers(house: House, **given: Answer) -> None:
    """What each service answers from now on: slack, soc, other."""
    house.answer = lambda request: next(
        answer for name, answer in (WELL | given).items() if name in request.url.host
    )


def turn(house: House, until: timedelta) -> None:
    """Every worker for so long, a minute at a time."""
    end = house.now + until
    while house.now < end:
        for name in house.workers:
            now = house.now
            house.run(name=name)
            house.now = now
        house.now += timedelta(minutes=1)


def test_that_it_delivers_again_is_told_to_whom_the_trouble_was_told(build: Build) -> None:
    house = build(ops=SLACK, soc=HOOK, other=SOC2)
    answers(house, slack=NO)
    house.owe(house.alert())
    turn(house, HALF)
    assert notes(house) == [("soc", "ops", "open")]

    answers(house)
    turn(house, HALF)
    turn(house, HALF)

    assert notes(house) == [("soc", "ops", "open"), ("soc", "ops", "resolved")]
    texts = [request.content.decode() for _, request in house.sent]
    assert sum("Receiver ops delivers again" in text for text in texts) == 1


def test_a_restart_in_the_middle_tells_it_neither_twice_nor_never(build: Build) -> None:
    house = build(ops=SLACK, soc=HOOK)
    answers(house, slack=NO)
    house.owe(house.alert())
    turn(house, HALF)
    house.restart()
    turn(house, HALF)
    answers(house)
    house.restart()
    turn(house, HALF)

    assert notes(house) == [("soc", "ops", "open"), ("soc", "ops", "resolved")]


def test_two_that_fail_do_not_throw_notes_at_each_other(build: Build) -> None:
    house = build(ops=SLACK, soc=HOOK)
    answers(house, slack=NO, soc=NO)
    house.owe(house.alert())

    turn(house, timedelta(hours=4))

    assert sorted(notes(house)) == [("ops", "soc", "open"), ("soc", "ops", "open")]


def test_who_delivers_is_told_rather_than_who_fails_as_well(build: Build) -> None:
    house = build(ops=SLACK, soc=HOOK, other=SOC2)
    answers(house, soc=NO, slack=NO)
    house.owe(house.alert())

    turn(house, HALF)

    assert {(told, of) for told, of, _ in notes(house)} == {("other", "ops"), ("other", "soc")}


def test_who_wants_no_such_alerts_is_told_last(build: Build) -> None:
    house = build(ops=SLACK, soc=HOOK | {"min_severity": "critical"}, other=SOC2)
    answers(house, slack=NO)
    house.owe(house.alert())

    turn(house, HALF)

    assert notes(house) == [("other", "ops", "open")]


def test_what_comes_and_goes_is_told_once_an_hour_at_most(build: Build) -> None:
    house = build(ops=SLACK, soc=HOOK)
    for number in range(30):  # one in two is refused
        house.owe(house.alert(f"al_{number}"))
        answers(house, slack=httpx.Response(403) if number % 2 else OK)
        turn(house, timedelta(minutes=2))

    assert [kind for *_, kind in notes(house)] == ["open", "resolved"]


def test_nobody_else_is_there_and_the_log_says_what_was_given_up(
    build: Build, caplog: pytest.LogCaptureFixture
) -> None:
    house = build()
    house.answer = lambda _: httpx.Response(403)
    house.owe(house.alert())

    house.run()

    assert [record.message for record in caplog.records if record.name == "gatewatch"] == [
        "receiver ops: 1 given up: HTTP 403"
    ]
    assert notes(house) == []


def test_in_chinese_where_that_is_the_language(build: Build) -> None:
    zh: dict[str, Any] = HOOK | {"language": "zh"}
    house = build(ops=SLACK, soc=zh)
    answers(house, slack=httpx.Response(403))
    house.owe(house.alert())
    turn(house, timedelta(minutes=2))
    answers(house)
    house.owe(house.alert("al_2"))
    turn(house, timedelta(minutes=2))

    texts = "".join(request.content.decode() for _, request in house.sent)
    assert "通知渠道 ops 发送失败：HTTP 403" in texts
    assert "通知渠道 ops 已恢复发送" in texts
