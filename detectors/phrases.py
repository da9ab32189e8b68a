"""The fixed words of a message, in every language, and the parts that each receiver lays out.

Reads: nothing. Writes: nothing. Next: detectors/receivers/__init__.py.
"""

from collections.abc import Callable
from dataclasses import dataclass

from detectors.receivers import OVER, Language, Message
from detectors.shorten import cut, plain

SURE = 4  # facts that no cut takes
TITLE, NAME, FACT, RESPOND, LINE = 200, 40, 160, 600, 500  # code points of one part
LINES = 200  # of evidence that are looked at: no service has room for more
WORDS: dict[Language, dict[str, str]] = {
    "en": {
        "open": "Opened",
        "worse": "Got worse",
        "reminder": "Still open",
        "escalated": "Nobody has it: escalated",
        "unsilenced": "Silence over, still open",
        "acknowledged": "Acknowledged",
        "flapping": "Comes and goes",
        "storm": "Alert storm",
        "calm": "Storm over",
        "daily": "Daily digest",
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
        "samples": "Samples ({shown} of {all} events)",
        "open_link": "Open {alert}",
        "trace": "Trace",
        "ack": "Acknowledge",
        "pause": "Pause the agent",
        ":": ": ",
    },
    "zh": {
        "open": "新告警",
        "worse": "级别升高",
        "reminder": "仍未恢复",
        "escalated": "无人响应，已升级",
        "unsilenced": "静默结束，仍未恢复",
        "acknowledged": "已确认",
        "flapping": "反复触发",
        "storm": "告警风暴",
        "calm": "风暴已平息",
        "daily": "每日汇总",
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
        "samples": "样本事件（共 {all} 条，显示 {shown} 条）",
        "open_link": "查看 {alert}",
        "trace": "调用链",
        "ack": "确认告警",
        "pause": "暂停智能体",
        ":": "：",
    },
}


COLORS = {"critical": "#b3001b", "high": "#d9480f", "medium": "#b58900", "low": "#4a6fa5"}
OVER_COLOR = "#2b8a3e"  # nothing is wrong any more
DOTS = {"critical": "🔴", "high": "🟠", "medium": "🟡", "low": "🔵"}
OVER_DOT = "🟢"


@dataclass(frozen=True)
class Parts:
    """A message as a receiver lays it out, cut to sane lengths, each log text made `safe`.

    `state` (severity and what happened), `when`, the links and the labels are ours and plain;
    `lines` are what a cut may take, from the last: facts beyond the first four, parameters, advice,
    sample events.
    """

    state: str
    notes: str
    when: str  # in UTC, and on the clock of the people on duty
    over: bool
    color: str  # #rrggbb, by severity
    dot: str  # the same as one character, for a service that has no colours
    title: str
    about: str
    facts: tuple[tuple[str, str], ...]
    lines: tuple[str, ...]
    total: int  # lines there are, looked at or not
    open_link: str
    buttons: tuple[tuple[str, str], ...]  # label and URL of the links beside the main one
    rest: Callable[[int, int], str]  # the line that ends a cut list: shown, total


def parts(message: Message, safe: Callable[[str], str]) -> Parts:
    """Word a message for people. `safe` escapes text from logs for the service."""
    words = WORDS[message.language]

    def short(text: str, room: int) -> str:
        return safe(cut(plain(text), room))

    facts = tuple((short(name, NAME), short(value, FACT)) for name, value in message.facts)
    more = [
        *facts[SURE:],
        *((short(name, NAME), short(value, FACT)) for name, value in message.params),
    ]
    lines = [f"{name}{words[':']}{value}" if value else name for name, value in more]
    if message.respond:
        lines.append(words["respond"].format(text=short(message.respond, RESPOND)))
    if message.events > len(message.evidence):
        lines.append(words["samples"].format(shown=len(message.evidence), all=message.events))
    total = len(lines) + len(message.evidence)
    lines += [short(line, LINE) for line in message.evidence[:LINES]]
    over = message.kind in OVER
    about = " · ".join(filter(None, (message.detector, message.tenant, message.subject)))
    return Parts(
        state=f"{words.get(message.severity, message.severity)} · {happened(message)}",
        notes=notes(message),
        when=f"{message.at} ({message.at_local})" if message.at_local else message.at,
        over=over,
        color=OVER_COLOR if over else COLORS.get(message.severity, COLORS["critical"]),
        dot=OVER_DOT if over else DOTS.get(message.severity, DOTS["critical"]),
        title=short(message.title, TITLE),
        about=short(about, TITLE),
        facts=facts[:SURE],
        lines=tuple(lines),
        total=total,
        open_link=words["open_link"].format(alert=message.alert),
        buttons=tuple((words.get(word, word), url) for word, url in message.buttons),
        rest=lambda shown, total: words["rest"].format(shown=shown, all=total, link=message.link),
    )


def happened(message: Message) -> str:
    """What became of the alert, in a word or two."""
    return WORDS[message.language]["brief" if message.brief else message.kind]


def notes(message: Message) -> str:
    """What a reader must know about the telling itself: `(repeat, al_7f3a)`, `(delayed …)`."""
    words, said = WORDS[message.language], []
    if message.repeat:
        said.append(f"({words['repeat']}, {message.alert})")
    if message.late:
        said.append(f"({words['late'].format(at=message.at)})")
    return " ".join(said)
