"""Word an alert for people: what happened, the counts, the calls with their parameters laid flat.

Reads: alerts, events. Writes: nothing. Next: detectors/outbox.py.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol
from urllib.parse import quote
from zoneinfo import ZoneInfo

from detectors.fact_names import named
from detectors.receivers import Kind, Language, Message
from detectors.shorten import cut, squeeze, visible

Rows = Callable[..., list[dict[str, Any]]]  # (sql, **params): a store's or a client's `rows`
EVENTS = """
    SELECT event_id, ts, kind, agent, principal, tool, op, host, params, decision, status, error,
           rule_ids, reason, trace_id, parent_trace_id, approver, config_object, config_before,
           config_after, redacted, source, ledger_seq
    FROM events
    WHERE ts BETWEEN $low::TIMESTAMPTZ AND $high::TIMESTAMPTZ AND list_contains($ids, event_id)
    ORDER BY ts DESC, ledger_seq DESC
"""
AROUND = timedelta(days=1)  # a call's events may lie beside the calls' own times, not further
PARAMS, VALUE, LINE = 12, 80, 500  # parameters of a line; code points of a value, and of a line
SAMPLES = 3  # events that a message shows; all are one click away
LIMITS, SHORT = 5, 24  # parameters of a detector in a message; code points of one's value
LONG = 200  # code points of a trace's name that a link still carries
WHO = {"agent": "agent", "account": "principal", "operation": "tool", "chain": "trace_id"}
COUNTS = 3  # numbers that stand before everything else


class Header(Protocol):
    """What a detector says of itself to people."""

    @property
    def why(self) -> str: ...
    @property
    def respond(self) -> str: ...
    @property
    def respond_zh(self) -> str: ...
    @property
    def quiet(self) -> str: ...


class Worded(Protocol):
    """A detector, as far as wording needs one."""

    @property
    def header(self) -> Header: ...

    def values_of(self, who: tuple[str, ...]) -> Mapping[str, Any]: ...


def evidence(rows: Rows, alert: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The events an alert rests on, the newest first."""
    low, high = alert["started_at"] - AROUND, alert["ended_at"] + AROUND
    return rows(EVENTS, ids=list(alert["event_ids"]), low=low, high=high)


def message(
    alert: Mapping[str, Any],
    events: Sequence[Mapping[str, Any]],
    respond: str,
    kind: Kind,
    delivery: str,
    language: Language,
    public_url: str,
    now: datetime,
    zone: str = "UTC",
    buttons: tuple[tuple[str, str], ...] = (),
    held: str = "",
) -> Message:
    """One telling of an alert (a row of `alerts`) with its `events`, newest first.

    `zone` is that of the people on duty; `buttons` are links by which they can act; `held` are the
    detector's limits.
    """
    title = alert["title_zh"] if language == "zh" else alert["title"]
    latest = next((event for event in events if event["params"]), None)
    return Message(
        kind=kind,
        alert=alert["alert_id"],
        delivery=delivery,
        at=moment(now),
        at_local=local(now, zone),
        detector=alert["detector"],
        severity=alert["severity"],
        tenant=cut(visible(alert["tenant"]), 200),
        subject=cut(visible(alert["subject"]), 200),
        title=cut(visible(title), 200),
        facts=tuple(facts(alert, events, language, held, zone)),
        params=tuple(pairs(latest["params"])) if latest else (),
        evidence=tuple(line(event) for event in events[:SAMPLES]),
        events=len(alert["event_ids"]),
        respond=respond,
        link=f"{public_url.rstrip('/')}/alert?alert={alert['alert_id']}",
        buttons=(*_trace(events, public_url), *buttons),
        language=language,
    )


def _trace(events: Sequence[Mapping[str, Any]], public_url: str) -> Iterator[tuple[str, str]]:
    """The link to the newest event's trace."""
    trace = next((event["trace_id"] for event in events if event["trace_id"]), None)
    if trace and len(trace) <= LONG:
        yield "trace", f"{public_url.rstrip('/')}/trace?trace={quote(trace, safe='')}"


def facts(
    alert: Mapping[str, Any], events: Sequence[Mapping[str, Any]], language: Language,
    limits: str = "", zone: str = "UTC",
) -> Iterator[tuple[str, str]]:  # fmt: skip
    """Name and value: counts and what they are held against, who did what in which chain, when,
    and the rest. `limits`: the detector's, where its own facts name no threshold."""
    found = _in(language, as_dict(alert["facts"]))
    numbers = [name for name, value in found.items() if isinstance(value, int | float)]
    numbers.sort(key=lambda name: name == "threshold")
    counts = [name for name in numbers if name != "threshold"][:COUNTS]
    shown: dict[str, str] = {name: spelled(found[name]) for name in counts}
    threshold = spelled(found["threshold"]) if "threshold" in found else limits
    if threshold:
        shown["threshold"] = threshold
    for name, column in WHO.items():
        values = dict.fromkeys(str(event[column]) for event in events if event[column])
        if values:
            more = f" (+{len(values) - 3})" if len(values) > 3 else ""
            shown[name] = ", ".join([*values][:3]) + more
    known = {value for name, value in shown.items() if name in WHO}
    shown["since"], shown["until"] = (both(alert[key], zone) for key in ("started_at", "ended_at"))
    for name, value in found.items():
        if name not in shown and spelled(value) not in known:
            shown[name] = spelled(value)
    if alert.get("rows", 1) > 1:
        shown.setdefault("rows", str(alert["rows"]))
    for name, value in shown.items():
        yield cut(visible(named(name, language)), 40), squeeze(visible(value), 160)


def limits(detector: Worded | None, alert: Mapping[str, Any]) -> str:
    """A detector's parameters, as they hold for whom an alert is about, as one fact: `denials 3,
    within 10 minutes`. Long lists are left out."""
    if detector is None:
        return ""
    agents = (name[6:] for name in alert["about"] or () if name.startswith("agent "))
    values = detector.values_of((alert["subject"], *agents))
    short = ((name, _limit(value)) for name, value in values.items())
    told = [f"{name.replace('_', ' ')} {text}" for name, text in short if 0 < len(text) <= SHORT]
    return ", ".join(told[:LIMITS])


def _limit(value: object) -> str:
    return lasting(value) if isinstance(value, timedelta) else spelled(value)


def lasting(length: timedelta) -> str:
    """A length of time in the largest unit that divides it."""
    seconds = int(length.total_seconds())
    for unit, size in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds and seconds % size == 0:
            return f"{seconds // size} {unit}{'s' if seconds != size else ''}"
    return f"{length.total_seconds():g} seconds"


def _in(language: Language, facts: Mapping[str, Any]) -> dict[str, Any]:
    """A detector words some facts twice, `against` and `against_zh`: the one that is wanted."""
    found = {name: value for name, value in facts.items() if value not in (None, "")}
    for name in [name for name in found if name.endswith("_zh")]:
        value = found.pop(name)
        if language == "zh":
            found[name.removesuffix("_zh")] = value
    return found


def line(event: Mapping[str, Any]) -> str:
    """One event on one line: time, agent, tool, parameters, decision, rules, reason."""
    at = event["ts"]
    when = f"{at.astimezone(UTC):%m-%d %H:%M:%S}Z" if isinstance(at, datetime) else "(no time)"
    said = [when, *(visible(str(event[key])) for key in ("agent", "tool") if event[key])]
    if not event["tool"]:
        said.append(event["kind"])
    if event["config_object"]:
        before, after = (squeeze(visible(_text(event[key])), VALUE) for key in
                         ("config_before", "config_after"))  # fmt: skip
        said.append(f"{squeeze(visible(event['config_object']), VALUE)}: {before} -> {after}")
    if event["host"]:
        said.append(f"host={squeeze(visible(event['host']), VALUE)}")
    said.append(params(event["params"]))
    verdict = event["decision"] or event["status"]
    if verdict:
        said.append(f"-> {verdict}")
    if event["rule_ids"]:
        said.append(f"[{visible(', '.join(event['rule_ids']))}]")
    if event["reason"] or event["error"]:
        said.append(squeeze(visible(event["reason"] or event["error"]), 160))
    return cut(" ".join(word for word in said if word), LINE)


def params(value: object) -> str:
    """Parameters laid flat on one line, `path=value`, each value short enough to be read."""
    return " ".join(f"{path}={leaf}" if leaf else path for path, leaf in pairs(value))


def pairs(value: object) -> Iterator[tuple[str, str]]:
    """The first parameters as path and value; what is left over is counted, without a value."""
    found: object = value
    if isinstance(value, str):
        try:
            found = json.loads(value)
        except ValueError:
            yield squeeze(visible(value), VALUE), ""
            return
    if found is None or found == {}:
        return
    leaves = list(flat(found))
    for path, leaf in leaves[:PARAMS]:
        yield squeeze(visible(path), 40), _value(leaf)
    if len(leaves) > PARAMS:
        yield f"(+{len(leaves) - PARAMS} more)", ""


def flat(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Every leaf of a JSON value with the path that leads to it: `a.b[0]`."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from flat(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and value:
        for place, inner in enumerate(value):
            yield from flat(inner, f"{path}[{place}]")
    else:
        yield path or "value", value


def as_dict(value: object) -> dict[str, Any]:
    """A JSON object as it comes out of a store (text) or out of a client (text or object)."""
    found = json.loads(value) if isinstance(value, str) else value
    return found if isinstance(found, dict) else {}


def spelled(value: object) -> str:
    """A fact as people write it: 3, 4.5, a, b."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and math.isfinite(value):
        return f"{value:.3f}".rstrip("0").rstrip(".") if abs(value) < 1e6 else f"{value:.4g}"
    if isinstance(value, list):
        return ", ".join(map(spelled, value))
    return _text(value)


def moment(at: datetime) -> str:
    """RFC 3339 in UTC, to the second."""
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def both(at: datetime, zone: str) -> str:
    """A moment in UTC, and where another clock is meant on that one as well."""
    there = local(at, zone)
    return f"{moment(at)} ({there})" if there else moment(at)


def local(at: datetime, zone: str) -> str:
    """The same moment on the clock of a zone, with its offset. Empty for UTC itself."""
    there = at.astimezone(ZoneInfo(zone))
    return "" if not there.utcoffset() else f"{there:%Y-%m-%d %H:%M:%S} {there:%z}"


def _value(value: object) -> str:
    text = squeeze(visible(_text(value)), VALUE)
    return f'"{text}"' if isinstance(value, str) and (not text or " " in text) else text


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
