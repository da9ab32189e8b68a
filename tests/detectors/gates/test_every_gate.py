"""What every gate owes. A new file in detectors/gates/ is covered on arrival."""

import re
import tomllib
from pathlib import Path

import httpx
import pytest

from detectors import gates
from detectors.containment import Verb
from detectors.receivers import Refused, Retry
from ingest.config import Secret
from tests.kit_gates import ORDER, asked, example

NAMES = gates.names()
VERBS: tuple[Verb, ...] = ("pause", "resume")
BOTH = pytest.mark.parametrize("verb", VERBS)
EVERY = pytest.mark.parametrize("name", NAMES)


def secrets(options: object) -> list[str]:
    values: list[object] = []
    for field in options.__struct_fields__:  # type: ignore[attr-defined]
        value = getattr(options, field)
        values += value if isinstance(value, tuple) else [value]
    return [each.reveal for each in values if isinstance(each, Secret)]


@EVERY
def test_its_example_is_a_config(name: str, tmp_path: Path) -> None:
    [table] = tomllib.loads(gates.load(name, "tests").EXAMPLE)["containment"].values()

    assert table["type"] == name
    assert example(name, tmp_path).where.startswith(f"{name} at ")


@EVERY
@BOTH
@pytest.mark.parametrize("status", [429, 500, 502, 503])
def test_what_may_pass_is_asked_again(name: str, verb: Verb, status: int, tmp_path: Path) -> None:
    answer = httpx.Response(status, headers={"retry-after": "7"}, text="later")

    got = asked(example(name, tmp_path), verb, lambda _: answer)

    assert isinstance(got.outcome, Retry)
    assert (got.outcome.after, got.status, got.text) == (7.0, status, "later")


@EVERY
@BOTH
@pytest.mark.parametrize("status", [301, 400, 401, 403, 405, 422])
def test_what_will_not_change_is_asked_once(
    name: str, verb: Verb, status: int, tmp_path: Path
) -> None:
    got = asked(example(name, tmp_path), verb, lambda _: httpx.Response(status, text="no"))

    assert isinstance(got.outcome, Refused)
    assert (got.status, got.text) == (status, "no")


@EVERY
@BOTH
@pytest.mark.parametrize("error", [httpx.ConnectError("x"), httpx.ReadTimeout("x")])
def test_a_network_that_fails_is_tried_again(
    name: str, verb: Verb, error: Exception, tmp_path: Path
) -> None:
    def fail(request: httpx.Request) -> httpx.Response:
        raise error

    got = asked(example(name, tmp_path), verb, fail)

    assert isinstance(got.outcome, Retry)
    assert (got.status, got.text) == (None, "")


@EVERY
@BOTH
def test_no_secret_is_in_an_answer_or_an_outcome(name: str, verb: Verb, tmp_path: Path) -> None:
    gate = example(name, tmp_path)
    own = secrets(gate.options)
    echo = httpx.Response(403, text=f"who is {' '.join(own)}?\n\x1b[31m" + "x" * 1_000)

    got = asked(gate, verb, lambda _: echo)

    said = repr(got) + gate.where + repr(gate.options)
    assert [each for each in own if each in said] == []
    assert len(got.text) <= 200
    assert re.fullmatch(r"[^\x00-\x1f]*", got.text)


@EVERY
@BOTH
def test_the_second_time_says_the_same(name: str, verb: Verb, tmp_path: Path) -> None:
    gate, sent = example(name, tmp_path), list[bytes]()

    def reply(request: httpx.Request) -> httpx.Response:
        sent.append(f"{request.method} {request.url} {request.headers.raw!r}".encode())
        sent.append(request.content)
        return httpx.Response(503)

    asked(gate, verb, reply)
    asked(gate, verb, reply)

    assert sent[: len(sent) // 2] == sent[len(sent) // 2 :]


@EVERY
@pytest.mark.parametrize("name_of_it", ["a1", "a/b?c#d%2e%2e", "../../x", "名字", "é" * 300])
def test_a_name_never_leaves_its_place(name: str, name_of_it: str, tmp_path: Path) -> None:
    from dataclasses import replace

    gate, urls = example(name, tmp_path), list[httpx.URL]()

    def reply(request: httpx.Request) -> httpx.Response:
        urls.append(request.url)
        return httpx.Response(503)

    asked(gate, "pause", reply, replace(ORDER, name=name_of_it))

    assert urls
    assert {each.host for each in urls} == {httpx.URL(gate.options.address).host}
    assert all(name_of_it == "a1" or name_of_it not in str(each) for each in urls)
    assert {each.parent for each in tmp_path.rglob("*")} <= {tmp_path}


def test_there_are_gates() -> None:
    assert {"webhook", "opa", "agt"} <= set(NAMES)
