"""The daily digest: once a local day, whatever the clocks do, also when nothing happened."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from detectors import daily, triage
from detectors.receivers import Message
from detectors.routing import load
from ingest.config import Clock, ConfigError, Telling
from tests.kit_lifecycle import OPS, PAGER, Desktop, minutes

HEAD = (1234, "ab12cd34ef56789000")
AT_NINE = Telling(daily=Clock("09:00"))


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desktop]:
    made = Desktop(tmp_path, AT_NINE)
    yield made
    made.close()


def zone(desk: Desktop, name: str) -> None:
    doc = f'{{"global": {{"timezone": "{name}"}}}}'
    desk.run("INSERT INTO policies VALUES ('1', $at, 'p', $doc)", at=desk.now, doc=doc)


def owe(desk: Desktop, at: datetime | None = None) -> list[Message]:
    """What is newly owed at that time."""
    desk.now = at or desk.now
    with desk.store.writing() as db:
        owed = daily.owe(db, desk.detectors, desk.desk, desk.figures, HEAD, desk.now)
    rows = desk.store.rows("SELECT message FROM deliveries WHERE created_at = $at", at=desk.now)
    assert len(rows) == owed
    return [msgspec.json.decode(row["message"], type=Message) for row in rows]


def facts(message: Message) -> dict[str, str]:
    return dict(message.facts)


def test_a_quiet_day_is_told_too(desk: Desktop) -> None:
    [said] = owe(desk)

    assert (said.kind, said.severity) == ("daily", "low")
    assert said.title == "2026-03-10: 0 alerts in 24 hours, 0 open now"
    assert facts(said) == {
        "opened in 24 hours": "none", "open now": "0", "not looked at": "0",
        "ledger head": "1234 lines, ab12cd34ef56", "messages given up": "0",
        "silent sources": "none",
    }  # fmt: skip


def test_a_day_with_trouble_says_what_and_what_is_left(desk: Desktop) -> None:
    desk.open("al_old", "a0", opened_at=desk.now - timedelta(days=3))
    desk.open("al_1", "a1", "high")
    desk.open("al_2", "a2", "critical", "call_loop")
    desk.open("al_3", "gate", "medium", "silent_source")
    desk.open("al_4", "a4", "low", backfill=True)
    desk.over("al_1")
    desk.tell()
    triage.acknowledge(desk.store, desk.lander, "al_2", "ann", "", desk.now)
    desk.run("UPDATE deliveries SET state = 'dead', done_at = created_at WHERE alert_id = 'al_3'")

    [said] = owe(desk, desk.now + minutes(1))

    assert said.title == "2026-03-10: 3 alerts in 24 hours, 3 open now"
    assert said.severity == "critical"
    assert facts(said) == {
        "opened in 24 hours": "CRITICAL 1, HIGH 1, MEDIUM 1", "open now": "3",
        "not looked at": "2", "ledger head": "1234 lines, ab12cd34ef56",
        "messages given up": "1", "silent sources": "gate",
        "detectors": "call_loop 1, deny_retry 1, silent_source 1",
    }  # fmt: skip
    assert said.evidence[0] == "CRITICAL · al_2 · ann has it · a2: 3 denials"
    assert [line.split(" · ")[1] for line in said.evidence] == ["al_2", "al_old", "al_3"]


def test_it_comes_when_its_hour_has_come_and_once_a_day(desk: Desktop) -> None:
    zone(desk, "Asia/Shanghai")
    start = datetime.fromisoformat("2026-03-10T00:00:00+08:00")

    times = [
        start + minutes(quarter * 15)
        for quarter in range(4 * 24 * 3)
        if owe(desk, start + minutes(quarter * 15))
    ]

    assert times == [start + timedelta(days=day, hours=9) for day in range(3)]


@pytest.mark.parametrize(
    ("day", "clock", "first"),
    [
        ("2026-03-29", "02:30", "2026-03-29T03:00:00+02:00"),  # an hour that there is not
        ("2026-10-25", "02:30", "2026-10-25T02:30:00+02:00"),  # one that there is twice
        ("2026-10-25", "03:00", "2026-10-25T03:00:00+01:00"),
    ],
)
def test_on_days_when_the_clocks_are_set_it_comes_once(
    desk: Desktop, day: str, clock: str, first: str
) -> None:
    zone(desk, "Europe/Berlin")
    desk.figures = Telling(daily=Clock(clock))
    midnight = datetime.fromisoformat(f"{day}T00:00:00Z") - timedelta(hours=2)
    owe(desk, midnight)  # of the day before

    times = [at for n in range(1, 25 * 4) if owe(desk, at := midnight + minutes(n * 15))]

    assert times == [datetime.fromisoformat(first)]


def test_after_a_rebuild_it_is_not_told_twice(tmp_path: Path) -> None:
    desk = Desktop(tmp_path, AT_NINE)
    assert len(owe(desk)) == 1
    desk.deliver()

    again = desk.rebuild()
    again.tell()

    assert owe(again, again.now + minutes(1)) == []
    again.close()


def test_each_receiver_has_its_own_hour_and_language(tmp_path: Path) -> None:
    late = PAGER | {"daily": "10:00", "language": "zh"}
    desk = Desktop(tmp_path, AT_NINE, ops=OPS, soc=late, none=OPS | {"daily": "never"})

    first, second = owe(desk), owe(desk, desk.now + minutes(30))

    assert [said.language for said in first] == ["en"]
    assert [said.title for said in second] == ["2026-03-10：24 小时内 0 条告警，当前未恢复 0 条"]
    desk.close()


def test_without_a_word_in_the_config_there_is_none(tmp_path: Path) -> None:
    desk = Desktop(tmp_path)

    assert owe(desk) == []
    desk.close()


@pytest.mark.parametrize("text", ["9:00", "24:00", "09:60", "nine"])
def test_a_time_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is no time of day: write 09:00, or never"):
        load({"ops": OPS | {"daily": text}})


def test_many_names_are_cut_and_open_alerts_listed_to_a_point(desk: Desktop) -> None:
    for number in range(40):
        desk.open(f"al_{number:02}", f"gate-{number:02}", name="silent_source")

    [said] = owe(desk)

    assert facts(said)["silent sources"] == "gate-00, gate-01, gate-02, gate-03, gate-04 (+35)"
    assert (len(said.evidence), said.events) == (daily.OPEN_SHOWN, 40)
