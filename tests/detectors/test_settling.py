"""What becomes of a message: taken by one, marked, replied to, given up, and sent after all."""

from datetime import timedelta
from typing import Any

import httpx

from detectors import applying, settling
from detectors.masking import masked
from detectors.waiting import Parcel, loaded, waiting
from tests.kit_receivers import NOW
from tests.kit_telling import DING, Build, House

DAY = timedelta(days=2)
BOT = "12345678:AAFAKEFAKEFAKEFAKEFAKEFAKEFAKEFAKEFA"
LEAK = "ghp_FAKE0123456789abcdefFAKE"
FEISHU = {"type": "feishu", "webhook": "https://open.feishu.cn/open-apis/bot/v2/hook/FAKE0001"}


def rows(house: House) -> list[dict[str, Any]]:
    return house.rows("SELECT * FROM deliveries ORDER BY created_at, delivery_id")


def test_two_workers_on_one_store_send_a_message_once(build: Build) -> None:
    house = build()
    house.owe(house.alert())
    other = house.worker(house.routes[0])
    seen: list[float | None] = []

    def answer(_: httpx.Request) -> httpx.Response:
        seen.append(other.step(house.now))  # while the first waits for its answer
        return httpx.Response(200, text="ok")

    house.answer = answer
    house.run()

    assert len(house.sent) == 1
    assert seen[0] is not None  # it saw that something waits, and left it
    assert house.states() == ["delivered"]


def test_what_another_worker_took_between_the_look_and_the_taking_is_left(build: Build) -> None:
    house = build()
    house.owe(house.alert())
    one = _parcel(house)
    house.run()

    assert settling.begin(house.store, "ops", one, NOW) is False
    assert len(house.sent) == 1


def test_what_a_dead_process_had_in_hand_is_due_again_after_its_lease(build: Build) -> None:
    house = build()
    house.owe(house.alert())
    settling.begin(house.store, "ops", _parcel(house), NOW)

    assert house.run() == settling.LEASE.total_seconds()
    house.run(settling.LEASE)

    [(_, request)] = house.sent
    assert b"(repeat, al_7f3a)" in request.content


def test_what_a_service_takes_without_a_word_is_accepted_not_delivered(build: Build) -> None:
    house = build(ops={"type": "teams", "webhook": "https://prod.logic.azure.com/FAKE?sig=FAKE"})
    house.owe(house.alert())
    house.answer = lambda _: httpx.Response(202)

    house.run()

    assert house.states() == ["accepted"]
    [row] = house.rows("SELECT detail ->> 'state' AS state FROM operator_log")
    assert row == {"state": "accepted"}


def test_later_messages_of_an_alert_reply_to_its_first(build: Build) -> None:
    house = build(ops={"type": "telegram", "token": BOT, "chat_id": "-100200"})
    answer = {"ok": True, "result": {"message_id": 77}}
    house.answer = lambda _: httpx.Response(200, json=answer)
    alert = house.alert()
    house.owe(alert)
    house.run()
    house.owe(alert | {"tellings": 2}, "resolved")
    house.restart()
    house.run(DAY)

    first, last = (request.content for _, request in house.sent)
    assert b"reply_parameters" not in first
    assert b'"message_id":77' in last.replace(b" ", b"")


def test_a_handle_outlives_a_rebuild(build: Build) -> None:
    house = build()
    detail = {"receiver": "ops", "kind": "open", "state": "delivered", "attempts": 1,
              "created_at": NOW.isoformat(), "handle": "77", "error": None,
              "alert": None, "of": "al_1", "severity": "high"}  # fmt: skip
    house.lander.record("delivery", "gatewatch", "dl_1", detail, NOW)
    with house.store.writing() as db:
        applying.catch_up(db)

    assert [(row["handle"], row["alert_id"]) for row in rows(house)] == [("77", "al_1")]


def test_what_was_never_seen_is_one_message_though_it_was_tried(build: Build) -> None:
    house = build()
    alert = house.alert()
    house.owe(alert)
    house.answer = lambda _: httpx.Response(503)
    house.run()
    house.answer = lambda _: httpx.Response(200, text="ok")
    house.owe(alert | {"tellings": 2}, "resolved")

    house.run(DAY)

    assert len(house.sent) == 2
    assert b"Fired and resolved" in house.sent[-1][1].content
    assert house.states() == ["delivered", "delivered"]


def test_a_secret_that_came_together_on_the_way_is_not_kept(build: Build) -> None:
    house = build()
    house.owe(house.alert(title=f"a1: sent {LEAK}", facts=f'{{"api_key": "x1", "note": "{LEAK}"}}'))
    house.answer = lambda _: httpx.Response(200, text=f"no: {LEAK}")

    house.run()

    everything = repr(house.rows("SELECT * FROM deliveries")) + repr(
        house.rows("SELECT * FROM operator_log")
    )
    assert LEAK not in everything
    assert '"api key","x1"' not in everything
    assert all(LEAK.encode() not in request.content for _, request in house.sent)
    assert masked("403", "denied_token") == "403"


def test_around_full_hours_a_crowded_service_is_told_a_little_later(build: Build) -> None:
    house = build(ops=FEISHU)
    house.answer = lambda _: httpx.Response(200, json={"code": 0})
    house.now = NOW - timedelta(seconds=2)  # half past nine
    house.owe(house.alert())
    house.owe(house.alert("al_now", severity="critical"))
    wait = house.run()
    house.restart()

    assert house.run() == wait  # a restart does not draw again
    assert wait is not None
    assert 7 <= wait <= 42
    assert [at for at, _ in house.sent] == [NOW - timedelta(seconds=2)]
    house.run(timedelta(seconds=60))
    assert 5 <= (house.sent[1][0] - NOW).total_seconds() <= 40


def test_after_a_mute_one_digest_carries_what_has_gathered(build: Build) -> None:
    house = build(ops=DING)
    house.answer = lambda _: httpx.Response(200, json={"errcode": 130101, "errmsg": "too fast"})
    for number in range(5):
        house.owe(house.alert(f"al_{number}"))
    house.run()
    house.answer = lambda _: httpx.Response(200, json={"errcode": 0})

    house.run(timedelta(minutes=11))

    assert len(house.sent) == 2
    assert b"5 alerts in one message" in house.sent[1][1].content
    assert house.states() == ["delivered"] * 5


def _parcel(house: House) -> Parcel:
    """The one message that waits, as a worker would send it."""
    [one] = loaded(house.store, "ops", waiting(house.store, "ops", NOW))
    return Parcel(one.message.delivery, one.message, (one,))
