"""A mapping: a user's TOML table of column = JSON path, made into the SELECT of an adapter.

What varies in the SELECT is column names out of `events`, and paths and words as literals; both
are checked first, so that no file and no line can add SQL to it. docs/sources/mapping.md is the
user's page.
Reads: NAME.toml in the user's folder. Writes: nothing. Next: ingest/adapter.py.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from ingest.config import ConfigError, convert, nearest
from ingest.paths import Paths, Scalar, checked, literal

# Columns that landing or this module fills.
MADE = {"event_id", "source", "ledger_seq", "native_id", "ingested_at", "op_basis", "attrs"}
# Columns of few words, those of ingest/schema.sql, with other words that gates use for them.
WORDS: dict[str, dict[str, str]] = {
    "kind": {
        word: word
        for word in (
            "tool_proposed", "tool_decided", "tool_executed", "approval_requested",
            "approval_decided", "egress", "config_changed", "limit_hit", "message", "model_call",
            "agent_run", "heartbeat", "other",
        )
    },
    "decision": {
        "allow": "allow", "allowed": "allow", "approve": "allow", "approved": "allow",
        "permit": "allow", "permitted": "allow", "accept": "allow", "accepted": "allow",
        "deny": "deny", "denied": "deny", "reject": "deny", "rejected": "deny", "block": "deny",
        "blocked": "deny", "forbid": "deny", "forbidden": "deny",
        "require_approval": "require_approval", "ask": "require_approval",
        "escalate": "require_approval", "review": "require_approval",
        "pending": "require_approval",
    },
    "status": {
        "ok": "ok", "success": "ok", "succeeded": "ok", "completed": "ok", "error": "error",
        "failed": "error", "failure": "error", "denied": "denied", "timeout": "timeout",
        "timed_out": "timeout", "expired": "timeout", "cancelled": "cancelled",
        "canceled": "cancelled",
    },
    "op": {word: word for word in ("lookup", "verify", "commit")},
    "stance": {word: word for word in ("gather", "act", "clarify", "abstain")},
    "risk": {word: word for word in ("low", "medium", "high", "critical")},
    "ts_quality": {word: word for word in ("source", "observed", "receiver", "relative")},
}  # fmt: skip


class Described(msgspec.Struct, frozen=True):
    """The file. `envelope`: the path of an array in each line whose elements are the records."""

    title: str
    columns: dict[str, Any]
    format: Literal["ndjson", "json"] = "ndjson"
    paths: tuple[str, ...] = ()
    envelope: str | None = None
    key: tuple[str, ...] = ()
    attrs: dict[str, Any] = {}


class Column(msgspec.Struct, frozen=True):
    """One column: the first of its paths that holds something, or a constant."""

    path: str | tuple[str, ...] = ()
    value: Scalar | None = None
    words: dict[str, str] = {}
    default: Scalar | None = None


def read(path: Path, columns: Mapping[str, str]) -> tuple[dict[str, Any], str]:
    """The header of an adapter, as a table, and its SELECT. `columns`: those of `events`, typed.

    Raises ConfigError with the file, the key and the nearest right spelling.
    """
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}.") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not TOML: {error}.") from None
    told = convert(table, Described, str(path))
    found = Paths(told.envelope is not None)
    filled, native = _columns(told, columns, found, path)
    attrs = native | {
        name: _attr(_column(spec, f"{path}: attrs.{name}"), found, f"{path}: attrs.{name}")
        for name, spec in told.attrs.items()
    }
    keys = [found.text(each, f"{path}: key") for each in told.key]
    header: dict[str, Any] = {
        "title": told.title, "format": told.format, "paths": list(told.paths),
        "envelope": _plain(told.envelope), "time": _time(told),
    }  # fmt: skip
    return header, _select(told, found, filled, attrs, keys, path)


def _columns(
    told: Described, columns: Mapping[str, str], found: Paths, path: Path
) -> tuple[dict[str, str], dict[str, str]]:
    """Column to expression; and under NAME_native, words of NAME that none of ours stands for."""
    filled: dict[str, str] = {}
    native: dict[str, str] = {}
    for name, spec in told.columns.items():
        where = f"{path}: columns.{name}"
        if name not in columns or name in MADE:
            known = sorted(columns.keys() - MADE)
            raise ConfigError(f"{where}: there is no such column.{nearest(name, known)}")
        column = _column(spec, where)
        filled[name] = _filled(name, column, columns[name], found, where)
        if name in WORDS and column.path:
            raw, ours = _first(column, found, where), _worded(WORDS[name], column, found, where)
            native[f"{name}_native"] = f"CASE WHEN {ours} IS NULL THEN {raw} END"
            if name == "decision":  # kept beside it, whatever it became
                filled.setdefault("decision_native", raw)
    if "kind" not in filled:
        raise ConfigError(f"{path}: columns.kind: is missing. It says what one line is.")
    native.pop("decision_native", None)
    return filled, native


def _plain(path: str | None) -> str | None:
    """The key that a path of one plain name reads."""
    plain = re.fullmatch(r"\$\.([\w@:/-]+)", path or "")
    return plain[1] if plain else None


def _time(told: Described) -> str | None:
    """The key of the time, where a line can lack nothing else: then quarantine can say so."""
    kind, ts = (told.columns.get(name) for name in ("kind", "ts"))
    if not isinstance(kind, dict) or not kind.keys() & {"value", "default"}:
        return None
    return _plain(ts) if isinstance(ts, str) and told.envelope is None else None


def _column(spec: object, where: str) -> Column:
    match spec:
        case str():
            return Column(path=spec)
        case list():
            column = convert({"path": spec}, Column, where)
        case dict():
            column = convert(spec, Column, where)
        case _:
            raise ConfigError(f"{where}: a path, a list of paths or a table; found {spec!r}.")
    if bool(column.path) == (column.value is not None):
        raise ConfigError(f"{where}: either a path or a value, and not both.")
    return column


def _filled(name: str, column: Column, kind: str, found: Paths, where: str) -> str:
    """The expression of one column, in the type that `events` has."""
    if name == "ts":
        if not column.path or column.words or column.default is not None:
            raise ConfigError(f"{where}: a time is a path, or a list of paths.")
        return _first(column, found, where)
    words = WORDS.get(name)
    for each in (*column.words.values(), column.value, column.default):
        if words and each is not None and each not in words.values():
            raise ConfigError(
                f"{where}: no word {each!r}.{nearest(str(each), set(words.values()))}"
            )
    if column.value is not None:
        return _constant(column.value, kind, where)
    if words or column.words:
        made = _worded(words, column, found, where)
    else:
        made = _typed(name, column, kind, found, where)
    if column.default is None:
        return made
    return f"coalesce({made}, {_constant(column.default, kind, where)})"


def _worded(words: dict[str, str] | None, column: Column, found: Paths, where: str) -> str:
    """Words of the log become ours, whatever their case. A word without one: NULL in a column
    of few words, itself elsewhere."""
    text = _first(column, found, where)
    own: dict[str, str] = {}
    for theirs, ours in column.words.items():
        if own.setdefault(theirs.lower(), ours) != ours:
            raise ConfigError(f"{where}: {theirs!r} is there twice, with another meaning.")
    cases = " ".join(
        f"WHEN {literal(theirs, where)} THEN {literal(ours, where)}"
        for theirs, ours in ((words or {}) | own).items()
    )
    return f"CASE lower({text}) {cases} {'' if words else f'ELSE {text} '}END"


def _typed(name: str, column: Column, kind: str, found: Paths, where: str) -> str:
    text = _first(column, found, where)
    if kind == "JSON":
        return _coalesce([f"json(jval({found.json(path, where)}))" for path in _paths(column)])
    if kind == "VARCHAR[]":
        return _coalesce(
            [
                f"CASE json_type({found.json(path, where)}) WHEN 'ARRAY' THEN"
                f" lst(list_transform(strs({found.json(path, where)}), lambda lam_s: nz(lam_s)))"
                f" ELSE lst([nz({found.text(path, where)})]) END"
                for path in _paths(column)
            ]
        )
    if name == "port":
        number = f"try_cast({text} AS INTEGER)"
        return f"CASE WHEN {number} BETWEEN 0 AND 65535 THEN {number} END"
    if kind == "DOUBLE":
        return f"CASE WHEN isfinite(try_cast({text} AS DOUBLE)) THEN try_cast({text} AS DOUBLE) END"
    if name in ("trace_id", "parent_trace_id", "span_id", "parent_span_id"):
        return f"coalesce(hexid({text}), {text})"  # one spelling where it is such an id
    return text if kind == "VARCHAR" else f"try_cast({text} AS {kind})"


def _constant(value: Scalar, kind: str, where: str) -> str:
    quoted = literal(value, where)
    if kind == "JSON":
        return f"to_json({quoted})"
    return f"[{quoted}]" if kind == "VARCHAR[]" else f"try_cast({quoted} AS {kind})"


def _attr(column: Column, found: Paths, where: str) -> str:
    if column.words or column.default is not None:
        raise ConfigError(f"{where}: a path, a list of paths, or a value.")
    if column.value is not None:
        return literal(column.value, where)
    return _coalesce([f"jn({found.json(path, where)})" for path in _paths(column)])


def _first(column: Column, found: Paths, where: str) -> str:
    return _coalesce([f"nz({found.text(path, where)})" for path in _paths(column)])


def _paths(column: Column) -> Sequence[str]:
    return (column.path,) if isinstance(column.path, str) else column.path


def _coalesce(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"coalesce({', '.join(parts)})"


def _select(
    told: Described, found: Paths, filled: dict[str, str], attrs: dict[str, str],
    keys: Sequence[str], path: Path,
) -> str:  # fmt: skip
    """The SELECT. An event's id is that of its key and kind; without a key, where it stood."""
    envelope = None if told.envelope is None else checked(told.envelope, f"{path}: envelope")
    texts = filled | {"ts_text": filled.get("ts", "NULL::VARCHAR")}
    texts.pop("ts", None)
    worded = ", ".join(f"{made} AS {name}" for name, made in texts.items())
    usable = "kind IS NOT NULL" + (" AND claimed IS NOT NULL" if "ts" in filled else "")
    parts = ", ".join(f"nz({each})" for each in keys)
    own = f"list_filter([{parts}], lambda lam_k: lam_k IS NOT NULL)" if keys else "[]"
    held = ", ".join(f"{literal(name, str(path))}, {made}" for name, made in attrs.items())
    names = [name for name in texts if name != "ts_text"]
    if "op" in filled:
        names.append("CASE WHEN op IS NOT NULL THEN 'declared' END AS op_basis")
    odd = "CASE WHEN odd IS NOT NULL THEN [odd] END"
    if "signals" in names:
        names.remove("signals")
        said = "list_append(coalesce(signals, []), odd)"
        odd = f"CASE WHEN odd IS NOT NULL THEN {said} ELSE signals END"
    names.append(f"{odd} AS signals")
    whole = f"len(own) = {len(keys) or 1}"
    return f"""
WITH items AS ({found.items(envelope)}),
worded AS (SELECT *, {worded}, {own} AS own FROM items),
timed AS (SELECT *, when_ts(ts_text) AS claimed, time_odd(ts_text) AS odd FROM worded),
kept AS (SELECT *, unnest(CASE WHEN {usable} THEN [true] END) AS kept FROM timed)
SELECT
    CASE WHEN {whole} THEN eid(source, 'key:' || kind || ':' || to_json(own)::VARCHAR, NULL)
        ELSE eid(source, 'seq:' || ledger_seq || ':' || item, NULL) END AS event_id,
    source, ledger_seq, claimed AS ts,
    CASE WHEN {whole} THEN array_to_string(own, ':') END AS native_id,
    {", ".join(names)},
    {f"compact(json_object({held}))" if held else "NULL::JSON"} AS attrs
FROM kept
"""  # noqa: S608 - only column names of `events`, and literals: see `checked` and `literal`
