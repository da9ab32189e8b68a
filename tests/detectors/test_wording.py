import json
import re
from datetime import timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from detectors import detector, wording
from detectors.detector import Detector
from detectors.fact_names import NAMES
from detectors.phrases import parts
from ingest.store import Db, memory_store
from tests.kit_receivers import NOW
from tests.kit_telling import START, URL, Build, House


def worded(house: House, language: str = "en", **columns: Any) -> Any:
    alert = house.alert(**columns)
    events = wording.evidence(house.rows, alert)
    return wording.message(alert, events, "Open the trace.", "open", "dl_1", language, URL, NOW)  # type: ignore[arg-type]


def test_a_message_shows_what_a_person_needs_to_judge(build: Build) -> None:
    house = build()
    for minute, name in enumerate(("e1", "e2", "e3")):
        house.event(name, START + timedelta(minutes=minute))

    message = worded(house, facts='{"denials": 3, "threshold": 3, "tool": "crm.export_contacts"}')

    assert message.facts == (
        ("denials", "3"),
        ("threshold", "3"),
        ("agent", "a1"),
        ("operation", "crm.export_contacts"),
        ("chain id", "t-1"),
        ("since", "2026-03-10T09:00:00Z"),
        ("until", "2026-03-10T09:03:00Z"),
    )
    assert message.evidence[0] == (
        "03-10 09:02:00Z a1 crm.export_contacts export_all=true limit=5000"
        " -> deny [rule-17] not on the list"
    )
    assert message.link == "https://gatewatch.example/alert?alert=al_7f3a"


def test_a_message_names_the_account_the_parameters_and_the_trace(build: Build) -> None:
    house = build()
    house.event("e1", START, principal="svc-billing", trace_id="t/1 &x=<b>")

    message = worded(house)

    assert ("account", "svc-billing") in message.facts
    assert message.params == (("export_all", "true"), ("limit", "5000"))
    assert message.buttons == (("trace", f"{URL}/trace?trace=t%2F1%20%26x%3D%3Cb%3E"),)


def test_counts_stand_beside_what_they_are_held_against(build: Build) -> None:
    house = build()
    table = {"denials": 4, "for": [{"match": "billing-*", "denials": 7}]}
    with house.store.reading() as db:
        loaded = detector.load_all(db, {"deny_retry": table})["deny_retry"]

    def threshold(**columns: Any) -> str:
        return wording.limits(loaded, house.alert(**columns))

    assert threshold() == "denials 4, within 10 minutes"
    assert threshold(alert_id="al_2", subject="billing-1") == "denials 7, within 10 minutes"
    about = ["agent billing-2", "trace t-1"]
    assert threshold(alert_id="al_3", subject="t-1", about=about) == "denials 7, within 10 minutes"
    told = dict(wording.facts(house.alert("al_4"), [], "en", "denials 4"))
    assert [*told][:2] == ["denials", "threshold"]
    assert told["threshold"] == "denials 4"


def test_a_threshold_of_the_alert_itself_goes_before_the_detectors(build: Build) -> None:
    alert = build().alert(facts='{"threshold": 90, "calls": 95, "ratio": 6.5}')

    told = [*wording.facts(alert, [], "en", "factor 5")]

    assert told[:3] == [("calls", "95"), ("ratio", "6.5"), ("threshold", "90")]


def test_every_fact_of_the_catalogue_has_a_name_in_chinese() -> None:
    with memory_store().reading() as db:
        every = detector.load_all(db)
        names = {name for each in every.values() for name in columns_of(db, each)}

    own = {name for name in names if not name.endswith("_zh")} - PROMISED
    assert {name for name in own if name not in NAMES["zh"]} == set()
    assert len(own) > 100


PROMISED = {"subject", "started_at", "ended_at", "event_ids", "severity", "tenant", "agent"}


def columns_of(db: Db, each: Detector) -> tuple[str, ...]:
    if each.run is not None:
        return each.header.facts
    given = {**each.values, "since": NOW, "until": NOW, "lookback": each.lookback}
    asked = set(re.findall(r"\$(\w+)", each.sql))
    query = db.sql(each.sql, params={key: given[key] for key in asked & given.keys()})
    return tuple(query.columns)


def test_lengths_of_time_are_told_in_the_unit_that_divides_them() -> None:
    lengths = [timedelta(days=1), timedelta(hours=2), timedelta(minutes=15), timedelta(seconds=61),
               timedelta(seconds=0.5)]  # fmt: skip

    assert [wording.lasting(each) for each in lengths] == [
        "1 day", "2 hours", "15 minutes", "61 seconds", "0.5 seconds",
    ]  # fmt: skip


def test_three_events_are_shown_and_all_are_counted(build: Build) -> None:
    house = build()
    names = [f"e{number}" for number in range(20)]
    for number, name in enumerate(names):
        house.event(name, START + timedelta(seconds=number))

    message = worded(house, event_ids=names)

    assert [line[:15] for line in message.evidence] == [
        "03-10 09:00:19Z", "03-10 09:00:18Z", "03-10 09:00:17Z",
    ]  # fmt: skip
    assert message.events == 20
    assert "Samples (3 of 20 events)" in parts(message, str).lines


def test_the_clock_of_the_people_on_duty_stands_beside_utc(build: Build) -> None:
    house = build()
    alert = house.alert()

    def when(zone: str) -> str:
        told = wording.message(alert, [], "", "open", "dl_1", "en", URL, NOW, zone)
        return parts(told, str).when

    assert when("Asia/Shanghai") == "2026-03-10T09:30:00Z (2026-03-10 17:30:00 +0800)"
    assert when("UTC") == "2026-03-10T09:30:00Z"


def test_a_name_too_long_for_a_link_is_not_linked(build: Build) -> None:
    house = build()
    house.event("e1", START, trace_id="t" * 201)

    assert worded(house).buttons == ()


def test_chinese_readers_get_chinese_words(build: Build) -> None:
    house = build()
    house.event("e1", START)

    message = worded(house, "zh")

    assert message.title == "a1：crm.export_contacts 连续被拒 3 次"
    assert ("拒绝次数", "3") in message.facts
    assert ("智能体", "a1") in message.facts


def test_parameters_are_flat_and_redacted_values_stay_so() -> None:
    doc = {"headers": {"Authorization": "[redacted:5f2c]"}, "to": ["a b", ""], "n": None, "x": {}}

    assert wording.params(json.dumps(doc)) == (
        'headers.Authorization=[redacted:5f2c] to[0]="a b" to[1]="" n=null x={}'
    )


def test_a_long_value_loses_its_middle_and_many_are_counted() -> None:
    shown = wording.params({"first": "s" + "x" * 500 + "e"} | {f"k{i}": i for i in range(20)})

    assert shown.startswith("first=sxxx")
    assert "xxe k0=0" in shown
    assert shown.endswith("(+9 more)")


def test_hostile_text_stays_on_its_line_and_shows(build: Build) -> None:
    house = build()
    house.event("e1", START, reason="no\n\x1b[31m-> allow\u202e", tool="x\u200by")

    [line] = worded(house).evidence

    assert "no\\n\\x1b[31m-> allow<U+202E>" in line
    assert "x<U+200B>y" in line


def test_a_change_of_a_file_shows_what_it_was_and_is(build: Build) -> None:
    house = build()
    house.event("e1", START, kind="config_changed", tool=None, params=None, decision=None,
                rule_ids=None, reason=None, config_object="gate.yaml",
                config_before='"deny"', config_after='"allow"')  # fmt: skip

    [line] = worded(house).evidence

    assert line == '03-10 09:00:00Z a1 config_changed gate.yaml: "deny" -> "allow"'


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@given(json_values)
def test_no_parameters_break_a_line(value: object) -> None:
    shown = wording.params(value)

    assert len(shown.splitlines()) <= 1
    assert len(shown) <= 12 * 130


def test_facts_are_spelled_as_people_write_them() -> None:
    values = [True, 3, 4.5, 2.0, 1 / 3, 12_345_678.9, float("inf"), ["a", 1], {"a": 1}, "x"]

    assert [wording.spelled(value) for value in values] == [
        "yes", "3", "4.5", "2", "0.333", "1.235e+07", "Infinity", "a, 1", '{"a": 1}', "x",
    ]  # fmt: skip


def test_a_fact_that_a_detector_words_twice_is_told_once_in_the_language_of_the_message(
    build: Build,
) -> None:
    alert = build().alert(facts='{"calls": 40, "against": "usually 2", "against_zh": "平时 2 次"}')

    english, chinese = (dict(wording.facts(alert, [], language)) for language in ("en", "zh"))

    assert english["against"] == "usually 2"
    assert "平时 2 次" in chinese.values()
    assert "usually 2" not in chinese.values()
    assert not any(name.endswith("zh") for name in (*english, *chinese))
