"""What README and docs/ say is so: commands, examples, configs, metrics."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main
from jsonschema import Draft202012Validator

from detectors import metrics
from detectors.detector import CATALOGUE, Header
from gatewatch.cli import app
from ingest import adapter
from ingest.config import convert, header, read_settings
from ingest.store import memory_store

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
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

    assert read.sources or read.receivers, page
    assert {source.adapter for source in read.sources.values()} <= set(adapter.names())


def test_every_native_line_in_the_book_is_valid() -> None:
    schema = json.loads((ROOT / "ingest" / "native.schema.json").read_text(encoding="utf-8"))
    lines = [line for _, text in blocks("json") for line in text.splitlines()]
    native = [json.loads(line) for line in lines if line.startswith('{"ts":')]
    assert native

    for line in native:
        Draft202012Validator(schema).validate(line)


def test_every_metric_is_in_the_book_with_its_type() -> None:
    page = metrics.page(memory_store(), {}, [], (0, "")).decode()
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
            r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL
        ).splitlines()
        if not line.startswith(("|", "-", "*", "1", "2", "3", "4", "#"))
        and re.search(r"[a-z`)]{2}\. [A-Z`]", line)
    ]

    assert crowded == []


def catalogue() -> str:
    """docs/detectors.md, made from the headers of the catalogue."""
    page = [
        "# Detectors",
        "",
        "Made from the headers in detectors/catalogue/: `pytest tests/test_book.py --accept`.",
        "Parameters go into gatewatch.toml, as `[detectors.NAME]`.",
        "`enabled = false` switches a detector off.",
    ]
    for path in sorted(CATALOGUE.glob("*.sql")):
        told = convert(header(path)[0], Header, str(path))
        page += ["", f"## {path.stem}", "", f"Severity {told.severity}. *{told.title}*", ""]
        page += [f"- Why: {told.why}", f"- Do: {told.respond}", f"- Quiet: {told.quiet}"]
        page += [f"- Needs: {', '.join(told.needs)}."] if told.needs else []
        page += [f"- Says nothing while {', '.join(told.inhibited_by)} tells of the same."] * bool(
            told.inhibited_by
        )
        if told.params:
            page += ["", "| parameter | default | from | to |", "|---|---|---|---|"]
        for key, each in told.params.items():
            bounds = ["" if value is None else str(value) for value in (each.min, each.max)]
            page += [f"| `{key}` | {each.default} | {bounds[0]} | {bounds[1]} |"]
    return "\n".join(page) + "\n"


def test_the_page_of_detectors_says_what_their_headers_say(pytestconfig: pytest.Config) -> None:
    page = ROOT / "docs" / "detectors.md"

    if pytestconfig.getoption("--accept"):
        page.write_text(catalogue(), encoding="utf-8")

    assert page.read_text(encoding="utf-8") == catalogue()


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
