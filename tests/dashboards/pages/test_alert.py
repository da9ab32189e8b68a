"""One alert: facts beside what is set, evidence in order, and no alert at all."""

from dashboards.filters import Filters
from dashboards.pages import alert
from tests.dashboards import rows, service
from tests.dashboards.insert import NOW


def test_a_fact_stands_beside_the_threshold_of_its_name() -> None:
    facts = {"denials": 5, "tool": "crm.export_contacts"}

    table = alert.against(facts, {"denials": 3, "within": "10 minutes"})

    assert table.rows() == [
        ("denials", "5", "3"),
        ("tool", "crm.export_contacts", ""),
        ("within", "", "10 minutes"),
    ]


def test_facts_are_said_in_one_language_only() -> None:
    facts = {"against": "usually 2", "against_zh": "平时 2 次", "calls": 302}

    assert alert.spoken(facts, "en") == {"against": "usually 2", "calls": 302}
    assert alert.spoken(facts, "zh") == {"against": "平时 2 次", "calls": 302}


def test_the_evidence_is_the_alerts_own_events_in_order_of_time() -> None:
    data = alert.load(service.client(rows.example()), Filters(NOW, alert="al_7f3a"))

    assert data.evidence["event_id"].to_list() == [f"e{n}-al_7f3a" for n in (2, 3, 4)]
    assert data.told.deliveries["state"].to_list() == ["dead", "delivered", "pending"]
    assert data.told.history["what"].to_list() == ["told", "opened"]


def test_titles_speak_the_viewers_language() -> None:
    client = service.client(rows.example())
    titles = [
        (alert.load(client, Filters(NOW, alert="al_7f3a", language=each)).alert or {})["title"]
        for each in ("en", "zh")
    ]

    assert titles == [
        "a1: 3 denials in a row for crm.export_contacts",
        "a1：crm.export_contacts 连续被拒 3 次",
    ]


def test_an_unknown_alert_is_none() -> None:
    data = alert.load(service.client(rows.example()), Filters(NOW, alert="' OR 1=1 --"))

    assert data.alert is None
    assert data.evidence.is_empty()
