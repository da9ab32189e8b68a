import json
from pathlib import Path
from typing import Any

import pytest

from ingest.config import ConfigError
from rules_miner.check import check, rejected, rules, texts
from rules_miner.rule import dump, fingerprint, normalised


def rule(name: str = "late-v1", domain: str | None = "shop", **more: Any) -> dict[str, Any]:
    when = {"signal": "conflict", **({"domain": domain} if domain else {})}
    return {"id": name, "then": "abstain", "when": when, **more}


def folder(at: Path, files: dict[str, Any]) -> Path:
    for name, content in files.items():
        path = at / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else dump(content), encoding="utf-8")
    return at


def mined(**more: Any) -> dict[str, Any]:
    return rule(**{
        "schema": "stop-rule/1", "status": "shadow", "origin": "mined", "message": "No.",
        "evidence": {"ref": "evidence/late-v1.json"}, **more,
    })  # fmt: skip


def sidecar(doc: dict[str, Any], **more: Any) -> str:
    return json.dumps({"fingerprint": fingerprint(normalised(doc)), "domains": ["shop"], **more})


def test_a_sound_folder_has_no_problems(tmp_path: Path) -> None:
    files = {
        "shop/late-v1.yaml": mined(),
        "evidence/late-v1.json": sidecar(mined()),
        "_global/other-v1.yaml": {**rule("other-v1", None), "when": {"signal": "empty_result"}},
        "rejected.yaml": '- {fingerprint: "abc"}\n',
    }

    assert check(folder(tmp_path, files)) == []


def test_a_folder_that_is_not_there_holds_no_rules(tmp_path: Path) -> None:
    assert check(tmp_path / "rules") == []


def test_all_problems_are_said_at_once(tmp_path: Path) -> None:
    files = {
        "shop/late-v1.yaml": "id: late-v1\nwhen: {signl: conflict}\nthen: abort\n",
        "shop/twice-v1.yaml": "id: twice-v1\nid: twice-v1\n",
    }

    assert check(folder(tmp_path, files)) == [
        "shop/late-v1.yaml: then: 'abort' is no choice here. Known: ABSTAIN, CLARIFY, abstain,"
        " clarify.",
        "shop/late-v1.yaml: when: unknown key 'signl'. Did you mean 'signal'?",
        "shop/late-v1.yaml: when: the key 'signal' is missing.",
        "shop/twice-v1.yaml: line 2: the key 'id' is there twice.",
    ]


@pytest.mark.parametrize(
    ("path", "doc", "says"),
    [
        ("shop/early-v1.yaml", rule(), "id: 'late-v1' differs from the file name."),
        ("mail/late-v1.yaml", rule(), "must lie in shop/."),
        ("shop/late-v1.yaml", rule(domain=None), "must lie in _global/."),
        (
            "shop/late-v1.yaml",
            {**rule(), "when": {"signal": "conflct", "domain": "shop"}},
            "when.signals: no signal called 'conflct'. Did you mean 'conflict'?",
        ),
        (
            "shop/late-v1.yaml",
            {**rule(), "when": {"signal": "refusal_text_then_commit", "domain": "shop"}},
            "when.signals: 'refusal_text_then_commit' is known only after the fact.",
        ),
        (
            "shop/late-v1.yaml",
            rule(message="see #12"),
            "message: may hold no address, no link and no issue number.",
        ),
        (
            "shop/late-v1.yaml",
            rule(message="see https://x.example"),
            "message: may hold no address, no link and no issue number.",
        ),
        ("shop/late-v1.yaml", mined(), "evidence.ref: evidence/late-v1.json does not exist."),
    ],
)
def test_what_the_schema_cannot_say_is_checked_too(
    tmp_path: Path, path: str, doc: dict[str, Any], says: str
) -> None:
    assert check(folder(tmp_path, {path: doc})) == [f"{path}: {says}"]


def test_evidence_must_be_about_this_very_rule(tmp_path: Path) -> None:
    files = {"shop/late-v1.yaml": mined(), "evidence/late-v1.json": '{"fingerprint": "0"}'}

    [says] = check(folder(tmp_path, files))

    assert says.endswith("evidence/late-v1.json is not about this rule: its fingerprint differs.")


def test_a_mined_rule_for_every_domain_needs_two_of_them(tmp_path: Path) -> None:
    doc = mined(domain=None)
    files = {"_global/late-v1.yaml": doc, "evidence/late-v1.json": sidecar(doc)}

    [says] = check(folder(tmp_path, files))

    assert "fewer than two domains" in says


def test_rules_side_by_side_are_held_against_each_other(tmp_path: Path) -> None:
    files = {
        "shop/a-v1.yaml": rule("a-v1"),
        "shop/b-v1.yaml": rule("b-v1"),
        "shop/c-v1.yaml": {**rule("c-v1"), "then": "clarify"},
    }

    assert check(folder(tmp_path, files)) == [
        "shop/b-v1.yaml: is the same rule as shop/a-v1.yaml.",
        "warning: shop/c-v1.yaml: is covered by shop/a-v1.yaml.",
    ]


def test_who_only_reads_stops_at_the_first_wrong_file(tmp_path: Path) -> None:
    files = texts(folder(tmp_path, {"shop/late-v1.yaml": "id: [\n"}))

    with pytest.raises(ConfigError, match=r"^rules/shop/late-v1\.yaml: not YAML: "):
        rules(files, "rules")


def test_what_people_declined_is_a_list_of_fingerprints() -> None:
    assert rejected({"rejected.yaml": '- {fingerprint: "abc", number: 7}\n'}, "rules") == ["abc"]
    assert rejected({}, "rules") == []
    with pytest.raises(ConfigError, match="must be a list of entries"):
        rejected({"rejected.yaml": "abc"}, "rules")
