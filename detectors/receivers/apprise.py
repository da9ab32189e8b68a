"""The library Apprise, for services that have no receiver here: https://appriseit.com/services/.

Its yes or no is all that it tells, and its yes means little: version 2.3.0 says yes when DingTalk
answers 310000 and when WeCom answers 45009. So a message is accepted, never delivered, and what has
a receiver of its own here is refused.
"""

import importlib.util
import re
from datetime import datetime
from typing import Literal

import httpx
import msgspec

from detectors.phrases import parts
from detectors.receivers import (
    Delivered,
    Flow,
    Handed,
    Label,
    Manners,
    Message,
    Outcome,
    Passed,
    Refused,
    Retry,
)
from detectors.shorten import cut, fit
from ingest.config import Secret

EXAMPLE = """
[receivers.phone]
type = "apprise"
url  = "ntfys://FAKE0001user:FAKE0001EXAMPLE@ntfy.corp.example/gatewatch"
"""
YES = (200, "")
# Whatever service it is: slower than most ask, and no more in a digest than ROOM holds.
MANNERS = Manners(limits=((10, 60.0),), total=25.0, bundle=8)

TITLE = 250  # code points: all that Pushover takes
ROOM = 3_900  # bytes: ntfy makes a file of more than 4 096; what takes less is sent it in parts
ABOUT, NAME, VALUE = 100, 24, 80  # code points: a third of ROOM at most for four facts
OURS = {  # what the library calls a service -> our receiver, which reads the service's own answer
    "dingtalk": "dingtalk", "wecombot": "wecom", "wechat": "wecom", "feishu": "feishu",
    "lark": "feishu", "slack": "slack", "workflow": "teams", "workflows": "teams",
    "msteams": "teams", "discord": "discord", "tgram": "telegram", "mmost": "mattermost",
    "mmosts": "mattermost", "pagerduty": "pagerduty", "gchat": "google_chat", "mailto": "email",
    "mailtos": "email", "json": "webhook", "jsons": "webhook", "xml": "webhook",
    "xmls": "webhook", "form": "webhook", "forms": "webhook",
}  # fmt: skip
URL = re.compile(r"([A-Za-z0-9]{2,20})://(?:[^/?#]*@)?(\[[^\]/]+\]|[^/?#:@]*)")
TONES: dict[str, Literal["failure", "warning", "info"]] = {
    "critical": "failure",
    "high": "failure",
    "medium": "warning",
    "low": "info",
}
NEVER: dict[int, Label] = {401: "authError", 403: "authError"}
BREAKS = re.compile(  # what some service, somewhere, reads as markup; not the _ inside of a name
    r"[<@&\[\]`*~|\\]|://|(?<![^\W_])_|_(?![^\W_])"
)


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`url` is one of the library's own. Several services: several receivers, each with its own
    retries, dead letters and metrics."""

    url: Secret

    def __post_init__(self) -> None:
        if importlib.util.find_spec("apprise") is None:
            raise ValueError("needs a library: pip install 'gatewatch[apprise]'")
        found = URL.match(self.url.reveal)
        if not found or found[1].lower() in ("http", "https"):
            raise ValueError("`url` is one that Apprise knows, such as ntfys://host/topic")
        if ours := OURS.get(found[1].lower()):
            raise ValueError(
                f"`url` begins with {found[1].lower()}://: use type = {ours!r}, which reads what"
                " the service answers"
            )
        words = httpx.QueryParams(self.url.reveal.partition("?")[2]).multi_items()
        if any(key.strip().lower() == "verify" and value.lower() != "yes" for key, value in words):
            raise ValueError("`url` turns the check of certificates off: use ca_file instead")

    @property
    def address(self) -> str:
        """Where the URL seems to lead. What the library connects to is judged when it does."""
        found = URL.match(self.url.reveal)
        return f"apprise://{found[2] if found else ''}"


def deliver(message: Message, options: Options, now: datetime) -> Flow:
    said = parts(message, _safe)
    links = [f"{label}: {url}" for label, url in [(said.open_link, message.link), *said.buttons]]
    state = f"{said.state} · {message.alert} {said.notes}".rstrip()
    head = [state, cut(said.about, ABOUT), said.when, *links]
    head += [f"{cut(name, NAME)}: {cut(value, VALUE)}" for name, value in said.facts]
    lines = [f"- {line}" for line in said.lines]
    room = ROOM - sum(map(_size, head))
    body = "\n".join([*head, *fit(lines, said.total, room, _size, said.rest)])
    tone = "success" if said.over else TONES.get(message.severity, "failure")
    title = cut(f"{said.state} · {said.title}", TITLE)
    return _read((yield Handed(options.url, title, body, tone)))


def _read(answer: Passed) -> Outcome:
    if answer.taken:
        return Delivered(accepted=True)
    if answer.why:
        return Refused(answer.why, "other", "address")
    status = answer.status
    reason = f"Apprise says no: HTTP {status}" if status else "Apprise says no, and not why"
    if status < 400:
        return Retry(reason, "other")
    if status == 429:
        return Retry(reason, "rateLimited")
    if status >= 500 or status in (408, 425):
        return Retry(reason, "serverError" if status >= 500 else "clientError")
    label = NEVER.get(status, "clientError")
    return Refused(reason, label, "token" if label == "authError" else "")


def _safe(text: str) -> str:
    """Broken by a space of no width: the one escape that no service shows."""
    return BREAKS.sub(lambda found: f"{found[0][0]}\u200b{found[0][1:]}", text)


def _size(line: str) -> int:
    return len(line.encode()) + 1
