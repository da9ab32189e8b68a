"""How things look. The only place that writes HTML, and it escapes every value that it is given.

Text from logs is hostile: it goes through `safe`, never into Markdown.
"""

import html
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import polars as pl
import streamlit as st

SEVERITIES = ("critical", "high", "medium", "low")
TONES = {
    "critical": "worst",
    "high": "bad",
    "medium": "warn",
    "low": "calm",
    "deny": "bad",
    "require_approval": "warn",
    "allow": "good",
    "ok": "good",
    "error": "bad",
    "denied": "bad",
    "timeout": "warn",
    "cancelled": "calm",
    "delivered": "good",
    "pending": "warn",
    "dead": "worst",
    "asked": "warn",
    "confirmed": "good",
    "resuming": "warn",
    "resumed": "calm",
    "expired": "calm",
    "stuck": "worst",
    "open": "bad",
    "resolved": "good",
    "withdrawn": "calm",
    "merged": "calm",
    "failing": "bad",
    "stale": "bad",
    "due": "warn",
    "never": "warn",
    "silent": "warn",
    "true": "bad",
    "false": "calm",
    "expected": "calm",
    "accepted": "calm",
    "found": "calm",
    "proposed": "good",
    "refused": "warn",
    "commit": "calm",
    "lookup": "calm",
    "verify": "calm",
}
COLOURS = {"critical": "#8f1313", "high": "#d22f2f", "medium": "#a36200", "low": "#64748b"}
WIDTHS = {  # pixels of the two lists: together they fit a screen of 1400
    "severity": 74, "title": 357, "subject": 100, "detector": 140, "status": 70, "times": 46,
    "started_at": 122, "ended_at": 122, "acked_by": 64, "verdict": 62,
    "trace_id": 250, "steps": 60, "denials": 65, "errors": 60, "agents": 250,
}  # fmt: skip
MOMENT = "YYYY-MM-DD HH:mm:ss"
WORDED = {"latency_ms": "{} ms", "approver": "approver {}", "host": "host {}"}
PILLS = frozenset(
    ("severity", "decision", "status", "state", "verdict", "op", "health", "told", "alert_severity")
)
MONO = frozenset(("params", "trace_id", "event_id", "alert_id", "path", "value", "rule"))
FAINT = frozenset(("detector", "kind", "detail", "by", "source", "adapter"))
INLINE = frozenset(("op", "kind", "status", "latency_ms"))  # stand beside their neighbour
# Control characters, and those that reorder or hide text: shown by their number instead.
UNSEEN = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
LONG = 2_000  # characters of one value on a page; the ledger has the rest


class Column(NamedTuple):
    """A heading, and the frame's columns that stand below each other in its cells."""

    title: str
    parts: tuple[str, ...]
    link: str = ""  # a page: the first part leads to `PAGE?PAGE=` and the row's PAGE_id


def apply() -> None:
    """Load the style sheet."""
    st.html(Path(__file__).with_name("theme.css"))


def heading(title: str, note: str = "") -> None:
    st.html(f'<div class="gw-head"><h1>{safe(title)}</h1><span>{safe(note)}</span></div>')


def section(title: str, note: str = "") -> None:
    st.html(f'<div class="gw-section"><h2>{safe(title)}</h2><span>{safe(note)}</span></div>')


def trouble(sentence: str, next_step: str, lead: str = "Unknown.") -> None:
    """Something that the page needs is not there: never an old value in its place."""
    st.html(
        f'<div class="gw-trouble" role="alert"><b>{safe(lead)}</b> {safe(sentence)}'
        f"<p>{safe(next_step)}</p></div>"
    )


def empty(sentence: str, command: str = "") -> None:
    """Nothing to show: say so, and what to do next."""
    code = f"<code>{safe(command)}</code>" if command else ""
    st.html(f'<div class="gw-empty">{safe(sentence)} {code}</div>')


def done(sentence: str) -> None:
    """What a person asked for has happened."""
    st.html(f'<div class="gw-done" role="status">{safe(sentence)}</div>')


def prose(*paragraphs: tuple[str, str]) -> None:
    """Pairs of a small heading and a paragraph."""
    st.html(
        "".join(
            f"<dl class=gw-prose><dt>{safe(h)}</dt><dd>{safe(t)}</dd></dl>" for h, t in paragraphs
        )
    )


def tiles(*each: tuple[str, str, str, str]) -> None:
    """Counters: label, value, note, tone (good | calm | warn | bad | worst)."""
    drawn = (
        f'<div class="gw-tile gw-edge-{safe(tone)}"><small>{safe(label)}</small>'
        f"<strong>{safe(value)}</strong><span>{safe(note)}</span></div>"
        for label, value, note, tone in each
    )
    st.html(f'<div class="gw-tiles">{"".join(drawn)}</div>')


def banner(word: str, title: str, notes: Sequence[str]) -> None:
    """The head of one alert or proposal; `word`, its severity or state, gives the colour."""
    lines = "".join(f"<span>{safe(note)}</span>" for note in notes if note)
    st.html(
        f'<div class="gw-banner gw-edge-{TONES.get(word, "calm")}">{pill(word)}'
        f"<strong>{safe(title)}</strong><p>{lines}</p></div>"
    )


def table(frame: pl.DataFrame, columns: Sequence[Column]) -> None:
    """A frame as a table of text. The caller has limited its rows."""
    head = "".join(f"<th>{safe(column.title)}</th>" for column in columns)
    rows = (
        f"<tr>{''.join(f'<td>{_cell(row, column)}</td>' for column in columns)}</tr>"
        for row in frame.iter_rows(named=True)
    )
    st.html(
        f'<div class="gw-scroll"><table class="gw-table"><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def chooser(frame: pl.DataFrame, page: str, labels: Mapping[str, str]) -> None:
    """A list of which one row can be chosen: its PAGE_id goes into the address, as `?PAGE=`."""
    key, ids = f"chooser_{page}", frame[f"{page}_id"].to_list()

    def chosen() -> None:
        rows = st.session_state[key].selection.rows
        if rows and rows[0] < len(ids):
            st.query_params[page] = ids[rows[0]]
        else:
            st.query_params.pop(page, None)

    clean = pl.col(pl.String).str.replace_all(UNSEEN.pattern, "\N{REPLACEMENT CHARACTER}")
    shades = [COLOURS[each] for each in SEVERITIES]
    kinds: dict[str, Any] = {}
    for name, label in labels.items():
        if name == "severity":
            kinds[name] = st.column_config.MultiselectColumn(
                label, options=SEVERITIES, color=shades, width=WIDTHS[name]
            )
        elif frame.schema[name] == pl.Datetime:
            kinds[name] = st.column_config.DatetimeColumn(
                label, format=MOMENT, timezone="UTC", width=WIDTHS[name]
            )
        else:
            kinds[name] = st.column_config.Column(label, width=WIDTHS.get(name))
    rows = frame.with_columns(clean)
    if "severity" in labels:
        rows = rows.with_columns(pl.concat_list("severity"))
    st.dataframe(
        rows,
        hide_index=True,
        column_order=list(labels),
        column_config=kinds,
        key=key,
        on_select=chosen,
        selection_mode="single-row",
        height="auto",
        placeholder="–",
    )


def pairs(values: Mapping[str, Any]) -> None:
    """Names and values, one pair a line."""
    rows = "".join(
        f"<tr><th>{safe(name)}</th><td>{safe(shown(value))}</td></tr>"
        for name, value in values.items()
    )
    st.html(f'<table class="gw-pairs"><tbody>{rows}</tbody></table>')


def lines(text: str) -> None:
    """Lines as a terminal shows them."""
    drawn = "\n".join(map(safe, text.splitlines()))
    st.html(f'<pre class="gw-lines">{drawn}</pre>')


def pill(word: str) -> str:
    tone = word if word in COLOURS else TONES.get(word, "calm")
    return f'<span class="gw-pill gw-{tone}">{safe(word.replace("_", " "))}</span>'


def safe(text: str) -> str:
    """Any text as HTML that shows exactly this text."""
    cut = text if len(text) <= LONG else f"{text[:LONG]} … ({len(text):,} characters)"
    return html.escape(visible(cut))


def visible(text: str) -> str:
    """Text without characters that nobody sees or that turn the line round."""
    return UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def shown(value: object) -> str:
    """One value as a person reads it."""
    match value:
        case None:
            return "–"
        case bool():
            return "yes" if value else "no"
        case datetime():
            return moment(value)
        case float():
            return f"{value:,.4g}" if abs(value) < 1_000 else f"{value:,.0f}"
        case int():
            return f"{value:,}"
        case list() | pl.Series():
            return ", ".join(shown(each) for each in value)
        case _:
            return str(value)


def moment(value: datetime | None) -> str:
    """A time in UTC to the second, in figures that stand below each other."""
    return "–" if value is None else f"{value:%Y-%m-%d %H:%M:%S}"


def count(number: int, word: str) -> str:
    """A number with its noun: 1 step, 2 steps."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def age(seconds: float) -> str:
    """A span of time in its largest unit that fits."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:,.0f} s"


def _cell(row: Mapping[str, Any], column: Column) -> str:
    drawn = [_part(name, row[name]) for name in column.parts if row[name] not in (None, "", [])]
    key = row.get(f"{column.link}_id") if column.link else None
    if drawn and key:
        drawn[0] = f'<a href="{html.escape(address(column.link, str(key)))}">{drawn[0]}</a>'
    return "".join(drawn) or '<span class="gw-none">–</span>'


def _part(name: str, value: Any) -> str:
    text = shown(value)
    if name in PILLS:
        return f'<div class="{"gw-inline" if name in INLINE else ""}">{pill(text)}</div>'
    text = WORDED.get(name, "{}").format(text)
    kind = "gw-mono" if name in MONO else "gw-faint" if name in FAINT else ""
    kind += " gw-inline" if name in INLINE else " gw-name" if name == "detector" else ""
    number = " gw-number" if isinstance(value, int | float | datetime) else ""
    return f'<div class="{kind}{number}">{safe(text)}</div>'


def address(page: str, key: str) -> str:
    """Where one alert or one trace is shown, with the viewer's own choices kept."""
    kept = {name: st.session_state.get(name) for name in ("range", "language")}
    extra = "".join(f"&{name}={quote(value)}" for name, value in kept.items() if value)
    return f"{page}?{page}={quote(key, safe='')}{extra}"
