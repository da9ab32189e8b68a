"""The words of the pages behind signed links, and the one frame that holds them.

Reads: nothing. Writes: nothing. Next: gatewatch/link_pages.py.
"""

from collections.abc import Iterable
from html import escape

from starlette.responses import HTMLResponse, Response

from detectors.receivers import Language

NAME = 80  # characters of the name that a person may give
SAFE = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; form-action 'self';"
    " frame-ancestors 'none'; base-uri 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Robots-Tag": "noindex, nofollow",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
STYLE = (
    ":root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;max-width:38rem;"
    "margin:3rem auto;padding:0 1rem}h1{font-size:1.3rem}dl{display:grid;gap:.3rem 1rem;"
    "grid-template-columns:max-content 1fr}dt{opacity:.65}dd{margin:0;overflow-wrap:anywhere;"
    "unicode-bidi:isolate}input{font:inherit;padding:.4rem;width:100%;box-sizing:border-box;"
    "max-width:20rem}button{font:inherit;padding:.5rem 1.2rem;margin-top:1rem;border:0;"
    "border-radius:6px;background:#b3001b;color:#fff;cursor:pointer}"
)
WORDS: dict[Language, dict[str, str]] = {
    "en": {
        "ack": "Acknowledge this alert",
        "pause": "Pause this agent",
        "who": "Your name, for the log (optional)",
        "Alert": "Alert",
        "What": "What",
        "Severity": "Severity",
        "State": "State",
        "Since": "Since",
        "Until": "Until",
        "Pause": "Pause",
        "Asked": "Asked is",
        "By": "By",
        "agent": "agent",
        "trace": "trace",
        "much": "That was too much",
        "nothing": "Nothing was done.",
        "crowd": "Too many links that are not ours",
        "often": "This link was opened too often",
        "wait": "Wait a minute.",
        "forged": "This link is not ours",
        "changed": "It was changed, or made with another key. Nothing was done.",
        "over": "This link is over",
        "instead": "Nothing was done. Open the alert on the dashboard instead.",
        "nobody": "Nobody can be paused from here",
        "already": "It is acknowledged already",
        "acked": "Acknowledged",
        "used": "This link has been used",
        "once": "A link pauses once. What became of it stands on the alert's page.",
        "not": "Not paused",
        "ordered": "The pause is ordered",
        "answer": "The gate's answer stands on the alert's page. If no gate confirms it within a"
        " minute, everybody who is told of such alerts is told.",
        "gone": "There is no such alert any more",
    },
    "zh": {
        "ack": "确认此告警",
        "pause": "暂停此智能体",
        "who": "您的姓名，用于记录（可选）",
        "Alert": "告警",
        "What": "内容",
        "Severity": "级别",
        "State": "状态",
        "Since": "开始",
        "Until": "截止",
        "Pause": "暂停",
        "Asked": "将请求",
        "By": "操作人",
        "agent": "智能体",
        "trace": "调用链",
        "much": "内容过大",
        "nothing": "未执行任何操作。",
        "crowd": "无效链接过多",
        "often": "此链接打开过于频繁",
        "wait": "请稍候一分钟。",
        "forged": "此链接无效",
        "changed": "链接被改动，或由其他密钥签发。未执行任何操作。",
        "over": "此链接已过期",
        "instead": "未执行任何操作。请在面板中打开该告警。",
        "nobody": "无法从此处暂停",
        "already": "该告警已被确认",
        "acked": "已确认",
        "used": "此链接已使用过",
        "once": "每个链接只能暂停一次。结果见告警页面。",
        "not": "未暂停",
        "ordered": "已发出暂停请求",
        "answer": "网关的应答见告警页面。若一分钟内没有网关确认，将通知所有接收此类告警的人。",
        "gone": "该告警已不存在",
    },
}
Facts = Iterable[tuple[str, str]]  # word and text


def page(
    language: Language, status: int, title: str, facts: Facts = (), more: str = "", form: str = ""
) -> Response:
    """One page. `title` and `form` (the button's) are words, `more` a word or a sentence of ours;
    every text is escaped."""
    words = WORDS[language]
    rows = "".join(
        f"<dt>{escape(words[name])}</dt><dd>{escape(value)}</dd>" for name, value in facts
    )
    below = f"<p>{escape(words.get(more, more))}</p>" if more else ""
    button = _form(words["who"], words[form]) if form else ""
    html = (
        f'<!doctype html><html lang="{language}"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width"><meta name="robots" content="noindex">'
        f"<title>{escape(words[title])} · gatewatch</title><style>{STYLE}</style></head><body>"
        f"<h1>{escape(words[title])}</h1><dl>{rows}</dl>{below}{button}</body></html>"
    )
    return HTMLResponse(html, status, headers=SAFE)


def _form(who: str, word: str) -> str:
    return (
        f'<form method="post"><label>{escape(who)}<br>'
        f'<input name="name" maxlength="{NAME}" autocomplete="name"></label><br>'
        f"<button>{escape(word)}</button></form>"
    )
