"""Alertmanagers: told of all that stands, again and again, and of each end."""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from detectors import alertmanager, metrics
from detectors.alertmanager import AHEAD, EVERY, HEARTBEAT, REPEATED, Alertmanager, begins
from detectors.alertmanager_push import LOOK, Pusher
from ingest.config import ConfigError, Secret, Settings
from tests.fakes.alertmanager import Alertmanager as Fake
from tests.kit import CASES
from tests.kit_telling import URL
from tests.world import World, at, denied

SETTINGS = Settings(public_url=URL)


def fixture(case: str) -> dict[str, Any]:
    [path] = (CASES / "fixtures").glob(f"{case}-*.json")
    return dict(json.loads(path.read_text(encoding="utf-8")))


class House:
    """A small installation, and Alertmanagers that it tells."""

    def __init__(self, folder: Path, peers: int = 1, **options: Any) -> None:
        self.folder, self.now = folder, at(3)
        self.fakes = [Fake(lambda: self.now) for _ in range(peers)]
        urls = tuple(f"https://am-{number}.example" for number in range(peers))
        self.configured = Alertmanager(urls=urls, **options)
        self.start()

    def start(self) -> None:
        """Open it, as the next process does."""
        self.world = World(self.folder, only=("deny_retry",))
        self.pusher = Pusher(self.world.store, self.configured, SETTINGS, self.now, self.client)

    def client(self) -> httpx.Client:
        def reply(request: httpx.Request) -> httpx.Response:
            return self.fakes[int(request.url.host[3])](request)

        return httpx.Client(transport=httpx.MockTransport(reply))

    def step(self, seconds: float = 0.0) -> None:
        """Time passes, it is judged, and Alertmanagers are told."""
        self.now += timedelta(seconds=seconds)
        self.world.tick(self.now)
        self.pusher.step(self.world.detectors, self.now)

    def run(self, seconds: float, every: float = 30.0) -> None:
        for _ in range(int(seconds / every)):
            self.step(every)

    def fire(self, agent: str = "a1", minute: float = 0) -> None:
        lines = [denied(minute + m, agent, event_id=f"{agent}-{minute + m}", trace_id="t-1")
                 for m in range(3)]  # fmt: skip
        self.world.land(lines, self.now)

    def goes_on(self) -> None:
        """The trouble of a1 lasts: one more denial now."""
        minute = (self.now - at(0)).total_seconds() / 60
        self.world.land([denied(minute, event_id=f"{minute}")], self.now)

    def page(self) -> str:
        return metrics.page(self.world.store, {}, (), (0, ""), self.now).decode()

    def close(self) -> None:
        self.pusher.close()
        self.world.close()


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(tmp_path)
    yield made
    made.close()


def test_an_alert_is_told_at_once_with_labels_that_name_it_and_texts_that_explain(
    house: House,
) -> None:
    house.step()
    house.fire()
    house.step(LOOK)

    [[heartbeat], [alert]] = house.fakes[0].heard
    [row] = house.world.rows("SELECT alert_id FROM alerts")
    assert heartbeat["labels"]["alertname"] == HEARTBEAT
    assert len(alert["labels"].pop("gatewatch_fp")) == 16
    assert alert["labels"] == {
        "alertname": "GatewatchDenyRetry", "detector": "deny_retry", "gateway": "gate",
        "agent": "a1", "severity": "warning", "level": "high",
    }  # fmt: skip
    about = alert["annotations"]
    assert about["summary"].startswith("a1: 3 denials in a row")
    assert about["description"].startswith("a1: ")
    assert about["dashboard_url"] == f"{URL}/alert?alert={row['alert_id']}"
    assert (about["alert_id"], about["count"]) == (row["alert_id"], "3")
    assert about["window"] == "2026-03-10T09:00:00.000Z/2026-03-10T09:02:00.000Z"
    assert about["rule_version"]
    assert "runbook_url" not in about  # an empty text is none
    assert (alert["startsAt"], alert["endsAt"]) == (
        "2026-03-10T09:00:00.000Z", _rfc(house.now + AHEAD),
    )  # fmt: skip
    assert alert["generatorURL"] == URL


def _rfc(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def test_an_alert_that_grows_stays_the_same_alert(house: House) -> None:
    house.fire()
    house.step()
    house.goes_on()
    house.step(EVERY.total_seconds())

    [alert] = house.fakes[0].active(alertname="GatewatchDenyRetry")
    assert alert["annotations"]["count"] == "4"
    assert alert["startsAt"] == "2026-03-10T09:00:00.000Z"


def test_all_of_it_is_said_each_minute_and_nothing_between(house: House) -> None:
    house.fire()
    house.step()
    house.run(50, every=10)
    assert [len(each) for each in house.fakes[0].heard] == [2]

    house.step(10)

    assert [len(each) for each in house.fakes[0].heard] == [2, 2]


def test_b125_what_begins_and_ends_in_one_second_is_accepted_and_over(house: House) -> None:
    case = fixture("B125")
    for each in case["incidents"]:
        started = each["started"] and datetime.fromisoformat(each["started"])
        assert begins(started, house.now) < house.now
        house.fire(each["incident_id"])
    house.step()
    with house.world.store.writing() as db:  # they end in the very moment in which they began
        db.execute("UPDATE firing SET started_at = ?", [house.now])
        db.execute("UPDATE alerts SET status = 'resolved', resolved_at = ?", [house.now])
    house.pusher.step(house.world.detectors, house.now)
    house.now += timedelta(seconds=2)

    fake = house.fakes[0]
    assert fake.rejected == case["expect"]["rejected"]
    assert len(fake.kept) == 3
    assert fake.active(alertname="GatewatchDenyRetry") == []


def test_b127_an_alertmanager_that_starts_empty_knows_again_within_a_minute(
    house: House,
) -> None:
    case = fixture("B127")
    began = house.now
    active: dict[str, bool] = {}
    house.fire()
    house.step()
    while (passed := (house.now - began).total_seconds()) < case["duration_s"]:
        if passed == 600:
            house.fakes[0].restart()
        if passed % 240 == 0:
            house.goes_on()
        house.step(10)
        passed = (house.now - began).total_seconds()
        if str(int(passed)) in case["expect"]["active_at_s"]:
            active[str(int(passed))] = bool(house.fakes[0].active(detector="deny_retry"))

    assert active == case["expect"]["active_at_s"]


def test_b128_an_end_that_came_while_we_were_down_is_told_after_the_start(house: House) -> None:
    messages = []
    house.fire()
    house.step()
    messages += ["trigger"] if house.fakes[0].active(detector="deny_retry") else []
    house.pusher.close()
    house.now += timedelta(minutes=3)
    with house.world.store.writing() as db:  # it ends, and the process dies before it says so
        db.execute("UPDATE alerts SET status = 'resolved', resolved_at = ?", [house.now])
    house.world.close()
    assert house.fakes[0].active(detector="deny_retry")

    house.now += timedelta(seconds=30)
    house.start()
    house.pusher.step(house.world.detectors, house.now)

    messages += [] if house.fakes[0].active(detector="deny_retry") else ["resolve"]
    assert messages == fixture("B128")["expect"]["messages"]
    [told] = [each for each in house.fakes[0].heard[-1] if each["labels"].get("detector")]
    assert told["endsAt"] == _rfc(house.now)


def test_an_end_is_said_for_six_minutes_to_whoever_may_have_started_empty(house: House) -> None:
    house.fire()
    house.step()
    house.run(12 * 60)
    ends = {each["endsAt"] for heard in house.fakes[0].heard for each in heard
            if each["labels"].get("detector")}  # fmt: skip
    [over] = house.world.rows("SELECT ended_at FROM firing")
    assert over["ended_at"] is not None
    assert _rfc(over["ended_at"]) in ends

    house.run(REPEATED.total_seconds() + 60)

    assert house.world.rows("SELECT * FROM firing") == []
    assert [len(each) for each in house.fakes[0].heard[-1:]] == [1]


def test_another_severity_ends_one_alert_and_begins_another_in_one_request(house: House) -> None:
    house.fire()
    house.step()
    with house.world.store.writing() as db:
        db.execute("UPDATE alerts SET severity = 'critical', gates = ['another']")
    house.now += timedelta(seconds=5)
    house.pusher.step(house.world.detectors, house.now)

    both = {each["labels"]["level"]: each for each in house.fakes[0].heard[-1]}
    assert both.keys() == {"high", "critical"}
    assert both["high"]["endsAt"] == _rfc(house.now)
    assert both["critical"]["endsAt"] == _rfc(house.now + AHEAD)
    same = ("alertname", "detector", "agent", "gateway", "gatewatch_fp")
    for name in same:
        assert both["high"]["labels"][name] == both["critical"]["labels"][name]


@pytest.mark.parametrize("reason", ["shadow", "silence", "inhibited", "maintenance", "judged"])
def test_what_people_are_kept_from_is_kept_from_alertmanager(house: House, reason: str) -> None:
    house.fire()
    house.world.tick(house.now)
    with house.world.store.writing() as db:
        db.execute("UPDATE alerts SET told_at = NULL, quiet_reason = ?", [reason])

    house.pusher.step(house.world.detectors, house.now)

    assert house.fakes[0].active(detector="deny_retry") == []


@pytest.mark.parametrize("reason", ["cooldown", "storm", "flapping"])
def test_what_it_can_hold_back_for_itself_it_is_told(house: House, reason: str) -> None:
    house.fire()
    house.world.tick(house.now)
    with house.world.store.writing() as db:
        db.execute("UPDATE alerts SET told_at = NULL, quiet_reason = ?", [reason])

    house.pusher.step(house.world.detectors, house.now)

    assert len(house.fakes[0].active(detector="deny_retry")) == 1


def test_an_alert_that_was_told_and_then_judged_false_ends(house: House) -> None:
    house.fire()
    house.step()
    with house.world.store.writing() as db:
        db.execute("UPDATE alerts SET verdict = 'false'")
    house.pusher.step(house.world.detectors, house.now + timedelta(seconds=1))
    house.now += timedelta(seconds=2)

    assert house.fakes[0].active(detector="deny_retry") == []


def test_every_peer_is_told_and_one_that_took_it_is_enough(tmp_path: Path) -> None:
    house = House(tmp_path, peers=2)
    house.fakes[0].away = 503
    house.fire()
    house.step()

    text = house.page()
    assert len(house.fakes[1].active(detector="deny_retry")) == 1
    assert house.world.rows("SELECT count(*)::INTEGER AS n FROM firing WHERE fresh") == [{"n": 0}]
    failed = "gatewatch_notifications_failed_total{reason="
    assert f'{failed}"serverError",receiver="alertmanager-1"}} 1.0' in text
    assert f'{failed}"serverError",receiver="alertmanager-2"}} 0.0' in text
    assert 'gatewatch_notifications_total{receiver="alertmanager-2"} 1.0' in text
    house.close()


def test_where_none_took_it_all_is_said_again_soon(house: House) -> None:
    house.fakes[0].away = 502
    house.fire()
    house.step()
    house.fakes[0].away = None
    house.step(10)

    assert len(house.fakes[0].active(detector="deny_retry")) == 1
    assert len(house.fakes[0].active(alertname=HEARTBEAT)) == 1


def test_one_alert_that_is_refused_keeps_no_other_away(house: House) -> None:
    for number in range(9):
        house.fire(f"a{number}")
    house.world.tick(house.now)
    house.pusher.step(house.world.detectors, house.now)
    [bad] = house.fakes[0].active(agent="a4")
    with house.world.store.writing() as db:  # as another version of Alertmanager may see it
        db.execute("UPDATE firing SET started_at = ? WHERE fp = ?",
                   [house.now + timedelta(days=9), bad["labels"]["gatewatch_fp"]])  # fmt: skip
    house.fakes[0].restart()
    house.now += EVERY
    house.pusher.step(house.world.detectors, house.now)

    active = house.fakes[0].active(detector="deny_retry")
    assert {each["labels"]["agent"] for each in active} == {f"a{n}" for n in range(9)} - {"a4"}
    assert 'reason="clientError",receiver="alertmanager-1"' in house.page()
    assert house.world.rows("SELECT 1 AS x FROM firing WHERE fresh") == []


def test_who_we_are_goes_with_each_request_and_into_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    house = House(tmp_path, token=Secret("am-token"))
    house.fakes[0].away = 401
    house.fire()
    house.step()

    assert house.fakes[0].asked[0].headers["authorization"] == "Bearer am-token"
    assert "does not take alerts: HTTP 401" in caplog.text
    assert "am-token" not in caplog.text + house.page() + repr(house.configured)
    house.close()


def test_hostile_names_stay_one_line_and_short(house: House) -> None:
    evil = "x\n\u202e{{ .Labels }}" + "y" * 900
    house.fire(evil)
    house.step()

    [alert] = house.fakes[0].active(detector="deny_retry")
    said = [*alert["labels"].values(), *alert["annotations"].values()]
    assert not [each for each in said if "\n" in each or "\u202e" in each or len(each) > 800]
    assert len(alert["labels"]["agent"]) <= 200


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"urls": []}, "Expected `array` of length >= 1"),
        ({"url": "https://am.example"}, "Did you mean 'urls'?"),
        ({"urls": ["https://am.example", "http://am.example"]}, "address 2 must begin with https"),
        ({"urls": ["https://169.254.169.254"], "allow_private": True}, "which no receiver has"),
        ({"urls": ["https://am.example", "https://am.example/"]}, "stands there twice"),
    ],
)
def test_a_wrong_table_is_named(table: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError) as error:
        alertmanager.read(Settings(alertmanager=table), "gatewatch.toml: alertmanager")

    assert says in str(error.value)
    assert str(error.value).startswith("gatewatch.toml: alertmanager")


def test_without_a_table_nobody_is_told() -> None:
    assert alertmanager.read(Settings(), "gatewatch.toml: alertmanager") is None
