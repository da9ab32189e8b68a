"""The list of alerts: in pages, the open and worst first, however many there are."""

from dashboards.filters import Filters
from dashboards.pages import alerts, now
from ingest.store import Store, memory_store
from tests.dashboards import service
from tests.dashboards.insert import NOW, pauses


def many(count: int) -> Store:
    store = memory_store()
    with store.writing() as db:
        db.execute(
            "INSERT INTO alerts (alert_id, detector, tenant, subject, severity, status,"
            " started_at, ended_at, rows, title, title_zh, facts, event_ids, opened_at, backfill,"
            " tellings, acked_at) SELECT 'al_' || i, 'deny_retry', '', 'a' || i,"
            " (['critical', 'high', 'medium', 'low'])[1 + i % 4],"
            " CASE WHEN i % 10 = 0 THEN 'resolved' ELSE 'open' END,"
            " $now::TIMESTAMPTZ - to_minutes(i), $now::TIMESTAMPTZ - to_minutes(i), 1,"
            " 'title ' || i, '标题', '{}', [], $now, false, 0,"
            " CASE WHEN i % 2 = 0 THEN $now::TIMESTAMPTZ END FROM range($count) t(i)",
            {"now": NOW, "count": count},
        )
    return store


def test_a_long_list_comes_in_pages_and_each_alert_once() -> None:
    client = service.client(many(450))

    pages = [alerts.load(client, Filters(NOW, page=page)) for page in (1, 2, 3)]

    assert [len(each.alerts) for each in pages] == [200, 200, 50]
    assert {each.total for each in pages} == {450}
    ids = [one for each in pages for one in each.alerts["alert_id"]]
    assert len(set(ids)) == 450
    assert pages[0].alerts["alert_id"].to_list()[:3] == ["al_4", "al_8", "al_12"]
    assert set(pages[0].alerts["status"]) == {"open"}


def test_a_page_that_there_is_not_any_more_is_the_first() -> None:
    data = alerts.load(service.client(many(450)), Filters(NOW, severity="low", page=3))

    assert (data.page, data.total, len(data.alerts)) == (1, 112, 112)


def test_whoever_is_to_look_into_it_stands_beside_it() -> None:
    store = many(2)
    with store.writing() as db:
        db.execute("UPDATE alerts SET assigned_to = 'bob', acked_by = 'mei'")

    data = alerts.load(service.client(store), Filters(NOW))

    assert data.alerts["acked_by"].to_list() == ["bob", "bob"]


def test_now_counts_all_that_is_open_and_shows_the_worst() -> None:
    data = now.load(service.client(many(450)), Filters(NOW))

    counts = {name: data.counts[name] for name in ("total", "critical", "nobodys")}
    assert counts == {"total": 405, "critical": 90, "nobodys": 225}
    assert len(data.open) == 100
    assert set(data.open["severity"][:90]) == {"critical"}


def test_now_says_who_is_paused_and_who_should_be() -> None:
    store = memory_store()
    pauses(store, ("confirmed", 1), ("confirmed", 1), ("refused", 1), ("expired", 1))

    counts = now.load(service.client(store), Filters(NOW)).counts

    assert (counts["paused"], counts["unpaused"]) == (2, 1)
