"""Protocols as users write them, from TOML and from classes of the real Concordat."""

import re
from pathlib import Path

import pytest
from concordat import Agent, human, tool
from concordat.protocol import Protocol as Theirs

from detectors.controls.protocol import Human, Protocol
from detectors.controls.protocol_files import decode, load
from ingest.config import ConfigError
from tests.kit import ROOT

REFUNDS = """
agents = ["Refunds", "refund-*"]
initial = "start"
final = ["done", "refused"]
ignore = ["think"]

[transitions.start]
lookup = "verified"

[transitions.verified]
approve = ["approved", "refused"]

[transitions.approved]
refund = "done"

[human]
approve = { approve = "approved", reject = "refused" }
"""
HERE = __name__


class Till(Agent):
    final = ("paid", "kept")

    @tool(when="start", then="checked")
    def look(self) -> None: ...

    @human(when="checked", approve="paid", reject="kept")
    def agree(self) -> str:
        return "12 USD"


class Draft(Agent):
    """Abstract: it has no final state."""

    @tool(when="start", then="done")
    def look(self) -> None: ...


BARE = Theirs("start", {"start": {"look": ["done"]}}, ["done"])


def folder(path: Path, **files: str) -> Path:
    for name, text in files.items():
        (path / f"{name}.toml").write_text(text, encoding="utf-8")
    return path


def test_a_file_is_a_protocol(tmp_path: Path) -> None:
    [found] = load(folder(tmp_path, refunds=REFUNDS)).all

    assert found == Protocol(
        "refunds",
        "start",
        ("done", "refused"),
        {
            "start": {"lookup": ("verified",)},
            "verified": {"approve": ("approved", "refused")},
            "approved": {"refund": ("done",)},
        },
        {"approve": Human("approved", "refused")},
        ("Refunds", "refund-*"),
        ("think",),
    )


def test_a_class_of_concordat_is_a_protocol(tmp_path: Path) -> None:
    [found] = load(folder(tmp_path, till=f'concordat = "{HERE}:Till"\nrun = "session"')).all

    assert found == Protocol(
        "till",
        "start",
        ("kept", "paid"),
        {"checked": {"agree": ("kept", "paid")}, "start": {"look": ("checked",)}},
        {"agree": Human("paid", "kept")},
        ("Till",),
        (),
        "session",
    )


def test_a_protocol_object_is_one_too(tmp_path: Path) -> None:
    [found] = load(folder(tmp_path, bare=f'concordat = "{HERE}:BARE"\nagents = ["b"]')).all

    assert (found.agents, found.final, found.human) == (("b",), ("done",), {})


def test_the_document_says_it_all_and_its_version_follows_the_content(tmp_path: Path) -> None:
    first = load(folder(tmp_path, refunds=REFUNDS))
    again = load(folder(tmp_path, refunds=f"# a comment\n{REFUNDS}"))
    other = load(folder(tmp_path, refunds=REFUNDS.replace('"think"', '"muse"')))

    assert decode(first.doc) == list(first.all)
    assert again.version == first.version
    assert other.version != first.version


def test_a_folder_without_files_is_no_protocol_at_all(tmp_path: Path) -> None:
    assert load(tmp_path).all == ()


CHILD = REFUNDS.replace('refund = "done"', 'weigh = "weighed"') + (
    '[transitions.weighed]\nrefund = "done"\n'
)


def test_a_child_that_keeps_its_parents_ways_is_taken(tmp_path: Path) -> None:
    found = load(folder(tmp_path, refunds=REFUNDS, weighed=f'parent = "refunds"\n{CHILD}'))

    assert [each.name for each in found.all] == ["refunds", "weighed"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("final = [", "not TOML: "),
        ("finale = 1", "unknown key 'finale'. Did you mean 'final'?"),
        (REFUNDS.replace('initial = "start"', ""), "initial is missing: write it, or `concordat`."),
        (REFUNDS.replace('refund = "done"', "refund = 1"), "Expected `str | array`, got `int`"),
        (REFUNDS.replace('["done", "refused"]', '["done"]'), "from 'refused' no run comes to"),
        (f'run = "day"\n{REFUNDS}', "Invalid enum value 'day'"),
        (f'parent = "refund"\n{REFUNDS}', "parent: 'refund'. Did you mean 'refunds'?"),
        (
            f'parent = "till"\n{REFUNDS}',
            "it can't stand for 'till': it ends in 'done', where till does not.",
        ),
        (f'concordat = "{HERE}:Till"\ninitial = "start"', "initial: the class says it."),
        ('concordat = "no_such_module:A"', "No module named 'no_such_module'"),
        (f'concordat = "{HERE}:Tills"', "has no attribute 'Tills'"),
        (f'concordat = "{HERE}:Draft"', "is no Protocol, and no Agent with final states."),
        (f'concordat = "{HERE}"', "concordat: "),
    ],
)
def test_a_mistake_names_the_file_and_what_was_found(
    tmp_path: Path, text: str, problem: str
) -> None:
    till = f'concordat = "{HERE}:Till"'

    with pytest.raises(ConfigError) as raised:
        load(folder(tmp_path, refunds=text, till=till))

    assert str(raised.value).startswith(f"{tmp_path / 'refunds.toml'}: ")
    assert problem in str(raised.value)


def test_the_protocol_of_the_book_is_one(tmp_path: Path) -> None:
    book = (ROOT / "docs/controls.md").read_text(encoding="utf-8")
    [text] = [each for each in re.findall("```text\n(.*?)```", book, re.S) if "[human]" in each]

    [found] = load(folder(tmp_path, refunds=text)).all

    assert found.agents == ("Refunds", "refund-bot-*")
    assert found.human == {"approve_refund": Human("approved", "refused")}


def test_a_missing_folder_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such folder of protocols"):
        load(tmp_path / "protocols")
