"""Every bug of other projects that telling people and security are held against has a test.

Those about the wire are run here from their fixtures, through the real outbox and worker; where the
others are held says HELD, and a case that is new in the manifest or whose test was dropped fails.
"""

import json
from collections.abc import Callable
from datetime import timedelta

import httpx
import pytest

from tests import fakes
from tests.ingest import test_cases as of_intake
from tests.kit_cases import (
    CHANNELS,
    STATES,
    answer,
    fixture,
    held,
    of_kinds,
    owe,
    requests,
    scripted,
    state,
)
from tests.kit_receivers import NOW
from tests.kit_telling import HOOK, Build

HERE = "detectors/test_delivery_cases.py"
KINDS = ("delivery", "prometheus", "security")
RECEIVERS = "detectors/receivers"
HELD = {  # case: the test file that holds its expectation
    "B105": HERE,
    "B107": HERE,
    "B109": HERE,
    "B110": f"{RECEIVERS}/test_teams.py",
    "B112": f"{RECEIVERS}/test_teams.py",
    "B114": HERE,
    "B115": HERE,
    "B117": HERE,
    "B119": HERE,
    "B120": "detectors/test_shorten.py",
    "B122": f"{RECEIVERS}/test_discord.py",
    "B123": f"{RECEIVERS}/test_pagerduty.py",
    "B125": "detectors/test_alertmanager.py",
    "B127": "detectors/test_alertmanager.py",
    "B128": HERE,
    "B130": "detectors/test_lifecycle.py",
    "B132": "detectors/test_storm.py",
    "B133": HERE,
    "B135": "detectors/test_delivery.py",
    "B137": HERE,
    "B138": "detectors/metrics/test_cases.py",
    "B140": "detectors/metrics/test_cases.py",
    "B142": "detectors/metrics/test_cases.py",
    "B143": "gatewatch/test_pushing.py",
    "B145": "gatewatch/test_pushing.py",
    "B147": "detectors/metrics/test_cases.py",
    "B170": f"{RECEIVERS}/test_every_message.py",
    "B172": f"{RECEIVERS}/test_every_road.py",
    "B174": "detectors/test_address_cases.py",
    "B175": "detectors/test_address_cases.py",
    "B177": "rules_miner/test_rule.py",
    "B178": "ingest/test_cases.py",
    "B180": "detectors/test_storm.py",
    "B182": "ingest/test_cases.py",
}
DAY = timedelta(days=2)


def test_every_case_of_these_kinds_is_in_the_table() -> None:
    assert of_kinds(*KINDS) == HELD.keys()


@pytest.mark.parametrize("case", HELD)
def test_a_case_is_held_where_the_table_says(case: str) -> None:
    if HELD[case] == "ingest/test_cases.py":  # which holds what the manifest names
        assert case in of_intake.SECURITY
        return
    after = "def test_b" if HELD[case] == HERE else ""  # the table is no test

    assert held(case, HELD[case], after), f"{HELD[case]} does not hold {case}"


def test_b105_a_named_wait_is_kept_and_nobody_else_waits(build: Build) -> None:
    case = fixture("B105")
    house = build(ops=CHANNELS[case["channel"]], soc=HOOK)
    script = scripted(case["responses"], lambda: house.now)
    house.answer = lambda request: (
        next(script) if "slack" in request.url.host else httpx.Response(204)
    )
    owe(house, 1, case["incident"])

    first = house.run(name="soc")
    house.run(DAY)

    assert first is None
    assert [at for at, _ in requests(house, "soc")] == [0]
    assert [at for at, _ in requests(house, "ops")] == pytest.approx(
        case["expect"]["sent_after_s"], abs=1
    )
    assert house.states() == [case["expect"]["state"]] * 2


def test_b107_a_no_inside_a_200_is_read(build: Build) -> None:
    case = fixture("B107")
    house = build(ops=CHANNELS[case["channel"]])
    answer(house, case["responses"])
    owe(house, 1, case["incident"])

    house.run(DAY)

    [row] = house.rows("SELECT attempts, last_error FROM deliveries")
    assert state(house, 1) in STATES[case["expect"]["state"]]
    assert row["attempts"] == case["expect"]["attempts"]
    assert "channel_not_found" in row["last_error"]


def test_b109_only_ok_is_a_yes(build: Build) -> None:
    case = fixture("B109")
    house = build(ops=CHANNELS[case["channel"]])
    answer(house, case["responses"])

    for number in range(case["n_incidents"]):
        owe(house, number, case["incident"])
        house.run(DAY)

    for number, expected in enumerate(case["expect"]["states"]):
        assert state(house, number) in STATES[expected]
    assert len(house.sent) == case["n_incidents"]  # no message twice, none tried again


def test_b114_a_keyword_that_is_asked_for_is_named_and_not_tried_again(build: Build) -> None:
    case = fixture("B114")
    house = build(ops=CHANNELS[case["channel"]])
    answer(house, case["responses"])
    owe(house, 1, case["incident"])

    house.run(DAY)

    [row] = house.rows("SELECT attempts, last_error FROM deliveries")
    assert state(house, 1) in STATES[case["expect"]["state"]]
    assert row["attempts"] == case["expect"]["attempts"]
    assert row["last_error"].endswith(f"(look at: {case['expect']['hint']})")


def test_b114_a_configured_keyword_is_in_every_message_however_short_it_is_cut(
    build: Build,
) -> None:
    case = fixture("B114")
    house = build(ops=CHANNELS["dingtalk"] | {"keyword": case["keyword"]})
    too_long = {"status": 200, "body": '{"errcode": 460101}', "headers": {}}
    answer(house, [too_long, {"status": 200, "body": '{"errcode": 0}', "headers": {}}])
    owe(house, 1, case["incident"])

    house.run(DAY)

    assert [case["keyword"] in text.replace("\\", "") for _, text in requests(house, "ops")] == [
        True, True]  # fmt: skip


def test_b115_each_attempt_is_signed_anew(build: Build) -> None:
    case = fixture("B115")
    house = build(ops=CHANNELS[case["channel"]] | {"sign_key": case["secret"]})
    fake = fakes.load("dingtalk", house.routes[0].options)  # refuses what is older than an hour
    house.answer = fake.on(lambda: house.now)

    for number in range(case["n_incidents"]):
        owe(house, number, case["incident"])
        house.run()
        house.now += timedelta(seconds=case["advance_between_s"])

    assert fake.refused == []
    assert [state(house, n) for n in range(case["n_incidents"])] == case["expect"]["states"]
    for _, request in house.sent:  # the address does not grow with each send
        assert sorted(request.url.params) == ["access_token", "sign", "timestamp"]
        assert len(request.url.params.multi_items()) == 3


def test_b117_a_clock_that_is_wrong_is_named_and_not_tried_for_ever(build: Build) -> None:
    case = fixture("B117")
    house = build(ops=CHANNELS[case["channel"]] | {"sign_key": case["secret"]})
    answer(house, case["responses"])
    owe(house, 1, case["incident"])

    house.run(DAY)

    [row] = house.rows("SELECT last_error FROM deliveries")
    assert len(house.sent) <= case["expect"]["attempts_max"]
    assert case["expect"]["reported"] in row["last_error"]
    assert "+7200 s" in row["last_error"]


def test_b119_chinese_text_is_measured_in_bytes(build: Build) -> None:
    case = fixture("B119")
    fake = fakes.load("wecom")  # turns away what is above 4 096 bytes of UTF-8
    house = build(ops={"type": "wecom", "webhook": fake.options.address})
    house.answer = fake.on(lambda: house.now)
    text = case["incident"]["text"]
    for number in range(3):
        house.event(f"e{number + 1}", NOW - timedelta(minutes=20), reason=text, tool=text)
    house.owe(house.alert("al_1", title=text, title_zh=text, facts=json.dumps({text: text})))

    house.run(DAY)

    assert fake.refused == []
    assert state(house, 1) in STATES[case["expect"]["state"]]
    assert fake.told == {"al_1"}


def test_b128_an_end_that_was_not_sent_goes_out_after_the_start_once(build: Build) -> None:
    case = fixture("B128")
    house = build(ops=CHANNELS[case["channel"]])
    house.answer = lambda _: httpx.Response(202, json={"status": "success"})
    alert = house.alert(severity=case["incident"]["severity"])
    actions: dict[str, Callable[[], object]] = {
        "fire": lambda: (house.owe(alert), house.run()),
        "end": lambda: house.owe(alert | {"tellings": 2}, "resolved"),
        "kill9_before_send": house.restart,
        "start": lambda: house.run(DAY),
    }

    for step in case["script"]:
        actions[step]()

    sent = [json.loads(text)["event_action"] for _, text in requests(house, "ops")]
    assert sent == case["expect"]["messages"]


def test_b133_what_may_have_arrived_is_repeated_once_and_marked(build: Build) -> None:
    case = fixture("B133")
    house = build(ops=CHANNELS[case["channel"]])
    answer(house, case["responses"])
    owe(house, 1, case["incident"])

    house.run(DAY)

    texts = [text for _, text in requests(house, "ops")]
    assert len(texts) <= case["expect"]["received_max"]
    assert ["(repeat, al_1)" in text for text in texts] == [False, case["expect"]["repeat_marked"]]
    assert house.states() == ["delivered"]


def test_b137_an_answer_that_says_nothing_is_a_yes_only_where_that_is_agreed(
    build: Build,
) -> None:
    case = fixture("B137")
    for each, expected in zip(case["responses"], case["expect"]["states"], strict=True):
        house = build(ops=CHANNELS[each["channel"]])
        house.now = NOW + timedelta(minutes=10)  # Feishu is crowded at half past
        answer(house, [each["r"]])
        owe(house, 1, case["incident"])

        house.run()

        assert state(house, 1) in STATES[expected], each
