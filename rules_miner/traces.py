"""Stored traces as runs: what happened, in order, and what people said about it.

Reads: events, calls, incidents. Writes: nothing. Next: rules_miner/signals.py.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from hashlib import sha256
from typing import Any

from ingest.config import ConfigError
from ingest.store import Reader

PAGE = 5_000  # runs whose ids are held at once
ROWS = 20_000  # events asked for at once: the service cuts longer answers
DOMAIN = re.compile(r"[a-z0-9][a-z0-9_-]{0,47}")
UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
PAGES = """
    SELECT coalesce(tenant, '') AS owner, trace_id, count(*) AS events
    FROM events
    WHERE trace_id IS NOT NULL AND (coalesce(tenant, ''), trace_id) > ($owner, $trace)
    GROUP BY ALL
    HAVING count(tool) > 0
       AND ($since::TIMESTAMPTZ IS NULL OR min(ts) >= $since::TIMESTAMPTZ)
       AND ($until::TIMESTAMPTZ IS NULL OR min(ts) < $until::TIMESTAMPTZ)
    ORDER BY owner, trace_id
    LIMIT $page::BIGINT
"""
EVENTS = """
    WITH joined AS (
        SELECT unnest(event_ids) AS event_id, call_key, tool, op, params
        FROM calls
        WHERE trace_id IN (SELECT unnest($traces::VARCHAR[]))
    )
    SELECT
        coalesce(e.tenant, '') AS owner, e.trace_id, e.source, e.task, e.event_id, e.ledger_seq,
        e.kind, coalesce(e.ts, e.ingested_at) AS ts, e.agent, coalesce(e.tool, c.tool) AS tool,
        coalesce(e.op, c.op) AS op, coalesce(e.params, c.params) AS params, e.status, e.error,
        e.response, e.response_rows, e.text, e.role, e.decision, e.reason_code, e.signals,
        coalesce(c.call_key, e.call_id, e.event_id) AS call_key
    FROM events AS e LEFT JOIN joined AS c USING (event_id)
    WHERE e.trace_id IN (SELECT unnest($traces::VARCHAR[]))
    ORDER BY owner, e.trace_id, ts, e.ledger_seq, e.event_id, call_key
"""
LABELS = """
    SELECT coalesce(tenant, '') AS owner, trace_id, label, family, committed_at, event_id, severity
    FROM incidents
    WHERE trace_id IN (SELECT unnest($traces::VARCHAR[]))
      AND ($until::TIMESTAMPTZ IS NULL OR labelled_at < $until::TIMESTAMPTZ)
    ORDER BY labelled_at DESC, label DESC, incident_id
"""


@dataclass(frozen=True)
class Event:
    """One thing that happened in a run. JSON columns are parsed."""

    kind: str
    ts: datetime | None = None
    agent: str | None = None
    tool: str | None = None
    op: str | None = None
    params: Any = None
    status: str | None = None
    error: str | None = None
    response: Any = None
    response_rows: int | None = None
    text: str | None = None
    role: str | None = None
    decision: str | None = None
    reason_code: str | None = None
    signals: tuple[str, ...] = ()
    event_id: str = ""
    call_key: str = ""

    @cached_property
    def asked(self) -> frozenset[str]:
        """The values among the arguments that can name a thing."""
        return frozenset(names(self.params))

    @cached_property
    def seen(self) -> frozenset[str]:
        """The values that the answer holds."""
        return frozenset(names(self.response))


@dataclass(frozen=True)
class Call:
    """The pending call, as a gate sees it: no result, and no decision on it."""

    tool: str
    op: str
    params: Any
    domain: str

    @cached_property
    def asked(self) -> frozenset[str]:
        return frozenset(names(self.params))


@dataclass(frozen=True)
class Run:
    trace_id: str
    family: str
    domain: str  # of calls whose tool name carries no namespace
    events: tuple[Event, ...]  # in order
    tenant: str = ""
    label: str | None = None  # misaction | good | None: nobody knows
    commit: int | None = None  # misaction only: index of the event that did the wrong thing
    severity: str | None = None
    domains: tuple[tuple[str, str], ...] = ()  # (tool prefix, domain), longest prefix first

    @property
    def key(self) -> tuple[str, str]:
        return self.tenant, self.trace_id


@dataclass(frozen=True)
class Point:
    """A place in a run where a gate could stop it: before event `at`, which belongs to `call`."""

    at: int
    point: str  # pre_commit | pre_call
    call: Call


def names(value: Any) -> Iterator[str]:
    """Every scalar inside a JSON value that can name something, as text. Deep values too."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            waiting.extend(each.values())
        elif isinstance(each, list):
            waiting.extend(each)
        elif isinstance(each, str) and len(each) >= 2:
            yield each
        elif isinstance(each, int | float) and not isinstance(each, bool):
            yield str(each)


def runs(
    reader: Reader,
    since: datetime | None = None,
    until: datetime | None = None,
    domains: Mapping[str, str] | None = None,
) -> list[Run]:
    """Every run that began in [since, until), by tenant and trace id; labels known by `until`."""
    return list(stream(reader, since, until, domains))


def stream(
    reader: Reader,
    since: datetime | None = None,
    until: datetime | None = None,
    domains: Mapping[str, str] | None = None,
) -> Iterator[Run]:
    """The same, a page at a time, so that a long history does not have to fit into memory.

    A label without a tenant is for the run of that trace, whoever's it is.
    """
    ladder = tuple(sorted((domains or {}).items(), key=lambda pair: (-len(pair[0]), pair)))
    owner, trace = "", ""
    while page := reader.rows(PAGES, owner=owner, trace=trace, since=since, until=until, page=PAGE):
        owner, trace = page[-1]["owner"], page[-1]["trace_id"]
        for part in _parts(page):
            labels: dict[tuple[str, str], list[dict[str, Any]]] = {}
            traces = sorted({name for _, name in part})
            for row in reader.rows(LABELS, traces=traces, until=until):
                labels.setdefault((row["owner"], row["trace_id"]), []).append(row)
            for key, events in _by_run(reader.rows(EVENTS, traces=traces), part):
                yield _run(key, events, labels.get(key) or labels.get(("", key[1]), []), ladder)


def printable(domain: str) -> str:
    """A domain that rule files can carry: itself when it fits their pattern, else a digest."""
    digest = sha256(domain.encode(errors="surrogatepass")).hexdigest()
    return domain if DOMAIN.fullmatch(domain) else f"d-{digest[:8]}"


def family_of(trace_id: str, task: str | None, prompt: str | None) -> str:
    """Runs of one kind: the same task, else the same opening words, else the same trace prefix."""
    if task:
        return task
    if prompt:
        return f"prompt:{sha256(prompt.encode(errors='surrogatepass')).hexdigest()[:12]}"
    parts = re.split(r"[-_:./#](?=[^-_:./#]*$)", trace_id)
    return trace_id if UUID.fullmatch(trace_id) or not parts[0] else f"trace:{parts[0]}"


def _parts(page: Iterable[Mapping[str, Any]]) -> Iterator[dict[tuple[str, str], int]]:
    """Runs with the number of their events, as many at a time as one answer may hold."""
    part: dict[tuple[str, str], int] = {}
    for row in page:
        if part and sum(part.values()) + row["events"] > ROWS:
            yield part
            part = {}
        part[row["owner"], row["trace_id"]] = row["events"]
    if part:
        yield part


def _by_run(
    rows: Iterable[dict[str, Any]], wanted: Mapping[tuple[str, str], int]
) -> Iterator[tuple[tuple[str, str], list[dict[str, Any]]]]:
    """The rows of each run, each event once. Half a run is another run, so a cut answer raises."""
    held: dict[tuple[str, str], dict[str, dict[str, Any]]] = {key: {} for key in wanted}
    counts = dict.fromkeys(wanted, 0)
    for row in rows:
        key = (row["owner"], row["trace_id"])
        if key in held:
            held[key].setdefault(row["event_id"], row)
            counts[key] += 1
    for key, events in held.items():
        if counts[key] < wanted[key]:
            raise ConfigError(
                f"The run {key[1]!r} has {wanted[key]} events, and the service gave"
                f" {counts[key]} of them. Stop the service and mine the database directly."
            )
        yield key, list(events.values())


def _run(
    key: tuple[str, str],
    rows: list[dict[str, Any]],
    labels: list[dict[str, Any]],
    domains: tuple[tuple[str, str], ...],
) -> Run:
    events = tuple(_event(row) for row in rows)
    latest = labels[0] if labels else {}
    label = latest.get("label")
    task = next((row["task"] for row in rows if row["task"]), None)
    prompt = next((row["text"] for row in rows if row["role"] == "user" and row["text"]), None)
    wrong = [each for each in labels if each["label"] == "misaction"]
    return Run(
        trace_id=key[1],
        tenant=key[0],
        family=latest.get("family") or family_of(key[1], task, prompt),
        domain=printable(rows[0]["source"].lower()),
        events=events,
        label=label,
        commit=min(_step(events, each) for each in wrong) if label == "misaction" else None,
        severity=latest.get("severity"),
        domains=domains,
    )


def _step(events: tuple[Event, ...], label: Mapping[str, Any]) -> int:
    """Index of the event that did the wrong thing: as labelled, else the first commit that took
    effect, else the first commit, else the last call."""
    calls = [at for at, event in enumerate(events) if event.tool]
    for at in calls:
        if events[at].event_id == label["event_id"]:
            return at
    if (moment := label["committed_at"]) is not None:
        before = [at for at in calls if (ts := events[at].ts) is not None and ts <= moment]
        return before[-1] if before else calls[0]
    commits = [at for at in calls if events[at].op == "commit"]
    for at in commits:
        if events[at].kind == "tool_executed" and events[at].status in (None, "ok"):
            return at
    return commits[0] if commits else calls[-1]


def _event(row: Mapping[str, Any]) -> Event:
    return Event(
        kind=row["kind"],
        ts=row["ts"],
        agent=row["agent"],
        tool=row["tool"],
        op=row["op"],
        params=_parsed(row["params"]),
        status=row["status"],
        error=row["error"],
        response=_parsed(row["response"]),
        response_rows=row["response_rows"],
        text=row["text"],
        role=row["role"],
        decision=row["decision"],
        reason_code=row["reason_code"],
        signals=tuple(row["signals"] or ()),
        event_id=row["event_id"],
        call_key=row["call_key"],
    )


def _parsed(text: Any) -> Any:
    """A JSON column. NULL stays None; JSON null becomes the empty text, which is an answer too."""
    if not isinstance(text, str):
        return text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return "" if value is None else value
