import json
from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise

import httpx
import pytest

from detectors.receivers import Refused
from detectors.routing import load
from detectors.worker import try_out
from tests.kit_receivers import NOW, Answer
from tests.kit_telling import DING, HOOK, SLACK, Build, House

OK = httpx.Response(200, text="ok")
YES = httpx.Response(200, json={"errcode": 0})
DAY = timedelta(days=2)


def answers(*given: Answer) -> Iterator[Answer]:
    """These, and the last again and again."""
    yield from given
    while True:
        yield given[-1]


def texts(house: House) -> list[str]:
    return [request.content.decode() for _, request in house.sent]


def test_case_b105_retry_after_is_obeyed_and_others_do_not_wait(build: Build) -> None:
    house = build(ops=SLACK, soc=HOOK)
    house.owe(house.alert())
    script = answers(httpx.Response(429, headers={"retry-after": "30"}), OK)
    house.answer = lambda request: (
        next(script) if "slack" in request.url.host else httpx.Response(204)
    )

    house.run(name="soc")
    house.run(DAY)

    seconds = [(at - NOW).total_seconds() for at, request in house.sent]
    assert seconds == pytest.approx([0, 0, 30], abs=1)
    assert house.states() == ["delivered", "delivered"]


def test_case_b109_a_body_that_is_not_ok_is_a_dead_letter_at_once(build: Build) -> None:
    house = build()
    house.owe(house.alert())
    house.answer = lambda _: httpx.Response(200, text="invalid_payload")

    house.run(DAY)

    [row] = house.rows("SELECT state, attempts, last_error FROM deliveries")
    assert row == {"state": "dead", "attempts": 1,
                   "last_error": "clientError: answered 'invalid_payload'"}  # fmt: skip


def test_case_b114_a_missing_keyword_is_named_and_not_tried_again(build: Build) -> None:
    house = build(ops=DING)
    house.owe(house.alert())
    body = {"errcode": 310000, "errmsg": "keywords not in content"}
    house.answer = lambda _: httpx.Response(200, json=body)

    house.run(DAY)

    [row] = house.rows("SELECT state, attempts, last_error FROM deliveries")
    assert (row["state"], row["attempts"]) == ("dead", 1)
    assert row["last_error"].endswith("(look at: keyword)")


def test_case_b128_a_resolve_goes_out_after_a_restart_once(build: Build) -> None:
    house = build()
    alert = house.alert()
    house.owe(alert)
    house.run()
    house.now += timedelta(minutes=20)
    house.owe(alert | {"tellings": 2}, "resolved")

    house.restart()
    house.run(DAY)

    assert ["Opened" in text for text in texts(house)] == [True, False]
    assert "Resolved" in texts(house)[1]
    assert house.states() == ["delivered", "delivered"]


def test_case_b133_a_timeout_after_sending_is_repeated_once_and_marked(build: Build) -> None:
    house = build()
    house.owe(house.alert())
    script = answers(httpx.ReadTimeout("60 s"), OK)
    house.answer = lambda _: next(script)

    house.run(DAY)

    assert ["(repeat, al_7f3a)" in text for text in texts(house)] == [False, True]
    assert house.states() == ["delivered"]


def test_case_b133_never_more_than_one_repeat_where_people_would_see_it(build: Build) -> None:
    house = build()
    house.owe(house.alert())
    house.answer = lambda _: httpx.ReadTimeout("60 s")

    house.run(DAY)

    assert (len(house.sent), house.states()) == (2, ["dead"])


@pytest.mark.parametrize(("severity", "hours"), [("high", 6), ("critical", 24)])
def test_a_server_in_trouble_is_tried_ever_more_rarely_and_given_up(
    build: Build, severity: str, hours: int
) -> None:
    house = build()
    house.owe(house.alert(severity=severity))
    house.answer = lambda _: httpx.Response(503)

    house.run(DAY)

    times = [(at - NOW).total_seconds() for at, _ in house.sent]
    gaps = [round(later - at) for at, later in pairwise(times)]
    assert gaps[:8] == [5, 10, 20, 40, 80, 160, 320, 640]
    assert set(gaps[8:]) == {900}
    assert hours * 3600 - 900 <= times[-1] <= hours * 3600
    assert house.states() == ["dead"]


def test_an_end_never_overtakes_its_beginning(build: Build) -> None:
    house = build(ops=HOOK)
    alert = house.alert()
    script = answers(httpx.Response(503), httpx.Response(503), httpx.Response(204))
    house.answer = lambda _: next(script)
    house.owe(alert)
    house.run()
    house.owe(alert | {"tellings": 2, "severity": "critical"}, "worse")
    house.owe(alert | {"tellings": 3}, "resolved")

    house.run(DAY)

    kinds = [json.loads(text)["data"]["kind"] for text in texts(house)]
    assert kinds == ["open", "open", "open", "worse", "resolved"]


def test_what_was_over_before_anybody_was_told_is_one_message(build: Build) -> None:
    house = build()
    alert = house.alert()
    house.owe(alert)
    house.owe(alert | {"tellings": 2}, "resolved")

    house.run(DAY)

    assert len(house.sent) == 1
    assert "Fired and resolved" in texts(house)[0]
    assert house.states() == ["delivered", "delivered"]


def test_200_alerts_in_a_minute_keep_the_limit_and_none_is_missing(build: Build) -> None:
    house = build(ops=DING)
    house.answer = lambda _: YES
    for number in range(200):
        house.owe(house.alert(f"al_{number:04}", opened_at=NOW))
        if number % 10 == 9:
            house.run(timedelta(seconds=3))
            house.now = NOW + timedelta(seconds=(number + 1) * 0.3)
            house.restart()  # a restart forgets none of the sends

    house.run(timedelta(minutes=5))

    times = [at for at, _ in house.sent]
    busiest = max(sum(at <= other < at + timedelta(seconds=60) for other in times) for at in times)
    assert busiest <= 15
    everything = "".join(texts(house)).replace("\\", "")
    assert [n for n in range(200) if f"al_{n:04}" not in everything] == []
    assert set(house.states()) == {"delivered"}
    assert len(house.states()) == 200


def test_a_critical_alert_finds_the_quarter_that_is_kept_for_it(build: Build) -> None:
    house = build(ops=DING)
    house.answer = lambda _: YES
    for number in range(12):  # of 15
        house.owe(house.alert(f"al_{number}"))
        house.run()
    house.owe(house.alert("al_wait"))
    assert house.run() == pytest.approx(60, abs=1)

    house.owe(house.alert("al_now", severity="critical"))
    house.run()

    assert "al_now" in texts(house)[-1].replace("\\", "")
    assert len(house.sent) == 13


def test_a_muted_robot_is_left_alone_for_ten_minutes(build: Build) -> None:
    house = build(ops=DING)
    script = answers(httpx.Response(200, json={"errcode": 130101, "errmsg": "too fast"}), YES)
    house.answer = lambda _: next(script)
    for number in range(3):
        house.owe(house.alert(f"al_{number}"))

    house.run(DAY)

    times = [(at - NOW).total_seconds() for at, _ in house.sent]
    assert min(times[1:]) == pytest.approx(600, abs=1)
    assert house.states() == ["delivered"] * 3


def test_a_digest_that_is_refused_buries_nobody(build: Build) -> None:
    house = build(ops=DING)
    house.answer = lambda request: (
        httpx.Response(200, json={"errcode": 40035, "errmsg": "no"})
        if b"in one message" in request.content
        else YES
    )
    for number in range(40):
        house.owe(house.alert(f"al_{number:04}"))

    house.run(timedelta(hours=1))

    assert set(house.states()) == {"delivered"}


def test_a_late_message_says_when_it_was_due(build: Build) -> None:
    house = build()
    house.owe(house.alert())
    house.now += timedelta(hours=2)

    house.run()

    assert "(detected at 2026-03-10T09:30:00Z, delayed)" in texts(house)[0]


def test_another_receiver_is_told_once_of_one_that_gives_up(build: Build) -> None:
    house = build(ops=SLACK, soc=HOOK)
    house.answer = lambda request: (
        httpx.Response(403) if "slack" in request.url.host else httpx.Response(204)
    )
    for number in range(4):
        house.owe(house.alert(f"al_{number}"))
        house.run()

    notes = house.rows("SELECT * FROM deliveries WHERE alert_id = 'receiver:ops'")
    assert [row["receiver"] for row in notes] == ["soc"]
    assert "Receiver ops does not deliver: HTTP 403" in notes[0]["message"]
    assert "FAKE" not in notes[0]["message"]


def test_another_receiver_is_told_of_one_that_fails_for_five_minutes(build: Build) -> None:
    house = build(ops=SLACK, soc=HOOK)
    house.owe(house.alert())
    house.answer = lambda _: httpx.Response(500)

    house.run(timedelta(minutes=4))
    assert house.rows("SELECT * FROM deliveries WHERE alert_id = 'receiver:ops'") == []
    house.run(timedelta(minutes=30))

    assert len(house.rows("SELECT * FROM deliveries WHERE alert_id = 'receiver:ops'")) == 1


def test_attempts_carry_the_label_that_metrics_count(build: Build) -> None:
    house = build()
    house.owe(house.alert())
    script = answers(httpx.Response(500), httpx.ConnectError("x"), httpx.ReadTimeout("x"), OK)
    house.answer = lambda _: next(script)

    house.run(DAY)

    rows = house.rows("SELECT outcome, reason FROM attempts ORDER BY ts")
    assert [(row["outcome"], row["reason"]) for row in rows] == [
        ("retry", "serverError"),
        ("retry", "other"),
        ("doubt", "contextDeadlineExceeded"),
        ("delivered", None),
    ]


def test_a_test_message_goes_the_same_guarded_road() -> None:
    [route] = load({"ops": SLACK | {"webhook": "https://no-such-host.invalid/x"}})

    assert not isinstance(try_out(route, "https://gatewatch.example", NOW), Refused)


@pytest.mark.parametrize("text", ["no page at {}", "no page at /{} here", "x" * 60 + " {}"])
def test_an_address_that_a_service_repeats_is_said_to_nobody(build: Build, text: str) -> None:
    path = "hooks/gatewatchEXAMPLE0123456789"
    house = build(ops={"type": "mattermost", "webhook": f"https://chat.example/{path}"})
    house.owe(house.alert())
    house.answer = lambda _: httpx.Response(200, text=text.format(path))

    house.run()

    [row] = house.rows("SELECT last_error FROM deliveries")
    assert "[redacted]" in row["last_error"]
    assert "gatewatchE" not in row["last_error"]
