from datetime import timedelta
from types import SimpleNamespace

import msgspec
import pytest

from detectors.explain import UnknownAlertError, explain, render
from tests.kit_telling import START, Build, House

HEADER = SimpleNamespace(why="It is stuck.", respond="Open the trace.", quiet="Once is normal.")
DETECTORS = {"deny_retry": SimpleNamespace(header=HEADER, values_of=lambda who: {"denials": 3})}


def told(build: Build) -> House:
    house = build()
    for minute, name in enumerate(("e1", "e2", "e3")):
        house.event(name, START + timedelta(minutes=minute), trace_id=f"t-{minute}")
    house.owe(house.alert())
    house.run()
    with house.store.writing() as db:
        db.execute("INSERT INTO alert_events VALUES ('al_7f3a', ?, 'opened', 'x')", [START])
    return house


def test_an_alert_is_explained_with_evidence_in_order_and_who_was_told(build: Build) -> None:
    found = explain(told(build).store, "al_7f3a", DETECTORS)

    assert found["why"] == "It is stuck."
    assert [event["event_id"] for event in found["evidence"]] == ["e1", "e2", "e3"]
    assert found["trace_ids"] == ["t-0", "t-1", "t-2"]
    [delivery] = found["deliveries"]
    assert (delivery["receiver"], delivery["state"], delivery["attempts"]) == (
        "ops", "delivered", 1,
    )  # fmt: skip
    assert found["history"] == [{"ts": "2026-03-10T09:00:00Z", "what": "opened", "detail": "x"}]
    assert msgspec.json.decode(msgspec.json.encode(found)) == found


def test_the_text_says_the_same(build: Build) -> None:
    text = render(explain(told(build).store, "al_7f3a", DETECTORS))

    parts = (
        "al_7f3a  high  open  deny_retry",
        "Why: It is stuck.",
        "denials: 3",
        "Evidence, 3 of 3 events:",
        "Traces: t-0, t-1, t-2",
        "ops  open  delivered",
    )
    assert [part for part in parts if part not in text] == []


def test_no_log_text_moves_the_cursor(build: Build) -> None:
    house = build()
    house.event("e1", START, reason="\x1b[2J\r\n\u202eowned")
    house.alert(title="\x1b]0;title\x07a1", subject="a\nb")

    text = render(explain(house.store, "al_7f3a", {}))

    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "\\x1b[2J\\r\\n" in text


def test_a_detector_that_is_gone_leaves_its_alerts_readable(build: Build) -> None:
    house = build()
    house.alert()

    assert explain(house.store, "al_7f3a", {})["why"] is None


def test_an_unknown_alert_names_the_nearest(build: Build) -> None:
    house = build()
    house.alert()

    with pytest.raises(UnknownAlertError, match="Did you mean 'al_7f3a'"):
        explain(house.store, "al_7f3b", {})
