"""What README and docs/ say is so: commands, examples, configs, metrics."""

import json
import os
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
import typer.main
from jsonschema import Draft202012Validator

from detectors import alertmanager, coverage, detector, metrics
from detectors.coverage import Feed
from gatewatch import pushing
from gatewatch.cli import app
from ingest import adapter
from ingest.config import Settings, convert, header, read_settings
from ingest.store import fetch, memory_store
from tests.world import at

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
NOW = datetime(2026, 3, 11, tzinfo=UTC)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(language: str) -> list[tuple[Path, str]]:
    """The code blocks of one language in all pages."""
    fence = re.compile(rf"^```{language}\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    return [(page, text) for page in PAGES for text in fence.findall(page.read_text("utf-8"))]


def commands() -> set[str]:
    """The commands that there are."""
    return set(getattr(typer.main.get_command(app), "commands"))  # noqa: B009 - typer's type is vague


def test_every_command_is_in_the_readme() -> None:
    table = README.split("## Commands")[1].split("##")[0]

    missing = {each for each in commands() if not re.search(rf"`(gatewatch )?{each}\b", table)}

    assert missing == set()


def test_every_command_that_a_page_names_exists() -> None:
    named = {
        (page.name, word)
        for page in PAGES
        for word in re.findall(r"\bgatewatch ([a-z]+(?:-[a-z]+)?)\b", _shell(page))
    }

    assert {each for each in named if each[1] not in commands()} == set()


def _shell(page: Path) -> str:
    """What a page gives to a shell: its code, in line or in blocks."""
    text = page.read_text(encoding="utf-8")
    return "\n".join([*re.findall(r"`(gatewatch [^`\n]+)`", text), *_blocks_of(text)])


def _blocks_of(text: str) -> list[str]:
    return re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_the_example_of_the_readme_gives_the_alert_that_it_promises(tmp_path: Path) -> None:
    [script] = [text for text in _blocks_of(README) if "gatewatch ingest" in text]
    promised = re.search(r"`deny_retry`: \*(.+?)\*", README)
    assert promised
    database = tmp_path / "a1.duckdb"

    for line in script.splitlines():
        words = line.replace("a1.duckdb", str(database)).split()
        assert words[0] == "gatewatch"
        done = subprocess.run(
            [sys.executable, "-m", *words, "--json"],
            capture_output=True, text=True, cwd=ROOT, check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr

    assert promised[1] in [alert["title"] for alert in json.loads(done.stdout)]


@pytest.mark.parametrize(("page", "text"), blocks("toml"))
def test_every_config_in_the_book_is_a_config(
    page: Path, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in re.findall(r"env:(\w+)", text):
        monkeypatch.setenv(name, "https://hooks.example.test/x")
    path = tmp_path / "gatewatch.toml"
    path.write_text(text, encoding="utf-8")

    read = read_settings(path)

    alertmanager.read(read, page.name)
    pushing.read(read)
    assert read != Settings(folder=read.folder), page  # it says something
    own = {"till"} if page.name == "mapping.md" else set()  # the one that this page describes
    assert {source.adapter for source in read.sources.values()} <= set(adapter.names()) | own


def test_every_native_line_in_the_book_is_valid() -> None:
    schema = json.loads((ROOT / "ingest" / "native.schema.json").read_text(encoding="utf-8"))
    lines = [line for _, text in blocks("json") for line in text.splitlines()]
    native = [json.loads(line) for line in lines if line.startswith('{"ts":')]
    assert native

    for line in native:
        Draft202012Validator(schema).validate(line)


def test_every_metric_is_in_the_book_with_its_type() -> None:
    page = metrics.page(memory_store(), {}, [], (0, ""), at(0)).decode()
    shown = set(re.findall(r"^# TYPE (\S+) (\S+)$", page, re.MULTILINE))
    text = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    told = set(re.findall(r"^\| `(gatewatch_\w+)` \| (\w+) \|", text, re.MULTILINE))

    assert told == shown


def test_a_page_of_the_book_has_one_sentence_a_line() -> None:
    """So that a diff shows the sentence that changed. Tables, code and lists are left alone."""
    crowded = [
        f"{page.relative_to(ROOT)}: {line}"
        for page in PAGES
        for line in re.sub(
            r"^(```+).*?^\1$", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE
        ).splitlines()
        if not line.startswith(("|", "-", "*", "1", "2", "3", "4", "#"))
        and re.search(r"[a-z`)]{2}\. [A-Z`]", line)
    ]

    assert crowded == []


def test_every_page_of_the_book_is_linked_from_the_readme_or_from_a_page_that_is() -> None:
    seen, todo = set(), [ROOT / "README.md"]
    while todo:
        page = todo.pop().resolve()
        if page in seen:
            continue
        seen.add(page)
        links = re.findall(r"\]\(([^)#:]+\.md)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
        todo += [page.parent / link for link in links]

    assert {page.resolve() for page in PAGES} - seen == set()


SOURCES = ROOT / "docs" / "sources"
SAMPLES = ROOT / "tests" / "ingest" / "adapters"
MARK = "<!-- feeds -->"
FILES_OF = {"ndjson": "an object a line", "json": "JSON", "text": "lines"}


def _fed(feed: Feed) -> str:
    lacks = ", ".join(f"`{text}`" for text in feed.lacks)
    if feed.feeds == "with others":
        return f"with a source that tells {lacks}"
    if feed.feeds == "no":
        return f"no: there is no {lacks}"
    coarse = ", ".join(f"`{text}`" for text in feed.coarse)
    return f"yes, for the session or the whole source: there is no {coarse}" if coarse else "yes"


def fed_by(name: str) -> str:
    """The end of a source's page: what its recorded lines can feed."""
    with memory_store().writing() as db:
        columns = coverage.columns_of(db)
    wanted = coverage.needs(
        {each: detector.declared(path).needs for each, path in detector.files().items()}, columns
    )
    golden = (SAMPLES / f"{name}.golden.ndjson").read_text(encoding="utf-8").splitlines()
    every = [need for those in wanted.values() for need in those]
    held = coverage.sampled([json.loads(line) for line in golden], every)
    rows = [
        f"| `{each.detector}` | {_fed(each)} |" for each in coverage.feeds({name: held}, wanted)
    ]
    told = "Made from recorded lines; `gatewatch coverage` says the same of your own data."
    head = ["## What it can feed", "", told, "", "| detector | fed |", "|---|---|"]
    return "\n".join([MARK, "", *head, *rows]) + "\n"


def sources() -> str:
    """docs/sources/README.md, made from the headers of the adapters."""
    page = [
        "# Sources",
        "",
        "What gatewatch reads, with a page for each: what to copy and what to know before.",
        "Made from the headers in ingest/adapters/: `pytest tests/test_book.py --accept`.",
        "",
        "| adapter | reads | a file holds | pushed to |",
        "|---|---|---|---|",
    ]
    for name in adapter.names():
        told = convert(header(adapter.FOLDER / f"{name}.sql")[0], adapter.Header, name)
        paths = ", ".join(f"`{path}`" for path in told.paths)
        page += [f"| [{name}]({name}.md) | {told.title} | {FILES_OF[told.format]} | {paths} |"]
    page += ["", "## Beside them", ""]
    for name in sorted({path.stem for path in SOURCES.glob("*.md")} - {"README", *adapter.names()}):
        title = (SOURCES / f"{name}.md").read_text(encoding="utf-8").splitlines()[0]
        page += [f"- [{title.removeprefix('# ')}]({name}.md)"]
    return "\n".join(page) + "\n"


def test_every_adapter_has_its_page_and_the_list_names_it(pytestconfig: pytest.Config) -> None:
    page = SOURCES / "README.md"

    if pytestconfig.getoption("--accept"):
        page.write_text(sources(), encoding="utf-8")

    missing = set(adapter.names()) - {path.stem for path in SOURCES.glob("*.md")}
    assert missing == set()
    assert page.read_text(encoding="utf-8") == sources()


@pytest.mark.parametrize("name", adapter.names())
def test_the_page_of_a_source_ends_with_what_it_can_feed(
    name: str, pytestconfig: pytest.Config
) -> None:
    page = SOURCES / f"{name}.md"
    told, mark, _ = page.read_text(encoding="utf-8").partition(MARK)
    assert mark

    if pytestconfig.getoption("--accept"):
        page.write_text(told + fed_by(name), encoding="utf-8")

    assert page.read_text(encoding="utf-8") == told + fed_by(name)


def test_the_table_in_the_book_makes_of_the_line_in_the_book_what_it_says(tmp_path: Path) -> None:
    page = (SOURCES / "mapping.md").read_text(encoding="utf-8")
    [table] = re.findall(r"^```toml adapters/till.toml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    [line] = re.findall(r"^```text\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "till.toml").write_text(table, encoding="utf-8")

    with memory_store().writing() as db:
        found = adapter.load("till", db, "book", tmp_path)
        with adapter.lines(db, "till", NOW, [(1, line)]):
            [row] = fetch(db, found.events, at=NOW)

    told = {key: value for key, value in row.items() if value is not None}
    assert told.items() >= {
        "kind": "tool_decided", "agent": "a1", "tool": "pay", "params": '{"amount":12.5}',
        "decision": "deny", "decision_native": "STOP", "tenant": "shop-1", "native_id": "7",
        "ts": datetime(2026, 3, 10, 9, tzinfo=UTC),
    }.items()  # fmt: skip
