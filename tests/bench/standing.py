"""What ten thousand open alerts cost whoever works with all of them, against a hundred.

The alerts, a million attempts to tell of them, and the messages are written straight into the
tables; what is measured goes the product's own roads.
"""

import statistics
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import polars as pl

from dashboards.filters import Filters
from dashboards.pages import alerts as page
from detectors import metrics
from detectors.alertmanager import EVERY, Alertmanager
from detectors.alertmanager_push import Pusher
from gatewatch.parts import Parts, utc_now
from tests.bench.measure import Figure, opened

TIMES = 5
MOST = 0.2  # seconds that a scrape may take
FILL = """
    INSERT INTO alerts BY NAME
    SELECT 'al_' || i AS alert_id, detectors[1 + i % len(detectors)] AS detector, '' AS tenant,
        'agent-' || i AS subject, ['low', 'medium', 'high', 'critical'][1 + i % 4] AS severity,
        'open' AS status, $now::TIMESTAMPTZ - INTERVAL 5 MINUTE AS started_at,
        $now::TIMESTAMPTZ + INTERVAL 1 HOUR AS ended_at, 3 AS rows,
        'agent-' || i || ': 3 denials in a row for crm.export_contacts' AS title, title AS title_zh,
        '{"denials": 3, "tool": "crm.export_contacts", "threshold": 3}' AS facts,
        ['e-' || i, 'f-' || i, 'g-' || i] AS event_ids, $now::TIMESTAMPTZ AS opened_at,
        false AS backfill, $now::TIMESTAMPTZ AS told_at, severity AS told_severity, 1 AS tellings,
        ['agent agent-' || i, 'trace t-' || i] AS about, ['crm_gate'] AS gates
    FROM range($count) t(i), (SELECT $detectors::VARCHAR[] AS detectors)
"""
MESSAGES = """
    INSERT INTO deliveries BY NAME
    SELECT 'dl_' || i AS delivery_id, 'ops' AS receiver, 'al_' || (i % $alerts) AS alert_id,
        'open' AS kind, 'high' AS severity,
        $now::TIMESTAMPTZ - to_minutes(i::BIGINT) - INTERVAL 1 MINUTE AS created_at,
        '{}' AS message, 'delivered' AS state, 2 AS attempts, created_at AS next_at,
        created_at + INTERVAL 2 SECOND AS done_at
    FROM range($count) t(i)
"""
ATTEMPTS = """
    INSERT INTO attempts BY NAME
    SELECT 'dl_' || (i // 2) AS delivery_id, 'ops' AS receiver,
        $now::TIMESTAMPTZ - to_minutes((i // 2)::BIGINT) AS ts,
        CASE WHEN i % 2 = 0 THEN 'retry' ELSE 'delivered' END AS outcome,
        CASE WHEN i % 2 = 0 THEN 'serverError' END AS reason, 0.1 AS seconds
    FROM range($count) t(i)
"""


class Asked:
    """A dashboard's client that asks the store itself, not a service."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def sql(self, sql: str, **params: Any) -> pl.DataFrame:
        with self._parts.store.reading() as db:
            found = pl.from_arrow(db.sql(sql, params=params or None).to_arrow_table())
        assert isinstance(found, pl.DataFrame)
        return found


def measure(folder: Path, count: int, attempts: int) -> list[Figure]:
    """With `count` open alerts and so many `attempts`, and with a hundredth of both."""
    few, many = (_once(folder / str(n), n, max(attempts * n // count, 1)) for n in
                 (count // 100, count))  # fmt: skip
    rows = []
    for name, one in few.items():
        all_of_them = many[name]
        ratio = f"{all_of_them / one:.1f} x"
        value = f"{one * 1000:.0f} ms, {all_of_them * 1000:.0f} ms: {ratio}"
        rows.append(Figure(name, value, f"{count // 100:,} open alerts, and {count:,}"))
    how = f"at most {MOST * 1000:.0f} ms wanted; {count:,} open alerts, {attempts:,} attempts"
    return [*rows, Figure("scrape", f"{many['scrape'] * 1000:.0f} ms", how)]


def _once(folder: Path, count: int, attempts: int) -> dict[str, float]:
    parts = opened(folder)
    try:
        now = utc_now()
        parts.tick(now, tell=False)
        names = sorted(parts.detectors)
        with parts.store.writing() as db:
            db.execute(FILL, {"now": now, "count": count, "detectors": names})
            db.execute(MESSAGES, {"now": now, "count": attempts // 2, "alerts": count})
            db.execute(ATTEMPTS, {"now": now, "count": attempts})
        return _figures(parts, now)
    finally:
        parts.close()


def _figures(parts: Parts, now: datetime) -> dict[str, float]:
    moments = iter(now + EVERY * n for n in range(1, 100))
    client, filters = Asked(parts), Filters(now, now - timedelta(days=1), now)
    told = Alertmanager(urls=("https://am.example",))
    pusher = Pusher(parts.store, told, parts.settings, now, _peer)
    pusher.step(parts.detectors, now)  # the first one writes what the others only read
    roads: dict[str, Callable[[], object]] = {
        "tick and telling": lambda: parts.tick(next(moments)),
        "scrape": lambda: metrics.written(
            metrics.collected(
                parts.store, parts.detectors, parts.desk.routes, parts.lander.head, next(moments)
            )
        ),
        "all of it to an Alertmanager": lambda: pusher.step(parts.detectors, next(moments)),
        "what is new to an Alertmanager": lambda: pusher.step(parts.detectors, now),
        "Alerts page": lambda: page.load(client, filters),  # type: ignore[arg-type]
    }
    found = {name: _median(road) for name, road in roads.items()}
    pusher.close()
    return found


def _peer() -> httpx.Client:
    return httpx.Client(transport=httpx.MockTransport(lambda _: httpx.Response(200)))


def _median(road: Callable[[], object]) -> float:
    road()  # what is read once is read before
    taken = []
    for _ in range(TIMES):
        began = time.monotonic()
        road()
        taken.append(time.monotonic() - began)
    return statistics.median(taken)
