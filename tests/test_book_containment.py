"""The page about pauses shows what the code does: examples, what is sent, how to verify it."""

import json
import re
import time
import tomllib
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from detectors import containment, gates
from tests.kit_gates import KEY, ORDER, TILL, asked, gate
from tests.kit_receivers import NOW

PAGE = (Path(__file__).parents[1] / "docs" / "containment.md").read_text(encoding="utf-8")


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", gates.names())
def test_the_config_of_each_gate_is_the_one_that_is_tested(name: str) -> None:
    assert gates.load(name, "tests").EXAMPLE.strip() in [each.strip() for each in blocks("toml")]


def test_every_config_of_a_gate_loads(tmp_path: Path) -> None:
    tables = [tomllib.loads(each).get("containment", {}) for each in blocks("toml")]
    for table in tables:
        for each in table.values():
            if "policies" in each:
                each["policies"] = str(tmp_path)
        containment.load(table)

    assert sum(map(len, tables)) == 4


def test_what_the_page_verifies_is_what_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    names: dict[str, Callable[..., bool]] = {}
    exec(blocks("python")[0], names)  # noqa: S102 - the page's own lines
    monkeypatch.setattr(time, "time", NOW.timestamp)
    sent: list[httpx.Request] = []

    def reply(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return httpx.Response(204)

    asked(gate(**TILL), "pause", reply)
    headers, body = dict(sent[0].headers), sent[0].content

    assert names["genuine"](headers, body, KEY)
    assert not names["genuine"](headers, body + b" ", KEY)
    monkeypatch.setattr(time, "time", lambda: NOW.timestamp() + 301)
    assert not names["genuine"](headers, body, KEY)


def test_the_request_on_the_page_has_the_keys_that_are_sent() -> None:
    [text] = [each for each in blocks("text") if each.startswith("POST")]
    shown = json.loads(text[text.index("{") :])
    from detectors.gates.webhook import data

    assert shown["data"].keys() == data(ORDER).keys()


def test_every_state_is_explained() -> None:
    schema = (Path(__file__).parents[1] / "ingest" / "schema.sql").read_text(encoding="utf-8")
    [states] = re.findall(r"asked_at TIMESTAMPTZ NOT NULL, state .*?-- (.*)", schema)

    assert re.findall(r"^\| `(\w+)` \| [a-z]", PAGE[: PAGE.index("## Which")], re.M) == (
        states.split(" | ")
    )
