"""What people see of a message, whichever receiver it comes by: all that they need, however long
its parts are, and nothing of what a log wanted it to do. A new module is covered on arrival."""

import json
import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import httpx
import msgspec
import pytest

from detectors import receivers
from detectors.receivers import Delivered, Handed, Mail, Message
from tests import fakes
from tests.kit_receivers import CONTROL, MESSAGE, PROGRAMS, ROOT, TAG

every = pytest.mark.parametrize("name", receivers.names())
TERSE = {"apprise": "knows title and body alone: links are a text in it"}
CAPS = {  # bytes of what goes on the wire, ours: delivery.md 4.1; other units in a receiver's test
    "dingtalk": 18_000, "feishu": 18_000, "webhook": 20_000, "teams": 20_000,
    "google_chat": 28_000, "email": 100_000, "pagerduty": 480_000,
}  # fmt: skip
FAMILY, FLAG = "👨‍👩‍👧‍👦", "🇨🇳"  # 7 and 2 code points that are one character each
SPELLINGS = [
    "<!channel> <!here> <!everyone>", "<@U123> <@&99> <!subteam^S1>", "@everyone @here @channel",
    '<at user_id="all"></at>', "<at id=all></at> <at>Team</at>", "<@all> @all @13800000000",
    "<users/all> <users/123>", "@[Team](mention:1) @a.b @soc_bot", "＠all ﹫all @\u200dall",
    "&lt;!channel&gt; &#64;all &#x40;all", "\\<!channel> \\@all \\\\@all", "@@all @/all @+all",
]  # fmt: skip
ESCAPES = [
    "**EVIL** __EVIL__ ~~EVIL~~", "*EVIL* _EVIL_ ~EVIL~", "[EVIL](https://evil.example/x)",
    "![EVIL](https://evil.example/p.png)", "x <https://evil.example/x|EVIL>", "https://evil.example",
    '<a href="https://evil.example">EVIL</a>', "<b>EVIL</b><script>EVIL</script>",
    "x\n# EVIL\ny", "x\r\nEVIL\r\ny", "x\n\n> EVIL\n\ny", "# EVIL", "```\nEVIL\n```", "`EVIL`",
    "``` EVIL", "x \x1b[31mEVIL\x1b[0m", "x \x1b]8;;https://evil.example\x07EVIL\x1b]8;;\x07",
    "\u202eLIVE", "\u2066LIVE\u2069", "a\u2028EVIL\u2029b", "a\0EVIL\x7f\x85b", "{{DATE(EVIL)}}",
    "| EVIL | EVIL |\n|---|---|", "<font color=red>EVIL</font>", "</at>]]></script>--><b>EVIL</b>",
    "\r\nBcc: evil@evil.example\r\n\r\nEVIL", '","text":"EVIL","x":"', "\\[EVIL](https://evil.example)",
    "/EVIL #EVIL $EVIL", "\\", "\\\\", "*", "`", "[", "(", "<", "\ud83d EVIL",
]  # fmt: skip


def in_every_field(text: str) -> Message:
    """A message with one text wherever text from a log may stand."""
    return replace(
        MESSAGE,
        title=text,
        subject=text,
        tenant=text,
        facts=((text, text),) * 6,
        params=((text, text),) * 3,
        evidence=(text,) * 3,
        respond=text,
    )


def seen(name: str, message: Message) -> tuple[fakes.Seen, Any]:
    """The one message that people see, and the request that brought it."""
    fake = fakes.load(name)
    outcome = fakes.tell(fake, name, message)
    assert isinstance(outcome, Delivered), (outcome, fake.refused)
    assert fake.refused == [], "it was taken only after it had been shortened"
    [found] = fake.accepted
    return found, fake.requests[-1]


def wire(request: Any) -> bytes:
    """What goes on the wire."""
    match request:
        case httpx.Request() | Mail():
            content: bytes = request.content
            return content
        case Handed():
            return f"{request.title}\n{request.body}".encode()
    raise AssertionError(request)


@every
def test_a_reader_sees_what_they_need_to_judge(name: str) -> None:
    message = replace(
        MESSAGE,
        title="a1: crm.export_contacts denied 3 times",
        evidence=("09:14 crm.export_contacts export_all=true deny",),
        events=40,
        at_local="2026-03-10 17:03:00 +08:00",
        params=(("filter.region", "EU"),),
        tenant="acme",
        buttons=(("trace", "https://gatewatch.example/trace?trace=t-1"),
                 ("ack", "https://gatewatch.example/a/ack?s=FAKE")),
    )  # fmt: skip

    shown, _ = seen(name, message)

    text = shown.text.replace("\u200b", "")
    needed = [
        message.alert, message.detector, message.title, "high", "acme", "09:03:00", "export_all",
        "filter.region", "EU", "40", "Open the trace.", *(value for _, value in message.facts[:4]),
    ]  # fmt: skip
    assert [each for each in needed if each not in text and each.upper() not in text] == []
    assert "17:03:00" in text or name in PROGRAMS
    where = " ".join(shown.links) if name not in TERSE else text
    assert [url for url in (message.link, *(url for _, url in message.buttons))
            if url not in where and url not in text] == []  # fmt: skip


@every
@pytest.mark.parametrize("text", SPELLINGS)
def test_no_spelling_of_a_mention_calls_anybody(name: str, text: str) -> None:
    shown, _ = seen(name, in_every_field(text))

    assert shown.pinged == ()


@every
def test_case_b170_no_mention_in_any_part_is_active(name: str) -> None:
    lines = (ROOT.parent / "shared/cases/fixtures/B170-mentions.jsonl").read_text().splitlines()
    for line in lines:
        found = json.loads(line)
        for text in (found["tool"], found["reason"], f"{found['tool']} {found['reason']}"):
            assert seen(name, in_every_field(text))[0].pinged == ()


@every
@pytest.mark.parametrize("text", ESCAPES)
def test_no_text_of_a_log_breaks_out_of_its_place(name: str, text: str) -> None:
    shown, _ = seen(name, in_every_field(text))

    assert shown.pinged == ()
    foreign = [url for url in shown.links if not url.startswith("https://gatewatch.example/")]
    assert foreign == [] or name in PROGRAMS
    drawn = [mark for mark in shown.marks if mark.strip() == "EVIL" or TAG.fullmatch(mark)]
    assert drawn == [] or name in PROGRAMS
    assert CONTROL.findall(shown.text) == []
    if "\n" in text.strip():  # what a log put on a line of its own stays inside a line
        lines = [line.strip("\u200b >#") for line in shown.text.splitlines()]
        assert "EVIL" not in lines
    needed = (MESSAGE.alert, MESSAGE.detector, MESSAGE.link)
    assert [each for each in needed if each not in f"{shown.text} {shown.links}"] == []


@every
@pytest.mark.parametrize(
    "text",
    ["案" * 6_000, "x" * 1_000_000, FAMILY * 1_500, FLAG * 3_000, '"\\\n' * 4_000, "*_[`<@|" * 900],
)
def test_no_length_of_any_part_breaks_a_limit_or_loses_what_a_person_needs(
    name: str, text: str
) -> None:
    times = 3 if len(text) > 100_000 else 20
    many = tuple((f"{i}{text}", text) for i in range(times))
    long = replace(in_every_field(text), facts=many, params=many, evidence=(text,) * times)

    shown, request = seen(name, long)

    assert len(wire(request)) <= CAPS.get(name, 40_000)
    found = f"{shown.text} {' '.join(shown.links)}"
    assert [part for part in (long.link, long.alert, long.detector) if part not in found] == []
    assert long.severity in shown.text.lower()
    assert not [half for half in ("👨‍…", "👧‍…", "‍…", "\ufffd") if half in shown.text]
    assert all(shown.text[at - 1] != "🇨" for at in range(1, len(shown.text))
               if shown.text[at] == "…")  # fmt: skip


@every
def test_case_b120_no_limit_cuts_a_character(name: str) -> None:
    found = json.loads(
        (ROOT.parent / "shared/cases/fixtures/B120-cut-mid-char.trunc.json").read_text()
    )
    for text in found["texts"]:
        shown, request = seen(name, replace(in_every_field(text), evidence=(text,) * 30))
        wire(request).decode("utf-8")
        assert "\ufffd" not in shown.text
        assert not re.search("[\u200d\U0001f1e6-\U0001f1ff](?:…|$)", shown.text.replace("🇩🇪", ""))


@every
def test_twenty_thousand_lines_are_cut_and_the_message_says_so(name: str) -> None:
    message = replace(MESSAGE, evidence=MESSAGE.evidence * 4)

    text = seen(name, message)[0].text

    assert "20000" in text or "20003" in text  # lines in all, whatever was shown of them
    assert "rule-17" in text


@every
def test_the_same_alert_gives_the_same_bytes(name: str) -> None:
    assert len({wire(seen(name, MESSAGE)[1]) for _ in range(5)}) == 1


@every
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"repeat": True}, "(repeat, al_7f3a)"),
        ({"late": True}, "(detected at 2026-03-10T09:03:00Z, delayed)"),
        ({"kind": "worse"}, "Got worse"),
        ({"kind": "reminder"}, "Still open"),
        ({"kind": "escalated"}, "escalated"),
        ({"kind": "storm"}, "Alert storm"),
        ({"kind": "resolved"}, "Resolved"),
        ({"kind": "withdrawn"}, "Withdrawn"),
        ({"kind": "resolved", "brief": True}, "Fired and resolved"),
        ({"language": "zh"}, "新告警"),
        ({"language": "zh", "kind": "resolved"}, "已恢复"),
    ],
)
def test_what_a_reader_must_know_is_said(name: str, change: dict[str, object], words: str) -> None:
    message = msgspec.convert({**msgspec.to_builtins(MESSAGE), **change}, Message)

    shown, request = seen(name, message)

    assert words in shown.text or name in PROGRAMS
    if name == "webhook":
        data = json.loads(wire(request))["data"]
        assert all(data[key] == value for key, value in change.items() if key != "language")


@every
def test_the_end_of_an_alert_goes_where_its_beginning_went(name: str) -> None:
    fake = fakes.load(name)
    begun = fakes.tell(fake, name)
    assert isinstance(begun, Delivered)
    fake.now += timedelta(minutes=1)

    fakes.tell(fake, name, replace(MESSAGE, kind="resolved", reply_to=begun.handle))

    http = [each.url for each in fake.requests if isinstance(each, httpx.Request)]
    assert len({(url.host, url.path) for url in http}) <= 1
    if begun.handle:
        assert fake.accepted[-1].reply_to == fake.accepted[0].handle
    assert MESSAGE.alert in fake.accepted[-1].text
