import json
import re
import subprocess
from datetime import timedelta
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from ingest.config import ConfigError
from ingest.store import Store
from rules_miner import pull_request
from rules_miner.backtest import Backtest
from rules_miner.check import check
from rules_miner.proposal import run
from rules_miner.rule import dump, fingerprint, read
from rules_miner.schema import SCHEMA
from rules_miner.settings import Settings
from tests.rules_miner.kit import NOW, stored
from tests.rules_miner.planted import TRUTH, draw

NAME = "refund-error-result-v1"
BRANCH = f"gatewatch/shop/{NAME}"
SETTINGS = Settings(key="k")


@pytest.fixture(scope="module")
def store() -> Store:
    return stored(draw(0))


def git(at: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(at), *words], capture_output=True, check=True)
    return done.stdout.decode().rstrip("\n")


def repository(at: Path, *options: str) -> Path:
    at.mkdir(parents=True, exist_ok=True)
    git(at, "init", "-q", "-b", "main", *options)
    return at


def committed(at: Path) -> Path:
    """A repository with one commit and changes that nobody committed yet."""
    repository(at)
    (at / "README").write_text("hello\n")
    (at / "staged").write_text("one\n")
    git(at, "add", "README", "staged")
    git(at, "-c", "user.name=u", "-c", "user.email=u@example.com", "commit", "-q", "-m", "first")
    (at / "README").write_text("changed\n")
    (at / "staged").write_text("two\n")
    git(at, "add", "staged")
    (at / "untracked").write_text("new\n")
    return at


def propose(store: Store, rules: Path, **more: Any) -> list[dict[str, Any]]:
    found = run(store, rules, SETTINGS, more.pop("now", NOW), propose=True, **more)
    return [each for each in found if each["state"] != "refused"]


def test_mining_alone_writes_nothing_and_says_everything(store: Store, tmp_path: Path) -> None:
    answers = run(store, tmp_path / "rules", SETTINGS, NOW)

    found, others = answers[0], answers[1:]
    assert (found["state"], found["rule_id"], found["domain"]) == ("found", NAME, "shop")
    assert found["fingerprint"] == fingerprint(TRUTH)
    assert found["backtest"]["stopped"] == found["evidence"]["k"] == 40
    assert {each["state"] for each in others} == {"refused"}
    assert all(each["reason"] for each in others)
    assert json.loads(json.dumps(answers)) == answers
    assert list(tmp_path.iterdir()) == []


def test_a_proposal_is_one_commit_on_its_own_branch(store: Store, tmp_path: Path) -> None:
    repo = committed(tmp_path / "repo")
    before = git(repo, "status", "--porcelain"), git(repo, "rev-parse", "HEAD")

    [answer] = propose(store, repo / "rules")

    assert (answer["state"], answer["branch"]) == ("proposed", BRANCH)
    assert git(repo, "log", "--format=%an <%ae> %s", f"main..{BRANCH}") == (
        "gatewatch <gatewatch@localhost> "
        "rule(shop): add refund-error-result-v1: The call before this one failed. Stop and tell the"
    )
    assert git(repo, "diff", "--name-status", "main", BRANCH).split() == [
        "A", f"rules/evidence/{NAME}.json", "A", f"rules/shop/{NAME}.yaml",
    ]  # fmt: skip
    assert (git(repo, "status", "--porcelain"), git(repo, "rev-parse", "HEAD")) == before
    assert git(repo, "symbolic-ref", "HEAD") == "refs/heads/main"
    assert (repo / "README").read_text() == "changed\n"


def test_what_is_proposed_passes_the_folders_own_check(store: Store, tmp_path: Path) -> None:
    repo = committed(tmp_path / "repo")
    propose(store, repo / "rules")

    git(repo, "worktree", "add", "-q", str(tmp_path / "look"), BRANCH)

    look = tmp_path / "look/rules"
    rule = read((look / f"shop/{NAME}.yaml").read_text(), NAME)
    jsonschema.validate(rule.doc, SCHEMA)
    assert check(look) == []
    assert (rule.rule.status, rule.doc["origin"]) == ("experimental", "mined")


def test_the_second_time_writes_nothing(store: Store, tmp_path: Path) -> None:
    repo = committed(tmp_path / "repo")
    propose(store, repo / "rules")
    before = git(repo, "for-each-ref"), git(repo, "count-objects", "-v")

    [answer] = propose(store, repo / "rules", now=NOW + timedelta(days=1))

    assert (answer["state"], answer["reason"]) == ("proposed", "proposed already")
    assert (git(repo, "for-each-ref"), git(repo, "count-objects", "-v")) == before


def test_the_same_data_gives_the_same_commit(store: Store, tmp_path: Path) -> None:
    heads = []
    for number, seed in enumerate((1, 2)):
        repo = repository(tmp_path / str(number))
        propose(stored(draw(0), seed), repo / "rules")
        heads.append(git(repo, "rev-parse", BRANCH))

    assert heads[0] == heads[1]


@pytest.mark.parametrize("options", [(), ("--bare",)], ids=["empty", "bare"])
def test_a_repository_without_a_commit_or_without_files_will_do(
    store: Store, tmp_path: Path, options: tuple[str, ...]
) -> None:
    repo = repository(tmp_path / "repo", *options)

    [answer] = propose(store, repo)

    assert answer["state"] == "proposed"
    assert f"rules/shop/{NAME}.yaml" in git(repo, "ls-tree", "-r", "--name-only", BRANCH)
    assert propose(store, repo)[0]["reason"] == "proposed already"


def test_a_merged_rule_in_a_bare_repository_is_known(store: Store, tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", "--bare")
    propose(store, repo)
    git(repo, "update-ref", "refs/heads/main", BRANCH)

    answers = run(store, repo, SETTINGS, NOW, propose=True)

    assert {each["state"] for each in answers} == {"refused"}
    assert f"covered by {NAME}, which is experimental" in {each["reason"] for each in answers}


def test_outside_a_repository_nothing_can_be_proposed(store: Store, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        propose(store, tmp_path / "rules")

    assert str(caught.value) == f"{tmp_path / 'rules'}: is not inside a git repository."


def test_a_hook_that_points_git_elsewhere_is_not_obeyed(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo, other = committed(tmp_path / "repo"), repository(tmp_path / "other")
    hook = repo / ".git/hooks/reference-transaction"
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / "index"))

    [answer] = propose(store, repo / "rules")

    monkeypatch.undo()
    assert answer["state"] == "proposed"
    assert git(other, "for-each-ref") == ""
    assert BRANCH in git(repo, "for-each-ref")


def test_a_branch_in_the_way_is_said_in_one_sentence(store: Store, tmp_path: Path) -> None:
    repo = committed(tmp_path / "repo")
    git(repo, "branch", "gatewatch")

    with pytest.raises(ConfigError, match="git made no branch gatewatch/shop/"):
        propose(store, repo / "rules")


def test_what_a_person_changed_on_the_branch_is_left_alone(store: Store, tmp_path: Path) -> None:
    repo = committed(tmp_path / "repo")
    propose(store, repo / "rules")
    look = tmp_path / "look"
    git(repo, "worktree", "add", "-q", str(look), BRANCH)
    path = look / f"rules/shop/{NAME}.yaml"
    path.write_text(path.read_text().replace('"refund_"', '"refund_item"'))
    git(look, "-c", "user.name=u", "-c", "user.email=u@example.com", "commit", "-qam", "narrower")
    before = git(repo, "for-each-ref")

    [answer] = propose(store, repo / "rules")

    assert (answer["state"], answer["branch"]) == ("proposed", BRANCH)
    assert git(repo, "for-each-ref") == before


def test_a_full_house_takes_no_more(store: Store, tmp_path: Path) -> None:
    repo = committed(tmp_path / "repo")
    for number in range(5):
        git(repo, "-c", "user.name=u", "-c", "user.email=u@example.com", "commit", "-q",
            "--allow-empty", "-m", str(number))  # fmt: skip
        git(repo, "branch", f"gatewatch/left/over{number}-v1")
    git(repo, "reset", "-q", "--soft", "HEAD~5")

    [answer] = propose(store, repo / "rules", now=NOW + timedelta(weeks=9))

    assert answer["state"] == "found"
    assert answer["reason"].startswith("not proposed yet: 5 are open")
    assert BRANCH not in git(repo, "for-each-ref")


def test_a_declined_rule_does_not_come_back(store: Store, tmp_path: Path) -> None:
    repo = committed(tmp_path / "repo")
    (repo / "rules").mkdir()
    (repo / "rules/rejected.yaml").write_text(f'- {{fingerprint: "{fingerprint(TRUTH)}"}}\n')

    answers = run(store, repo / "rules", SETTINGS, NOW, propose=True)

    assert answers[0]["state"] == "refused"
    assert "declined" in answers[0]["reason"]
    assert BRANCH not in git(repo, "for-each-ref")


def test_what_a_declined_rule_covers_does_not_come_either(store: Store, tmp_path: Path) -> None:
    rules = tmp_path / "rules"
    rules.mkdir()
    (rules / "rejected.yaml").write_text("- {then: abstain, when: {signal: error_result}}\n")

    answers = run(store, rules, SETTINGS, NOW)

    assert {each["state"] for each in answers} == {"refused"}
    assert "covered by declined-v1, which is rejected" in {each["reason"] for each in answers}


def test_a_name_that_is_taken_gets_the_next_version(store: Store, tmp_path: Path) -> None:
    rules = tmp_path / "rules/mail"
    rules.mkdir(parents=True)
    doc = {"id": NAME, "then": "abstain", "when": {"signal": "conflict", "domain": "mail"}}
    (rules / f"{NAME}.yaml").write_text(dump(doc))

    assert run(store, tmp_path / "rules", SETTINGS, NOW)[0]["rule_id"] == "refund-error-result-v2"


def test_the_pull_request_text_holds_its_figures_and_its_marker(
    store: Store, tmp_path: Path
) -> None:
    repo = committed(tmp_path / "repo")
    [answer] = propose(store, repo / "rules")

    text = Path(answer["url"]).read_text()

    assert answer["url"] == str(repo / f".git/gatewatch/{NAME}.md")
    assert "**It would have stopped 40 of 57 incidents, 40 of them stopped by no rule today" in text
    last = text.rstrip("\n").splitlines()[-1]
    assert last.startswith("<!-- gatewatch-proposal {")
    assert last.isascii()
    assert "--" not in last.removeprefix("<!-- ").removesuffix(" -->")
    known = json.loads(last.removeprefix("<!-- gatewatch-proposal ").removesuffix(" -->"))
    assert known["fp"] == answer["fingerprint"]
    assert git(repo, "rev-parse", BRANCH).startswith(known["head"])
    assert known["week"] == "2026-W49"


def test_no_text_from_a_log_reaches_the_proposal(tmp_path: Path) -> None:
    """B170: what agents wrote is in every field, and in none of what is published."""
    evil = "<!channel> @everyone #12 --> [x](https://evil.example) \x1b[31m \u202e"
    runs = draw(0)
    db = stored(runs, source=evil)
    with db.writing() as writer:
        writer.execute(
            "UPDATE events SET agent = $evil, reason = $evil, text = $evil,"
            " tool = CASE WHEN tool = 'send_note' THEN $evil ELSE tool END,"
            " error = CASE WHEN error IS NOT NULL THEN $evil END",
            {"evil": evil},
        )
    repo = committed(tmp_path / "repo")

    [answer] = propose(db, repo / "rules")

    published = Path(answer["url"]).read_text() + git(repo, "show", answer["branch"])
    trace_ids = re.findall(r"\bt-\d+-\d+", published)
    body = published.replace("gatewatch@localhost", "").replace("diff --git", "").split("\n")
    assert trace_ids == []
    assert not any(part in published for part in ("channel", "everyone", "evil", "\x1b", "\u202e"))
    assert not any("@" in line for line in body if not line.startswith("@@"))
    assert answer["domain"].startswith("d-")


def test_long_names_stay_within_what_forges_allow() -> None:
    when = {"domain": ["d" * 48], "point": "pre_call", "signals": ["conflict"]}
    doc = {"id": "a" * 40 + "-v12", "message": "m" * 200, "when": when}

    assert len(pull_request.branch(doc)) <= 104
    assert len(pull_request.title(doc)) < 200


def test_a_backtest_is_plain_data() -> None:
    assert Backtest().overlap == {}
