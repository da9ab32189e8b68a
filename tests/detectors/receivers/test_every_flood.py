"""What every receiver does when there is too much to tell, through the real outbox and worker."""

from dataclasses import replace
from datetime import timedelta

import pytest

from detectors import receivers
from detectors.digest import digest
from detectors.receivers import Manners
from detectors.waiting import Delivery, Owed
from tests import fakes
from tests.kit_receivers import MESSAGE, NOW, table
from tests.kit_telling import Build, House

every = pytest.mark.parametrize("name", receivers.names())
read = pytest.mark.parametrize(  # by people: programs are told of each alert by itself
    "name",
    [name for name in receivers.names() if receivers.load(name, "tests").MANNERS.digest],
)
MANY = 200
TITLES = (
    "案" * 200,
    "👨‍👩‍👧‍👦" * 60,
    "*_[`<@|" * 30,
    "a1: crm.export_contacts denied 3 times in a row, then tried by",
)
SEVERITIES = ("high", "medium", "high", "low", "critical")


def flooded(house: House, seconds: float = 60.0) -> frozenset[str]:
    """MANY alerts within so many seconds, the worker at work meanwhile; returns their ids."""
    made = []
    for each in range(MANY):
        house.now = NOW + timedelta(seconds=each * seconds / MANY)
        title = TITLES[each % len(TITLES)]
        alert = house.alert(
            f"al_{each:012x}", subject=f"agent-{each}", title=title, title_zh=title,
            severity=SEVERITIES[each % len(SEVERITIES)], opened_at=house.now,
        )  # fmt: skip
        house.owe(alert)
        made.append(alert["alert_id"])
        while each % 4 == 0 and house.workers["ops"].step(house.now) == 0:
            pass
    return frozenset(made)


@every
def test_200_alerts_in_a_minute_keep_to_the_limits_and_none_is_missing(
    name: str, build: Build
) -> None:
    house, fake = build(ops=table(name)), fakes.load(name)
    house.answer = fake.on(lambda: house.now)

    made = flooded(house)
    house.run(until=timedelta(minutes=30))

    assert fake.refused == []  # no mute, no answer that it is too much
    assert made - fake.told == frozenset()
    assert {*house.states()} <= {"delivered", "accepted"}
    moments = [seen.at for seen in fake.accepted]
    published: Manners = receivers.load(name, "tests").MANNERS
    for count, seconds in (*fake.limits, *published.limits):
        assert fakes.busiest(moments, seconds) <= count
    if published.digest:
        assert len(moments) < MANY  # merged, not sent one by one for hours
    assert moments[-1] - NOW <= timedelta(minutes=12)


def test_a_dingtalk_robot_that_is_muted_all_the_same_is_left_alone_and_loses_nothing(
    build: Build,
) -> None:
    house, fake = build(ops=table("dingtalk")), fakes.load("dingtalk")
    house.answer = fake.on(lambda: house.now)
    for _ in range(20):  # what other senders of the same robot have sent in this minute
        fake.now = NOW
        fake.crowded()

    made = flooded(house)
    house.run(until=timedelta(hours=1))

    muted = [turned for turned in fake.refused if "130101" in turned.why]
    assert len(muted) == len(fake.refused) == 1  # one answer is enough to be told
    assert made - fake.told == frozenset()
    assert fake.accepted[0].at - muted[0].at >= timedelta(minutes=10)


@read
def test_a_few_alerts_at_once_are_each_told_in_full(name: str, build: Build) -> None:
    house, fake = build(ops=table(name)), fakes.load(name)
    house.answer = fake.on(lambda: house.now)
    for each in range(3):
        house.owe(house.alert(f"al_{each:012x}", subject=f"agent-{each}", severity="critical"))

    house.run(until=timedelta(minutes=1))

    assert [len(seen.alerts) for seen in fake.accepted] == [1, 1, 1]
    assert fake.refused == []


@read
@pytest.mark.parametrize("title", TITLES)
def test_as_many_alerts_as_a_digest_holds_are_all_shown(name: str, title: str) -> None:
    fake = fakes.load(name)
    ids = [f"al_{each:012x}" for each in range(receivers.load(name, "tests").MANNERS.bundle)]
    owed = Owed("dl_1", "", "open", "high", NOW, NOW, 0, 0, 0, False, None)
    members = [
        Delivery(
            replace(owed, alert_id=each, delivery_id=f"dl_{each}"),
            replace(MESSAGE, alert=each, title=title, subject=title, language="zh"),
        )
        for each in ids
    ]

    fakes.tell(fake, name, digest(members, "zh", NOW).message)

    assert {*ids} - fake.told == set()
