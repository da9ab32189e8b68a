"""Whatever happens to an alert in whatever order: each step is told in its time, and once."""

import tempfile
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from detectors import silences, triage
from detectors.routing import load_tree
from detectors.silences import Matchers
from detectors.stretch import SEVERITIES
from ingest.config import Duration, Telling
from tests.kit_lifecycle import PAGER, Desktop, detectors, minutes

FIGURES = Telling(
    cool_down=Duration("20 minutes"), longest=Duration("40 minutes"), hold=Duration("3 minutes")
)
STEPS = {"lead": minutes(5), "boss": minutes(20)}
TREE = {
    "to": ["ops"],
    "escalate": [{"after": f"{wait.seconds // 60} minutes", "to": [name]}
                 for name, wait in STEPS.items()],
}  # fmt: skip
HAPPENINGS = st.lists(
    st.tuples(
        st.sampled_from(("grow", "worse", "over", "back", "ack", "judge", "reopen", "silence",
                         "end", "rebuild", "forget")),
        st.sampled_from((0, 1, 2, 4, 6, 16, 25)),
    ),
    min_size=3, max_size=20,
)  # fmt: skip


class Play:
    """One alert, and a clock for its steps that is kept by looking at what people are told."""

    def __init__(self, folder: Path) -> None:
        self.desk = Desktop(folder, FIGURES, ops=PAGER, lead=PAGER, boss=PAGER)
        tags = {name: each.tags for name, each in detectors().items()}
        tree = load_tree(TREE, self.desk.desk.routes, tags)
        self.desk.desk = replace(self.desk.desk, tree=tree)
        self.began: datetime | None = None
        self.told: set[str] = set()
        self.desk.open("al_1", "a1", "low")
        self.round(0)

    def begin(self) -> None:
        self.began, self.told = self.desk.now, set()

    def round(self, wait: int) -> None:
        """Time passes, and people are told; of steps exactly those whose time has come."""
        self.desk.now += minutes(wait)
        self.desk.queue()
        sql = "SELECT receiver, kind FROM deliveries WHERE state = 'pending'"
        new = {(row["receiver"], row["kind"]) for row in self.desk.store.rows(sql)}
        self.desk.deliver()
        if {("ops", "open"), ("ops", "unsilenced")} & new:
            self.begin()
        if {("ops", "resolved"), ("ops", "withdrawn")} & new:
            self.began = None
        due = self.due()
        assert {name for name, kind in new if kind == "escalated"} == due
        self.told |= due

    def due(self) -> set[str]:
        row = self.desk.alert("al_1")
        hidden = row["quiet_reason"] in ("silence", "maintenance")
        if self.began is None or row["status"] != "open" or row["acked_at"] or hidden:
            return set()
        passed = self.desk.now - self.began
        return {name for name, after in STEPS.items() if passed >= after} - self.told

    def happen(self, what: str) -> None:
        row, desk = self.desk.alert("al_1"), self.desk
        match what:
            case "grow" if row["status"] == "open":
                desk.change("al_1", ended_at=desk.now)
            case "worse" if row["status"] == "open":
                rank = min(SEVERITIES.index(row["severity"]) + 1, 3)
                desk.change("al_1", severity=SEVERITIES[rank], ended_at=desk.now)
            case "over" if row["status"] == "open":
                desk.over("al_1")
            case "back" if row["status"] == "resolved":
                desk.change("al_1", status="open", ended_at=desk.now)
            case "ack":
                triage.acknowledge(desk.store, desk.lander, "al_1", "ann", "", desk.now)
            case "judge":
                triage.judge(desk.store, desk.lander, "al_1", "expected", "ann", "", desk.now)
            case "reopen":
                triage.reopen(desk.store, desk.lander, "al_1", "ann", "", desk.now)
                if self.began is not None:
                    self.begin()
            case "silence":
                until = desk.now + timedelta(minutes=30)
                wanted = Matchers(subject="a1")
                silences.add(desk.store, desk.lander, wanted, until, "ann", "a drill", desk.now)
            case "end":
                for each in silences.listed(desk.store, desk.now):
                    if each["active"]:
                        silences.end(desk.store, desk.lander, each["silence_id"], "ann", desk.now)
            case "rebuild":
                self.desk = desk.rebuild()
            case "forget":  # what says when to look again is no memory of what was told
                desk.run("DELETE FROM escalations")


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(HAPPENINGS)
def test_each_step_is_told_once_when_its_time_has_come(happenings: list[tuple[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        play = Play(Path(folder))
        for what, wait in happenings:
            play.happen(what)
            play.round(wait)
        for _ in range(3):
            play.round(7)
        play.desk.close()


def test_trouble_that_stops_and_goes_on_as_another_alert_keeps_its_clock(tmp_path: Path) -> None:
    play = Play(tmp_path)
    play.desk.now += minutes(2)
    play.desk.over("al_1")
    play.desk.now += minutes(1)
    play.desk.open("al_2", "a1", "low")
    assert play.desk.wait(0) == []
    assert play.desk.alert("al_2")["continues"] == "al_1"

    play.desk.wait(3)

    sql = "SELECT receiver, alert_id FROM deliveries WHERE kind = 'escalated'"
    assert play.desk.store.rows(sql) == [{"receiver": "lead", "alert_id": "al_1"}]
    play.desk.over("al_2")
    play.desk.wait(20)
    assert {row["receiver"] for row in play.desk.store.rows(
        "SELECT receiver FROM deliveries WHERE kind = 'resolved' AND alert_id = 'al_1'"
    )} == {"ops", "lead"}  # fmt: skip
    play.desk.close()
