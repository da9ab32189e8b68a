"""Whatever happens in whatever order, each receiver is told a story that makes sense."""

import tempfile
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from detectors import silences, triage
from detectors.silences import Matchers
from detectors.stretch import SEVERITIES
from ingest.config import Duration, Telling
from tests.kit_lifecycle import Desktop, minutes

SUBJECTS = 2
FIGURES = Telling(
    cool_down=Duration("20 minutes"), longest=Duration("40 minutes"), hold=Duration("3 minutes"),
    storm_after=2, storm_window=Duration("5 minutes"), storm_every=Duration("2 minutes"),
)  # fmt: skip
STEPS = st.lists(
    st.tuples(
        st.sampled_from(("open", "grow", "worse", "over", "back", "withdraw", "ack", "judge",
                         "reopen", "silence", "end", "rebuild")),
        st.integers(0, SUBJECTS - 1),
        st.sampled_from((0, 1, 2, 4, 11, 25)),
    ),
    min_size=15, max_size=30,
)  # fmt: skip


class Play:
    """Alerts of a few subjects, at most one open of each, and people."""

    def __init__(self, folder: Path) -> None:
        self.desk = Desktop(folder, FIGURES)
        self.number = 0
        self.last: dict[int, str] = {}
        self.silences: list[str] = []
        self.messages: list[dict[str, Any]] = []

    def step(self, what: str, subject: int, wait: int) -> None:
        known = self._row(subject)
        getattr(self, f"_{what}")(subject)
        self.tell(wait)
        row = self._row(subject)
        if row and known and row["alert_id"] == known["alert_id"] and known["told_at"]:
            stands = row["status"] == "open" and not known["closed_told"]
            assert not stands or not rose(row) or row["quiet_reason"] == "storm", row

    def tell(self, wait: float) -> None:
        self.desk.now += minutes(wait)
        rows = self.desk.queue()
        self.desk.deliver()
        for row in rows:
            named = [row["alert_id"]]
            if row["kind"] in ("storm", "calm"):
                sql = "SELECT alert_id FROM storm_members WHERE storm_id = $id AND told_at = $at"
                named = [each["alert_id"] for each in self.desk.store.rows(
                    sql, id=row["alert_id"], at=self.desk.now)]  # fmt: skip
            self.messages.append(row | {"named": named})

    def _row(self, subject: int) -> dict[str, Any] | None:
        return self.desk.alert(self.last[subject]) if subject in self.last else None

    def _open(self, subject: int) -> None:
        row = self._row(subject)
        if row is None or row["status"] != "open":
            self.number += 1
            self.last[subject] = f"al_{self.number:02}"
            self.desk.open(self.last[subject], f"a{subject}", "low")

    def _grow(self, subject: int) -> None:
        if (row := self._row(subject)) and row["status"] == "open":
            self.desk.change(row["alert_id"], ended_at=self.desk.now)

    def _worse(self, subject: int) -> None:
        if (row := self._row(subject)) and row["status"] == "open":
            rank = min(SEVERITIES.index(row["severity"]) + 1, 3)
            self.desk.change(row["alert_id"], severity=SEVERITIES[rank], ended_at=self.desk.now)

    def _over(self, subject: int) -> None:
        if (row := self._row(subject)) and row["status"] == "open":
            self.desk.over(row["alert_id"])

    def _back(self, subject: int) -> None:
        if (row := self._row(subject)) and row["status"] == "resolved":
            self.desk.change(row["alert_id"], status="open", ended_at=self.desk.now)

    def _withdraw(self, subject: int) -> None:
        if (row := self._row(subject)) and row["status"] in ("open", "resolved"):
            self.desk.change(row["alert_id"], status="withdrawn")

    def _ack(self, subject: int) -> None:
        if subject in self.last:
            triage.acknowledge(self.desk.store, self.desk.lander, self.last[subject], "ann", "",
                               self.desk.now)  # fmt: skip

    def _judge(self, subject: int) -> None:
        if subject in self.last:
            triage.judge(self.desk.store, self.desk.lander, self.last[subject], "expected", "ann",
                         "", self.desk.now)  # fmt: skip

    def _reopen(self, subject: int) -> None:
        if subject in self.last:
            triage.reopen(self.desk.store, self.desk.lander, self.last[subject], "ann", "",
                          self.desk.now)  # fmt: skip

    def _silence(self, subject: int) -> None:
        made = silences.add(
            self.desk.store, self.desk.lander, Matchers(subject=f"a{subject}"),
            self.desk.now + timedelta(minutes=30), "ann", "a drill", self.desk.now,
        )  # fmt: skip
        self.silences.append(made["silence_id"])

    def _end(self, subject: int) -> None:
        held = {row["silence_id"] for row in silences.listed(self.desk.store, self.desk.now)
                if row["active"]}  # fmt: skip
        for each in sorted(held)[:1]:
            silences.end(self.desk.store, self.desk.lander, each, "ann", self.desk.now)

    def _rebuild(self, subject: int) -> None:
        """Only where nothing is half told: what waits for a summary is told of anew then."""
        waiting = "SELECT 1 FROM storm_members WHERE told_at IS NULL"
        if not self.desk.store.rows(waiting):
            self.desk = self.desk.rebuild()


def rose(row: dict[str, Any]) -> bool:
    """Is it worse than people know?"""
    return SEVERITIES.index(row["severity"]) > SEVERITIES.index(row["told_severity"])


def check(play: Play) -> None:
    """Never an end without a beginning, never two beginnings without an end, no end twice."""
    standing: dict[str, str] = {}  # alert -> as bad as people know it to be
    over: Counter[str] = Counter()
    for row in play.messages:
        for alert in row["named"]:
            match row["kind"]:
                case "open":
                    assert alert not in standing, f"{alert} is opened twice"
                    standing[alert] = row["severity"]
                case "storm":
                    standing[alert] = row["severity"]
                case "worse":
                    before = standing[alert]
                    assert SEVERITIES.index(row["severity"]) > SEVERITIES.index(before)
                    standing[alert] = row["severity"]
                case "resolved" | "withdrawn":
                    assert alert in standing, f"{alert} ends and never began"
                    del standing[alert]
                    over[alert] += 1
                case "reminder" | "flapping":
                    assert alert in standing
                case "unsilenced":
                    assert alert in standing


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(STEPS)
def test_every_receiver_is_told_a_story_that_makes_sense(
    steps: list[tuple[str, int, int]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        play = Play(Path(folder))
        for what, subject, wait in steps:
            play.step(what, subject, wait)
        while held := [row for row in silences.listed(play.desk.store, play.desk.now)
                       if row["active"]]:  # fmt: skip
            silences.end(play.desk.store, play.desk.lander, held[0]["silence_id"], "a",
                         play.desk.now)  # fmt: skip
        for subject in range(SUBJECTS):
            if (row := play._row(subject)) and row["verdict"]:
                play._reopen(subject)
        for _ in range(8):  # everybody's patience is over
            play.tell(10)
        loud = play.desk.store.rows("SELECT * FROM alerts WHERE status = 'open'")
        quiet = [row for row in loud if row["told_at"] is None or row["closed_told"]]
        unsaid = [row for row in loud if row not in quiet and rose(row)]
        for row in loud:
            play.desk.over(row["alert_id"])
        for _ in range(4):
            play.tell(10)

        check(play)
        assert [row for row in quiet if row["quiet_reason"] != "flapping"] == []
        assert unsaid == []
        rows = play.desk.store.rows(
            "SELECT * FROM alerts WHERE told_at IS NOT NULL AND NOT closed_told"
        )
        assert rows == []
        play.desk.close()
