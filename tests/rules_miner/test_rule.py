import json
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.config import ConfigError
from rules_miner.rule import build, canonical, dump, fingerprint, normalised, parse, read
from rules_miner.schema import SCHEMA, problems
from rules_miner.subsumption import covers
from tests.kit import ROOT

FIXTURES = ROOT.parent / "shared/cases/fixtures"
EXAMPLES = sorted((Path(__file__).parent / "examples").glob("*.yaml"))
PRINTS = {
    "sku-empty-v1": "140f3e645ae26d1ce75446d122bca213c1c8c149c75c6acbaeed4a330af2fe4d",
    "refund-conflict-v2": "a50fdea3263788100879158155b0424ad71e6c945c0ba6f05aa312b0b94a3726",
    "inj-arg-send-v1": "2705568fd1d03d947199b4b556476bd8b5745fd853358013c36f7fac69564b4a",
    "cancel-unconfirmed-v1": "90c0db2e8ff2bca6b2fddf8b36b56f40c5c42efbfa1e91719acb808980c65f00",
    "search-stall-v1": "9a908b4ed49fa8e7517dbb3a7495f3964f6ee3f08249dbf19676c6b5633c2350",
    "refund-retry-v1": "a940238359a1eaef77ea602b68ea17eabb1de79cab249413ed9734d8950976d6",
}
SHORT = "id: a-v1\nwhen: {signal: conflict}\nthen: abstain\n"
JUDGE = jsonschema.Draft202012Validator(
    SCHEMA, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER
)
BREAKS: list[tuple[str, Any]] = [
    ("id", "A-v1"), ("id", "a"), ("id", "a-v0"), ("id", "a-v1\n"), ("id", "a" * 70 + "-v1"),
    ("id", 7), ("then", "stop"), ("then", True), ("status", "live"), ("origin", "found"),
    ("origin", "mined"), ("schema", "stop-rule/2"), ("message", ""), ("message", "a" * 201),
    ("message", "hello @all"), ("message", "two\nlines"), ("message", "<b>"), ("status", "canary"),
    ("status", "enforced"), ("status", "deprecated"), ("owner", "x" * 101), ("extra", 1),
    ("evidence", {}), ("evidence", {"ref": "../a-v1.json"}), ("evidence", {"ref": "a", "b": 1}),
    ("related", [{"id": "b-v1"}]), ("related", [{"id": "b-v1", "type": "like"}]),
    ("scope", {"canary_percent": 101}), ("scope", {"canary_percent": True}),
    ("scope", {"agents": []}), ("scope", {"agents": ["a", "a"]}), ("scope", {"who": 1}),
    ("deprecated", {"since": "2026-10-05", "reason": "old"}), ("scope", {"holdback_percent": -1}),
    ("when", {}), ("when", {"signal": "conflict", "signals": ["conflict"]}),
    ("when", {"signals": []}), ("when", {"signals": ["conflict", "conflict"]}),
    ("when", {"signals": list("abcde")}), ("when", {"signal": "X"}), ("when", []), ("when", None),
    ("when", {"signal": "conflict", "tool": "a", "tool_prefix": "b"}),
    ("when", {"signal": "conflict", "point": "later"}),
    ("when", {"signal": "conflict", "domain": []}), ("when", {"signal": "conflict", "domain": "A"}),
    ("when", {"signal": "conflict", "tool": "rm *"}), ("when", {"signal": "conflict", "who": 1}),
    ("when", {"signal": "conflict", "params": [{"path": "x.y", "op": "eq", "value": 1}]}),
    ("when", {"signal": "conflict", "params": [{"path": "args.y", "op": "lt", "value": "1"}]}),
    ("when", {"signal": "conflict", "params": [{"path": "args.y", "op": "in", "value": []}]}),
    ("when", {"signal": "conflict", "params": [{"path": "args.y", "op": "eq", "value": None}]}),
    ("when", {"signal": "conflict", "params": [{"path": "args.y", "op": "exists", "value": 1}]}),
    ("when", {"signal": "conflict", "params": [{"path": "args.y", "op": "like", "value": 1}]}),
    ("when", {"signal": "conflict", "sequence": [{"prev": "a*b"}]}),
    ("when", {"signal": "conflict", "sequence": [{"prev": "a", "seen": "b"}]}),
    ("when", {"signal": "conflict", "sequence": [{"count": "a"}]}),
    ("when", {"signal": "conflict", "sequence": [{"count": "a", "gte": 0}]}),
    ("when", {"signal": "conflict", "sequence": [{"absent": "a", "since": "ever"}]}),
]  # fmt: skip


def rule(**when: Any) -> dict[str, Any]:
    return normalised({"id": "a-v1", "then": "abstain", "when": {"signal": "conflict", **when}})


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_published_examples_have_the_published_fingerprints(path: Path) -> None:
    found = read(path.read_text(encoding="utf-8"), path.name)

    assert found.fingerprint == PRINTS[path.stem]
    assert list(problems(found.doc)) == []
    assert JUDGE.is_valid(found.doc)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_a_rule_survives_being_written(path: Path) -> None:
    found = read(path.read_text(encoding="utf-8"), path.name)

    assert read(dump(found.doc), "again").doc == found.doc


@pytest.mark.parametrize(("key", "value"), BREAKS, ids=str)
def test_a_broken_rule_is_refused_as_by_another_validator(key: str, value: Any) -> None:
    doc = {"id": "a-v1", "when": {"signal": "conflict"}, "then": "abstain", key: value}

    assert not JUDGE.is_valid(doc)
    assert list(problems(doc)) != []


@given(st.data())
def test_no_document_makes_the_check_raise_and_both_validators_agree(data: st.DataObject) -> None:
    values = st.recursive(
        st.none() | st.booleans() | st.integers(-5, 200) | st.floats(-3, 3) | st.text(max_size=5)
        | st.sampled_from(["conflict", "abstain", "a-v1", "canary", "args.x", "eq", "start"]),
        lambda inner: st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(
            ["signal", "signals", "tool", "params", "path", "op", "value", "seen", "since", "x"]
        ), inner, max_size=4),
        max_leaves=8,
    )  # fmt: skip
    doc = data.draw(st.dictionaries(
        st.sampled_from(["id", "when", "then", "status", "scope", "message", "owner"]), values
    ))  # fmt: skip
    doc = {"id": "a-v1", "then": "abstain", "when": {"signal": "conflict"}, **doc}

    assert (not list(problems(doc))) == JUDGE.is_valid(doc)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (SHORT.replace("then", "thn"), "unknown key 'thn'. Did you mean 'then'?"),
        (SHORT.replace("abstain", "abstian"),
         "then: 'abstian' is no choice here. Did you mean 'abstain'?"),
        (SHORT.replace("conflict", "Conflict"),
         "when.signal: 'Conflict' does not have the right form, ^[a-z][a-z0-9_]{1,47}(?![\\s\\S])"),
        (SHORT.replace("id: a-v1\n", ""), "the key 'id' is missing."),
        (SHORT + "then: clarify\n", "line 4: the key 'then' is there twice."),
        (SHORT.replace("conflict", "!!str conflict"), "line 2: tags are not allowed."),
        (SHORT.replace("conflict", "&a conflict"),
         "line 2: anchors and aliases are not allowed."),
        (SHORT + "---\n" + SHORT, "line 4: a second document."),
        ("just text", "'just text' is not of type object."),
        ("", "None is not of type object."),
        ("1: 2", "line 1: a key must be plain text."),
    ],
)  # fmt: skip
def test_an_error_names_file_key_and_the_nearest_right_thing(text: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(text, "rules/a-v1.yaml")

    assert str(caught.value) == f"rules/a-v1.yaml: {says}"


def test_an_alias_bomb_and_endless_nesting_are_refused_at_once() -> None:
    """B177."""
    bomb = (FIXTURES / "B177-yaml-bomb.yaml").read_text(encoding="utf-8")
    begin = time.perf_counter()

    for text in (bomb, "[" * 100_000, "a: " * 10_000, "- " * 10_000, "{a: " * 40):
        with pytest.raises(ConfigError):
            read(text, "x")

    assert time.perf_counter() - begin < 1


def test_a_big_plain_document_still_loads() -> None:
    assert len(parse("- plain text here\n" * 50_000)) == 50_000


def test_values_that_yaml_would_change_come_back_as_they_were() -> None:
    """B169."""
    lines = (FIXTURES / "B169-yaml-out.jsonl").read_bytes().split(b"\n")
    values = [json.loads(line)["params"]["cmd"] for line in lines if line]
    values += ["\u2028", "\x85", "\ufeff", "a\r\nb", "\t", "null", "1e3", "=", "<<", "😀", "'\""]
    for value in values:
        doc = {"id": "a-v1", "then": "abstain", "when": {"signal": "conflict", "params": [
            {"path": "args.cmd", "op": "eq", "value": value}]}}  # fmt: skip

        assert read(dump(doc), "x").doc == doc


@given(st.text())
def test_any_text_survives_or_is_refused_but_never_changes(value: str) -> None:
    doc = {"id": "a-v1", "then": "abstain", "when": {"signal": "conflict", "params": [
        {"path": "args.cmd", "op": "eq", "value": value}]}}  # fmt: skip

    assert parse(dump(doc)) == doc


def test_spelling_does_not_change_a_fingerprint_and_meaning_does() -> None:
    long = build(
        {"id": "b-v7", "then": "ABSTAIN", "message": "x", "when": {
            "signals": ["conflict", "a_b"], "tool": ["b", "a"],
            "sequence": [{"seen": "x", "since": "start"}, {"absent": "y"}]}}, "x")  # fmt: skip
    other = build(
        {"id": "a-v1", "then": "abstain", "when": {
            "sequence": [{"absent": "y"}, {"seen": "x"}],
            "signals": ["a_b", "conflict"], "tool": ["a", "b"]}}, "x")  # fmt: skip

    assert long.fingerprint == other.fingerprint
    assert fingerprint({**other.normal, "then": "clarify"}) != other.fingerprint


@pytest.mark.parametrize(
    ("number", "text"),
    [(1.0, "1"), (-0.0, "0"), (1e21, "1e+21"), (1e-7, "1e-7"), (1e-6, "0.000001"), (0.1, "0.1"),
     (123456789012345680000, "123456789012345680000"), (2.5e-8, "2.5e-8"), (100, "100")],
)  # fmt: skip
def test_numbers_are_written_as_rfc_8785_wants(number: float, text: str) -> None:
    assert canonical(number) == text


@pytest.mark.parametrize(
    ("wide", "narrow", "expected"),
    [
        ({}, {}, True),
        ({}, {"domain": "shop"}, True),
        ({"domain": "shop"}, {}, False),
        ({"domain": ["shop", "mail"]}, {"domain": "shop"}, True),
        ({"point": "pre_commit"}, {}, False),
        ({}, {"point": "pre_commit"}, True),
        ({}, {"point": "post_result"}, False),
        ({"tool_prefix": "send_"}, {"tool": "send_mail"}, True),
        ({"tool_prefix": "send_"}, {"tool_prefix": "send_mail"}, True),
        ({"tool_prefix": "send_mail"}, {"tool_prefix": "send_"}, False),
        ({"tool_prefix": "send_"}, {"tool": ["send_mail", "pay"]}, False),
        ({"tool": ["a", "b"]}, {"tool": "a"}, True),
        ({"tool": "a"}, {"tool_prefix": "a"}, False),
        ({"tool": "a"}, {}, False),
        ({"not_signals": ["a_b"]}, {}, False),
        ({"sequence": [{"absent": "x"}]}, {"sequence": [{"absent": "x"}, {"seen": "y"}]}, True),
        ({"sequence": [{"absent": "x"}]}, {}, False),
        ({"params": [{"path": "args.n", "op": "lte", "value": 5}]},
         {"params": [{"path": "args.n", "op": "lt", "value": 5}]}, True),
        ({"params": [{"path": "args.n", "op": "lt", "value": 5}]},
         {"params": [{"path": "args.n", "op": "lte", "value": 5}]}, False),
        ({"params": [{"path": "args.n", "op": "in", "value": [1, 2]}]},
         {"params": [{"path": "args.n", "op": "eq", "value": 2}]}, True),
        ({"params": [{"path": "args.n", "op": "exists", "value": True}]},
         {"params": [{"path": "args.n", "op": "eq", "value": 2}]}, True),
    ],
)  # fmt: skip
def test_a_rule_covers_what_is_nowhere_wider(
    wide: dict[str, Any], narrow: dict[str, Any], expected: bool
) -> None:
    assert covers(rule(**wide), rule(**narrow)) is expected


def test_abstain_covers_clarify_and_not_the_reverse() -> None:
    abstain = rule()
    clarify = {**abstain, "then": "clarify"}

    assert covers(abstain, clarify)
    assert not covers(clarify, abstain)
