"""What other values would have given: read from texts, counted by day, held against verdicts."""

from datetime import timedelta
from pathlib import Path

import pytest

from detectors import triage, trial
from detectors.header import Param
from ingest.config import ConfigError
from tests.kit import at, denied, loaded, numbered, store
from tests.world import World, native
from tests.world import at as after_nine
from tests.world import denied as line

SPAN = at("2026-03-09T00:00:00"), at("2026-03-12T00:00:00")


def test_values_are_read_as_the_header_declares_them() -> None:
    db = store()
    each = loaded("deny_retry", db)

    other = trial.varied(each, db, {}, {"denials": "4", "within": "90 seconds"})

    assert other.values == {"denials": 4, "within": timedelta(seconds=90)}
    assert other.version != each.version


def test_what_the_user_has_set_stays_beside_what_is_tried() -> None:
    db = store()
    own = {"deny_retry": {"within": "5 minutes", "enabled": True}}
    each = loaded("deny_retry", db, within="5 minutes")

    assert trial.varied(each, db, own, {"denials": "5"}).values == {
        "denials": 5,
        "within": timedelta(minutes=5),
    }


MISTAKES = [
    (["denials"], "--set: 'denials' is not name=value."),
    (["denial=4"], "--set: nothing declares 'denial'. Did you mean 'denials'?"),
    (["deny_rety.denials=4"], "--set: no detector 'deny_rety'. Did you mean 'deny_retry'?"),
    (["denials=four"], "--set denials: 'four' is not of type integer."),
    (["denials=99"], "--set.denials: 99 is above the maximum, 7."),
    (["deny_retry.most=4"], "--set: deny_retry has no 'most'. Known: denials, within."),
]


@pytest.mark.parametrize(("texts", "says"), MISTAKES)
def test_a_mistake_is_one_sentence(texts: list[str], says: str) -> None:
    db = store()
    chosen = {"deny_retry": loaded("deny_retry", db)}

    def tried() -> None:
        for name, sets in trial.assigned(texts, chosen).items():
            trial.varied(chosen[name], db, {}, sets)

    with pytest.raises(ConfigError) as caught:
        tried()

    assert str(caught.value) == says


def test_a_value_without_a_detector_is_for_each_that_declares_it() -> None:
    db = store()
    chosen = {name: loaded(name, db) for name in ("deny_retry", "deny_rotation", "config_churn")}

    assert trial.assigned(["denials=4", "config_churn.most=9"], chosen) == {
        "deny_retry": {"denials": "4"},
        "deny_rotation": {"denials": "4"},
        "config_churn": {"most": "9"},
    }


def test_alerts_are_counted_by_local_day_and_by_subject() -> None:
    late = ("2026-03-09T18:20:00", "2026-03-09T18:21:00", "2026-03-09T18:22:00")
    found = [*denied("09:00", "09:01", "09:02"), *denied(*late), *denied(*late, agent="a2")]
    db = store(numbered(found), {"global": {"timezone": "Asia/Kathmandu"}})

    [told] = trial.counts(db, trial.over(db, [loaded("deny_retry", db)], SPAN), SPAN)

    assert told["days"] == {"2026-03-10": 3}  # 18:20 in UTC is 00:05 there
    assert told["subjects"] == {"a1": 2, "a2": 1}
    assert (told["alerts"], told["per_day"], told["subjects_total"]) == (3, 1.0, 2)


def test_a_ladder_goes_both_ways_and_stays_within_bounds() -> None:
    db = store(numbered(denied("09:00", "09:01", "09:02")))
    each = loaded("deny_retry", db)

    steps = [s for s in trial.tune(db, each, {}, SPAN) if s.param == "denials"]

    assert [(s.value, s.in_force, s.alerts) for s in steps] == [
        ("2", False, 1), ("3", True, 1), ("4", False, 0), ("6", False, 0),
    ]  # fmt: skip
    assert trial.ladder(Param("text", "a", choices=("a", "b")), "a") == ["a", "b"]


def test_verdicts_make_a_precision_and_tell_what_would_be_lost(tmp_path: Path) -> None:
    world = World(tmp_path)
    for number, agent in enumerate(("right", "wrong", "short")):
        count = 3 if agent == "short" else 5
        world.land([line(60 * number + n, agent, event_id=f"{agent}{n}") for n in range(count)])
    world.tick(after_nine(300))
    for row in world.rows("SELECT alert_id, subject FROM alerts WHERE detector = 'deny_retry'"):
        verdict = "false" if row["subject"] == "wrong" else "true"
        triage.judge(
            world.store, world.lander, row["alert_id"], verdict, "kim", "", after_nine(301)
        )
    span = after_nine(-60), after_nine(300)

    with world.store.reading() as db:
        each = world.detectors["deny_retry"]
        three, five = trial.tune(db, each, {}, span, "denials", ["3", "5"])

    assert (three.alerts, three.right, three.wrong, three.lost) == (3, 2, 1, 0)
    assert three.precision == pytest.approx(0.667)
    assert (five.alerts, five.right, five.wrong, five.lost) == (2, 1, 1, 1)
    assert five.precision == 0.5
    world.close()


def test_without_verdicts_there_is_no_precision(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.land([native(0, tool="x", decision="deny", event_id=str(n)) for n in range(3)])

    with world.store.reading() as db:
        each = world.detectors["deny_retry"]
        [step] = trial.tune(db, each, {}, (after_nine(-1), after_nine(9)), "denials", ["3"])

    assert (step.alerts, step.precision) == (1, None)
    world.close()


@pytest.mark.parametrize(
    ("param", "values", "says"),
    [
        ("denial", [], "tune: deny_retry has no parameter 'denial'. Did you mean 'denials'?"),
        (None, ["3"], "tune: name the --param that the --values are of."),
        ("denials", ["99"], "--values.denials: 99 is above the maximum, 7."),
    ],
)
def test_a_mistake_in_tuning_is_one_sentence(
    param: str | None, values: list[str], says: str
) -> None:
    db = store()

    with pytest.raises(ConfigError) as caught:
        list(trial.tune(db, loaded("deny_retry", db), {}, SPAN, param, values))

    assert str(caught.value) == says
