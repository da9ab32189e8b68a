"""The fixed words of a message, in every language, and the parts that each receiver lays out.

Reads: nothing. Writes: nothing. Next: detectors/receivers/__init__.py.
"""

from collections.abc import Callable
from dataclasses import dataclass

from detectors.receivers import Language, Message
from detectors.shorten import cut, plain

SURE = 4  # facts that no cut takes
TITLE, NAME, FACT, RESPOND, LINE = 200, 40, 160, 600, 500  # code points of one part
LINES = 200  # of evidence that are looked at: no service has room for more
WORDS: dict[Language, dict[str, str]] = {
    "en": {
        "open": "Opened",
        "worse": "Got worse",
        "reminder": "Still open",
        "resolved": "Resolved",
        "withdrawn": "Withdrawn",
        "digest": "Several alerts",
        "digest_name": "{count} alerts",
        "digest_title": "{count} alerts in one message: the service limits how many it takes",
        "brief": "Fired and resolved",
        "repeat": "repeat",
        "late": "detected at {at}, delayed",
        "low": "LOW",
        "medium": "MEDIUM",
        "high": "HIGH",
        "critical": "CRITICAL",
        "respond": "What to do: {text}",
        "rest": "{shown} of {all} lines shown, shortened; full record: {link}",
        "open_link": "Open {alert}",
        ":": ": ",
    },
    "zh": {
        "open": "新告警",
        "worse": "级别升高",
        "reminder": "仍未恢复",
        "resolved": "已恢复",
        "withdrawn": "已撤回",
        "digest": "多条告警",
        "digest_name": "{count} 条告警",
        "digest_title": "{count} 条告警合并为一条消息：该渠道限制了发送频率",
        "brief": "触发后已恢复",
        "repeat": "重复",
        "late": "发现于 {at}，延迟送达",
        "low": "低",
        "medium": "中",
        "high": "高",
        "critical": "严重",
        "respond": "处置：{text}",
        "rest": "共 {all} 行，显示 {shown} 行；完整记录：{link}",
        "open_link": "查看 {alert}",
        ":": "：",
    },
}


@dataclass(frozen=True)
class Parts:
    """A message as a receiver lays it out, cut to sane lengths, each log text made `safe`.

    `state` (severity and what happened), `alert`, `link` and the labels are ours and plain;
    `lines` are what a cut may take, from the last: facts beyond the first four, advice, evidence.
    """

    state: str
    notes: str
    title: str
    about: str
    facts: tuple[tuple[str, str], ...]
    lines: tuple[str, ...]
    total: int  # lines there are, looked at or not
    open_link: str
    rest: Callable[[int, int], str]  # the line that ends a cut list: shown, total


def parts(message: Message, safe: Callable[[str], str]) -> Parts:
    """Word a message for people. `safe` escapes text from logs for the service."""
    words = WORDS[message.language]

    def short(text: str, room: int) -> str:
        return safe(cut(plain(text), room))

    facts = tuple((short(name, NAME), short(value, FACT)) for name, value in message.facts)
    lines = [f"{name}{words[':']}{value}" for name, value in facts[SURE:]]
    if message.respond:
        lines.append(words["respond"].format(text=short(message.respond, RESPOND)))
    total = len(lines) + len(message.evidence)
    lines += [short(line, LINE) for line in message.evidence[:LINES]]
    happened = words["brief" if message.brief else message.kind]
    return Parts(
        state=f"{words.get(message.severity, message.severity)} · {happened}",
        notes=notes(message),
        title=short(message.title, TITLE),
        about=short(f"{message.detector} · {message.subject}", TITLE),
        facts=facts[:SURE],
        lines=tuple(lines),
        total=total,
        open_link=words["open_link"].format(alert=message.alert),
        rest=lambda shown, total: words["rest"].format(shown=shown, all=total, link=message.link),
    )


def notes(message: Message) -> str:
    """What a reader must know about the telling itself: `(repeat, al_7f3a)`, `(delayed …)`."""
    words, said = WORDS[message.language], []
    if message.repeat:
        said.append(f"({words['repeat']}, {message.alert})")
    if message.late:
        said.append(f"({words['late'].format(at=message.at)})")
    return " ".join(said)
