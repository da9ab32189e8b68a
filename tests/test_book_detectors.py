"""The part of the book that is made from the catalogue: an index, and a page for each detector.

`pytest tests/test_book_detectors.py --accept` writes it; a page that is stale fails.
"""

import json
import re
from typing import Any

import pytest

from detectors import detector
from detectors.header import Header
from tests.kit import ROOT

DOCS = ROOT / "docs"
PAGES = DOCS / "detectors"
FIGURES = DOCS / "detectors.json"  # what tests/bench/accuracy.py measured
COLUMNS = ("planted", "found", "recall", "alerts", "false_alarms", "precision")
ACCEPT = "pytest tests/test_book_detectors.py --accept"
SEVERITIES = ("critical", "high", "medium", "low")
SHADOW = ", in shadow: shown, and told to nobody"
SENTENCE = re.compile(r"(?<=[\w`)\"]{2}[.?]) (?=[A-Z`$/])")


def measured() -> dict[str, Any]:
    """What there is of figures; none, if nobody has measured."""
    found: dict[str, Any] = json.loads(FIGURES.read_text("utf-8")) if FIGURES.exists() else {}
    return found


def figures(row: dict[str, Any]) -> str:
    """The cells of one row; a ratio of nothing is a dash."""
    return " | ".join("-" if row[key] is None else f"{row[key]:,}" for key in COLUMNS)


def sentences(text: str) -> str:
    """One a line, so that a diff shows the one that changed."""
    return SENTENCE.sub("\n", text)


def cell(text: object) -> str:
    return str(text).replace("|", "\\|").replace("*", "\\*")


def index() -> str:
    """docs/detectors.md."""
    told = {name: detector.declared(path) for name, path in detector.files().items()}
    page = [
        "# Detectors", "",
        f"The {len(told)} detectors that gatewatch ships, the gravest first, with a page for each.",
        f"Made from the headers in detectors/catalogue/: `{ACCEPT}`.",
        "One in shadow is shown on the pages and tells nobody.",
        "How to set, exempt and try them: [tuning.md](tuning.md).",
        "Which of them your own sources can feed: `gatewatch coverage`.", "",
        "| detector | severity | says | needs | status |", "|---|---|---|---|---|",
    ]  # fmt: skip
    for name, each in sorted(told.items(), key=lambda item: (_rank(item[1]), item[0])):
        needs = ", ".join(f"`{need}`" for need in each.needs) or "nothing"
        cells = (
            f"[{name}](detectors/{name}.md)",
            each.severity,
            cell(each.title),
            needs,
            each.status,
        )
        page += [f"| {' | '.join(cells)} |"]
    return "\n".join([*page, *_table()]) + "\n"


def _rank(header: Header) -> int:
    return SEVERITIES.index(header.severity)


def _table() -> list[str]:
    """What was measured of all of them."""
    found = measured()
    if not found:
        return []
    return [
        "", "## How well they find", "",
        f"Measured over {len(found['seeds'])} simulated fleets of {found['agents']} agents for"
        f" {found['days']} days, with troubles planted; `python -m tests.bench` measures it again.",
        "With nothing planted, 100 agents gave"
        f" {found['quiet_a_day_per_100_agents']} false alerts a day.", "",
        "| detector | planted | found | recall | alerts | false alarms | precision |",
        "|---|--:|--:|--:|--:|--:|--:|",
        *(f"| {row['detector']} | {figures(row)} |"
          for row in (*found["detectors"], found["whole"])),
    ]  # fmt: skip


def page(name: str, told: Header) -> str:
    """docs/detectors/NAME.md."""
    file = detector.files()[name].name
    lines = [
        f"# {name}", "",
        f"*{cell(told.title)}*", "",
        f"Severity {told.severity}{SHADOW * (told.status == 'shadow')}.",
        f"Tags: {', '.join(f'`{tag}`' for tag in told.tags)}.",
        f"Made from the header of [{file}](../../detectors/catalogue/{file}).", "",
        "## Why", "", sentences(told.why), "",
        "## What to do", "", sentences(told.respond), "",
        "## When it is nothing", "", sentences(told.quiet), "",
        "## What it reads", "",
    ]  # fmt: skip
    needs = ", ".join(f"`{need}`" for need in told.needs) or "when lines arrive, and nothing else"
    lines += [f"- Needs: {needs}."]
    if told.kinds:
        lines += [f"- Of events: {', '.join(f'`{kind}`' for kind in told.kinds)}."]
    lines += [
        f"- Looks back: {told.lookback}.",
        f"- One alert while it pauses no longer than: {told.gap}.",
    ]
    if told.clock:
        lines += ["- Judges as time passes, too, when nothing comes."]
    if told.inhibited_by:
        files = detector.files()
        unheard = [each for each in told.inhibited_by if detector.declared(files[each]).of_source]
        others = [each for each in told.inhibited_by if each not in unheard]
        for names, of in ((others, "the same events"), (unheard, "the source that they come from")):
            if names:
                links = ", ".join(f"[{other}]({other}.md)" for other in names)
                lines += [f"- Tells nobody while {links} speaks of {of}."]
    return "\n".join([*lines, *_params(name, told), *_figures(name)]) + "\n"


def _params(name: str, told: Header) -> list[str]:
    tuning = "[tuning.md](../tuning.md)"
    head = ["", "## Parameters", ""]
    if not told.params:
        return [*head, "None.", f"How to switch it off or exempt an agent: {tuning}."]
    lines = [f"In gatewatch.toml, table `[detectors.{name}]`; see {tuning}.", ""]
    lines += ["| parameter | type | default | from | to |", "|---|---|---|---|---|"]
    for key, each in told.params.items():
        low, high = ("" if value is None else str(value) for value in (each.min, each.max))
        kind = f"one of {', '.join(each.choices)}" if each.choices else each.type
        default = f"`{each.default}`" if each.default != "" else "empty"
        lines += [f"| `{key}` | {kind} | {default} | {low} | {high} |"]
    return [*head, *lines]


def _figures(name: str) -> list[str]:
    rows = [row for row in measured().get("detectors", ()) if row["detector"] == name]
    if not rows:
        return []
    return [
        "", "## How well it finds", "", f"| {' | '.join(COLUMNS).replace('_', ' ')} |",
        "|--:|--:|--:|--:|--:|--:|", *(f"| {figures(row)} |" for row in rows), "",
        "How that was measured: [detectors.md](../detectors.md#how-well-they-find).",
    ]  # fmt: skip


def test_the_index_of_detectors_says_what_their_headers_say(pytestconfig: pytest.Config) -> None:
    path = DOCS / "detectors.md"

    if pytestconfig.getoption("--accept"):
        path.write_text(index(), encoding="utf-8")

    assert path.read_text(encoding="utf-8") == index()


@pytest.mark.parametrize("name", detector.names())
def test_the_page_of_a_detector_says_what_its_header_says(
    name: str, pytestconfig: pytest.Config
) -> None:
    path, told = PAGES / f"{name}.md", page(name, detector.declared(detector.files()[name]))

    if pytestconfig.getoption("--accept"):
        path.write_text(told, encoding="utf-8")

    assert path.read_text(encoding="utf-8") == told


def test_no_page_is_of_a_detector_that_is_gone(pytestconfig: pytest.Config) -> None:
    gone = [path for path in PAGES.glob("*.md") if path.stem not in detector.names()]
    if pytestconfig.getoption("--accept"):
        for path in gone:
            path.unlink()

    assert [path.name for path in PAGES.glob("*.md") if path.stem not in detector.names()] == []


def test_the_figures_of_the_book_are_of_detectors_that_there_are() -> None:
    named = {row["detector"] for row in measured().get("detectors", ())}

    assert named <= set(detector.names())
