"""Silences: what they hide, what breaks through, and that their end is told while it matters."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from detectors import silences, triage
from detectors.silences import Matchers
from ingest.config import ConfigError
from tests.kit_lifecycle import Desktop, detectors, minutes


def silence(desk: Desktop, hours: float = 1, **wanted: Any) -> str:
    made = silences.add(
        desk.store, desk.lander, Matchers(**wanted), desk.now + timedelta(hours=hours), "ann",
        "a drill", desk.now,
    )  # fmt: skip
    return str(made["silence_id"])


@pytest.mark.parametrize(
    ("wanted", "hidden"),
    [
        ({"detector": "deny_retry"}, True),
        ({"detector": "deny_*"}, True),
        ({"detector": "call_loop"}, False),
        ({"subject": "billing-7"}, True),
        ({"subject": "billing-*"}, True),
        ({"subject": "Billing-*"}, False),
        ({"subject": "*[7]"}, True),
        ({"subject": "billing"}, False),
        ({"agent": "bot-?"}, True),
        ({"agent": "bot"}, False),
        ({"agent": "trace*"}, False),
        ({"tenant": "acme"}, True),
        ({"tenant": "other"}, False),
        ({"tag": "mine"}, True),
        ({"tag": "theirs"}, False),
        ({"severity": "medium"}, True),
        ({"severity": "low"}, False),
        ({"at_most": "medium"}, True),
        ({"at_most": "high"}, True),
        ({"at_most": "low"}, False),
        ({"detector": "deny_retry", "subject": "billing-*", "at_most": "high"}, True),
        ({"detector": "deny_retry", "subject": "till-*"}, False),
    ],
)
def test_a_silence_hides_what_it_matches_whole(
    desk: Desktop, wanted: dict[str, Any], hidden: bool
) -> None:
    each = desk.detectors["deny_retry"]
    desk.detectors["deny_retry"] = type(each)(**{**vars(each), "tags": ("mine",)})
    silence(desk, **wanted)

    desk.open("al_1", "billing-7", tenant="acme", about=["agent bot-1", "trace t-1"])

    assert (desk.tell() == []) == hidden
    assert (desk.alert("al_1")["quiet_reason"] == "silence") == hidden


def test_a_name_with_signs_of_a_pattern_matches_itself(desk: Desktop) -> None:
    silence(desk, subject="what? [ever]*")

    desk.open("al_1", "what? [ever]*")

    assert desk.tell() == []


def test_what_is_open_when_a_silence_ends_is_told_once(desk: Desktop) -> None:
    silence(desk, 1, subject="a*")
    desk.open("al_new", "a1")
    hidden = desk.tell() + desk.wait(59)

    end = desk.wait(1)

    assert (hidden, end) == ([], [("open", "al_new")])
    assert desk.wait(1) == []


def test_those_who_knew_of_it_are_told_that_the_silence_is_over(desk: Desktop) -> None:
    desk.open("al_1")
    desk.tell()
    silence(desk, 3, subject="a1")
    desk.now += minutes(70)
    desk.change("al_1", ended_at=desk.now)  # due for a reminder
    hidden = desk.tell()
    reason = desk.alert("al_1")["quiet_reason"]

    end = desk.wait(110)

    assert (hidden, reason) == ([], "silence")
    assert end == [("unsilenced", "al_1")]
    assert [desk.wait(1) for _ in range(5)] == [[]] * 5


def test_a_silence_that_is_ended_early_is_over_at_once(desk: Desktop) -> None:
    made = silence(desk, 5, subject="a1")
    desk.open("al_1")
    assert desk.wait(1) == []

    row = silences.end(desk.store, desk.lander, made, "bob", desk.now)

    assert (row["ended_by"], row["expires_at"]) == ("bob", desk.now)
    assert desk.tell() == [("open", "al_1")]
    with pytest.raises(ConfigError, match="None is in force"):
        silences.end(desk.store, desk.lander, made, "bob", desk.now)


def test_what_somebody_has_needs_no_word_when_its_silence_ends(desk: Desktop) -> None:
    desk.open("al_1")
    desk.tell()
    silence(desk, 1, subject="a1")
    desk.wait(1)
    triage.acknowledge(desk.store, desk.lander, "al_1", "ann", "", desk.now)

    assert [kind for kind, _ in desk.wait(60)] == []
    assert desk.alert("al_1")["quiet_reason"] is None


def test_the_end_of_what_was_seen_is_told_and_of_what_was_not_is_not(desk: Desktop) -> None:
    desk.open("al_seen", "a1")
    desk.tell()
    silence(desk, 5, subject="a*")
    desk.open("al_unseen", "a2")
    desk.wait(1)

    for alert in ("al_seen", "al_unseen"):
        desk.over(alert)

    assert desk.wait(15) == [("resolved", "al_seen")]
    assert desk.wait(400) == []


def test_what_gets_worse_than_it_was_when_it_was_hidden_is_told(desk: Desktop) -> None:
    silence(desk, 5, subject="a*")
    desk.open("al_1", "a1", "low")
    desk.open("al_2", "a2", "low")
    hidden = desk.wait(1)

    desk.change("al_1", severity="high")

    assert hidden == []
    assert desk.wait(1) == [("open", "al_1")]
    assert desk.alert("al_2")["quiet_reason"] == "silence"


def test_a_silence_that_says_how_bad_hides_what_gets_no_worse_than_that(desk: Desktop) -> None:
    desk.open("al_1", "a1", "low")
    desk.tell()
    silence(desk, 5, subject="a*", at_most="high")
    desk.open("al_2", "a2", "low")
    desk.wait(1)

    for alert in ("al_1", "al_2"):
        desk.change(alert, severity="high")
    hidden = desk.wait(1)
    for alert in ("al_1", "al_2"):
        desk.change(alert, severity="critical")

    assert hidden == []
    assert sorted(desk.wait(1)) == [("open", "al_2"), ("worse", "al_1")]


def test_a_verdict_keeps_an_alert_quiet_of_which_nobody_was_told(desk: Desktop) -> None:
    silence(desk, 1, subject="a1")
    desk.open("al_1")
    desk.tell()
    triage.judge(desk.store, desk.lander, "al_1", "expected", "ann", "a drill", desk.now)

    assert desk.wait(61) == []
    assert desk.alert("al_1")["quiet_reason"] == "judged"


def test_a_preview_counts_what_is_open_and_what_came_in_a_week(desk: Desktop) -> None:
    for number in range(60):
        desk.open(f"al_{number}", f"a{number}", "low")
    desk.open("al_worst", "a99", "critical")
    desk.over("al_7")
    desk.change("al_8", status="resolved", opened_at=desk.now - timedelta(days=8))
    desk.open("al_other", "b1")

    told = silences.preview(
        desk.store, Matchers(subject="a*"), silences.tags(desk.detectors), desk.now
    )

    assert (told["open_count"], told["week_count"]) == (59, 60)
    assert len(told["open"]) == silences.SHOWN
    assert told["open"][0]["alert_id"] == "al_worst"
    assert {"severity", "detector", "subject", "title"} <= told["open"][0].keys()


def test_a_preview_of_what_matches_nothing_is_empty(desk: Desktop) -> None:
    told = silences.preview(desk.store, Matchers(subject="a*"), {}, desk.now)

    assert told == {"open": [], "open_count": 0, "week": [], "week_count": 0}


def test_silences_are_listed_while_they_hold_and_a_week_on(desk: Desktop) -> None:
    short, long = silence(desk, 1, subject="a1"), silence(desk, 300, detector="deny_*")

    now = silences.listed(desk.store, desk.now)
    later = silences.listed(desk.store, desk.now + timedelta(hours=2))
    much_later = silences.listed(desk.store, desk.now + timedelta(days=8))

    assert [(row["silence_id"], row["active"]) for row in now] == [(short, True), (long, True)]
    assert [(row["silence_id"], row["active"]) for row in later] == [(long, True), (short, False)]
    assert [row["silence_id"] for row in much_later] == [long]


def test_a_silence_survives_a_rebuild(tmp_path: Path) -> None:
    desk = Desktop(tmp_path)
    silence(desk, 5, subject="a*", at_most="high")
    ended = silence(desk, 5, detector="deny_retry")
    silences.end(desk.store, desk.lander, ended, "bob", desk.now)
    before = silences.listed(desk.store, desk.now)

    again = desk.rebuild()
    again.open("al_1", "a1")

    assert again.tell() == []
    assert silences.listed(again.store, again.now) == before
    again.close()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "silence: it would match everything: name at least one of detector, subject, agent,"
             " tenant, tag, severity, at_most. Where everything is meant, write"
             ' detector = "*".'),
        ({"detecter": "deny_retry"}, "silence: unknown key 'detecter'. Did you mean 'detector'?"),
        ({"detector": "deny_rety"},
         "silence: no detector called 'deny_rety'. Did you mean 'deny_retry'?"),
        ({"at_most": "bad"}, "silence: Invalid enum value 'bad' - at `$.at_most`."
                             " Known: critical, high, low, medium."),
        ({"severity": "low", "at_most": "high"},
         "silence: `severity` is exactly, `at_most` no worse than: name one."),
    ],
)  # fmt: skip
def test_matchers_that_are_none_are_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        silences.matchers(given, detectors(), "silence")

    assert str(caught.value) == said


@pytest.mark.parametrize(
    ("hours", "reason", "said"),
    [
        (-1, "x", "until: .* is over"),
        (31 * 24, "x", "a silence lasts 30 days at most"),
        (1, " ", "reason: say why"),
        (1, "x" * 1_001, "reason: longer than 1000"),
    ],
)
def test_a_silence_without_reason_or_end_is_refused(
    desk: Desktop, hours: float, reason: str, said: str
) -> None:
    ends, before = desk.now + timedelta(hours=hours), desk.ledger.seq
    with pytest.raises(ConfigError, match=said):
        silences.add(desk.store, desk.lander, Matchers(subject="a"), ends, "a", reason, desk.now)

    assert desk.ledger.seq == before


@pytest.mark.parametrize("name", ["*", "a?", "[a-z]*", "\\*", "a\\", "a1"])
def test_a_name_out_of_a_log_is_silenced_and_nobody_else(desk: Desktop, name: str) -> None:
    desk.open("al_1", name)
    desk.open("al_2", "ab")
    silence(desk, subject=silences.exactly(name))

    assert desk.tell() == [("open", "al_2")]
