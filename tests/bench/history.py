"""Years of a fleet in minutes: events made by DuckDB itself, joined into calls and counted by the
product's own statements. For benchmarks that ask what it costs that so much is stored.
"""

import sys
from datetime import datetime, timedelta

from detectors.ranges import INSTANT
from ingest import calls, counts
from ingest.store import Db, Store

AGENTS, GATES = 200, 8
PIECE = 1_000_000  # events of a transaction
# One event of a number i: an agent's run is some ten of its numbers. Eight of ten are calls that
# ran, and so on; where the parts of a call are several lines, they are neighbours of one agent.
EVENTS = f"""
    INSERT INTO fresh BY NAME
    SELECT md5($name || i) AS event_id, kind, 'gate-' || (agent % {GATES} + 1) AS source, i AS ledger_seq,
        'n' || i AS native_id, ts, 'source' AS ts_quality, ts + INTERVAL 1 SECOND AS ingested_at,
        CASE WHEN kind <> 'heartbeat' THEN 'agent-' || agent END AS agent,
        CASE WHEN kind <> 'heartbeat' THEN 'svc-agent-' || agent END AS principal,
        CASE WHEN kind <> 'heartbeat' THEN $name || 't' || agent || '-' || (i // {AGENTS * 10}) END AS trace_id,
        CASE WHEN kind <> 'heartbeat' THEN 's' || agent || '-' || (i // {AGENTS * 40}) END AS session,
        CASE WHEN called THEN 'call-' || $name || i || '-' || agent END AS call_id,
        CASE kind WHEN 'tool_decided' THEN 'data.drop_table' WHEN 'tool_executed' THEN replace(
            ['crm.*_contact', 'crm.*_note', 'billing.*_invoice', 'billing.*_plan', 'support.*_ticket', 'support.*_reply',
             'docs.*_article', 'docs.*_review'][agent % 4 * 2 + i % 2 + 1], '*', CASE WHEN commits THEN 'update' ELSE 'get' END)
        END AS tool,
        CASE WHEN called THEN CASE WHEN commits THEN 'commit' ELSE 'lookup' END END AS op,
        CASE WHEN called THEN 'inferred' END AS op_basis,
        CASE WHEN called THEN json_object('id', i, 'fields', 'state') END AS params,
        CASE WHEN called THEN left(md5('p' || i), 32) END AS params_digest,
        CASE WHEN kind IN ('tool_decided', 'tool_executed') THEN CASE WHEN kind = 'tool_decided' THEN 'deny' ELSE 'allow' END END AS decision,
        CASE WHEN kind = 'tool_executed' THEN CASE WHEN dice % 50 = 0 THEN 'timeout' ELSE 'ok' END END AS status,
        CASE WHEN called THEN 3.0 + dice % 90 / 10.0 END AS decision_ms,
        CASE WHEN called THEN 90.0 + dice % 700 END AS latency_ms,
        CASE WHEN kind = 'tool_executed' AND NOT commits THEN json_object('id', i, 'state', 'open') END AS response,
        CASE WHEN kind = 'tool_executed' THEN 1 + dice % 20 END AS response_rows,
        CASE WHEN kind = 'tool_executed' THEN 90 + dice % 3000 END AS response_bytes,
        CASE WHEN kind = 'tool_executed' AND dice % 4 = 0 THEN 'api.crm.example' END AS host,
        CASE WHEN kind = 'model_call' THEN 0.004 END AS cost_usd,
        CASE WHEN kind = 'message' THEN CASE WHEN dice % 2 = 0 THEN 'user' ELSE 'assistant' END END AS role,
        CASE WHEN kind = 'message' THEN ['yes, please', 'Shall I go ahead?', 'Done.', '请继续'][dice % 4 + 1] END AS text,
        CASE WHEN kind = 'config_changed' THEN 'object-' || dice % 4000 END AS config_object,
        CASE WHEN kind = 'config_changed' THEN json_object('limit', dice % 90) END AS config_after
    FROM (
        SELECT *, kind IN ('tool_executed', 'tool_decided') AS called, kind = 'tool_executed' AND dice % 5 = 0 AS commits
        FROM (
            SELECT i, $start + to_microseconds(i * $step::BIGINT) AS ts, (hash(i, 'agent') % {AGENTS})::INTEGER AS agent,
                (hash(i, 'dice') % 1000000)::INTEGER AS dice,
                CASE WHEN dice % 1000 < 740 THEN 'tool_executed' WHEN dice % 1000 < 745 THEN 'tool_decided'
                    WHEN dice % 1000 < 880 THEN 'model_call' WHEN dice % 1000 < 960 THEN 'message'
                    WHEN dice % 1000 < 961 THEN 'config_changed' ELSE 'heartbeat' END AS kind
            FROM range($first, $last) AS numbers(i)))
"""  # noqa: E501 - a table of columns, of the numbers above
ARRIVED = """
    INSERT INTO arrivals
    SELECT source, date_trunc('minute', ingested_at), count(*), max(event_id)
    FROM fresh GROUP BY ALL
"""
LISTENING = """
    INSERT INTO arrivals
    SELECT 'gatewatch', unnest(generate_series($a::TIMESTAMPTZ, $b, INTERVAL '1 minute')), 0, NULL
"""


def fill(store: Store, start: datetime, until: datetime, count: int, name: str = "h") -> None:
    """`count` events, evenly from `start` to `until`, in order of time."""
    step = int((until - start) / timedelta(microseconds=1)) // count
    for first in range(0, count, PIECE):
        with store.writing() as db:
            _piece(db, start, step, first, min(first + PIECE, count), name)
        print(f"  {min(first + PIECE, count):,} events", file=sys.stderr, flush=True)  # noqa: T201
    with store.writing() as db:
        db.execute(LISTENING, {"a": start, "b": until})
    store.checkpoint()


def _piece(db: Db, start: datetime, step: int, first: int, last: int, name: str) -> None:
    db.execute("CREATE OR REPLACE TEMP TABLE fresh AS SELECT * FROM events LIMIT 0")
    bound = {"start": start, "step": step, "first": first, "last": last, "name": name}
    db.execute(EVENTS, bound)
    db.execute("INSERT INTO events BY NAME SELECT * FROM fresh")
    db.execute(f"INSERT INTO calls BY NAME {calls.ONE}")  # none has a second part
    counts.add(db, [(start + first * step * INSTANT, start + last * step * INSTANT)])
    db.execute(ARRIVED)
    db.execute("DROP TABLE fresh")
