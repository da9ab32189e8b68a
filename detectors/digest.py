"""Messages about messages: several alerts in one, and a receiver that fails.

Reads: nothing. Writes: nothing. Next: detectors/worker.py.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from detectors.outbox import Delivery, Parcel
from detectors.phrases import WORDS, happened
from detectors.receivers import Language, Message
from detectors.routing import SEVERITIES
from detectors.shorten import cut
from detectors.wording import moment

BUNDLE = 30  # alerts in one digest: so many lines fit into every service's message
LINE = 100  # code points of one alert's line
TROUBLE: dict[Language, tuple[str, str]] = {
    "en": (
        "Receiver {name} does not deliver: {reason}",
        "Its alerts wait in the outbox or were given up. Run `gatewatch test-send {name}`.",
    ),
    "zh": (
        "通知渠道 {name} 发送失败：{reason}",
        "其告警仍在待发队列中，或已放弃发送。请运行 `gatewatch test-send {name}`。",
    ),
}


def digest(members: Sequence[Delivery], language: Language, now: datetime) -> Parcel:
    """Several deliveries as one message: the worst first, then the oldest, one line each."""
    words = WORDS[language]
    key = "|".join(sorted(each.id for each in members))
    name = "dg_" + hashlib.sha256(key.encode()).hexdigest()[:24]
    counts = Counter(each.severity for each in members)
    worst = [each for each in reversed(SEVERITIES) if counts[each]]
    by_severity = tuple((words[each], str(counts[each])) for each in worst)
    agents = Counter(each.message.subject for each in members).most_common(3)
    first = members[0].message
    message = Message(
        kind="digest",
        alert=words["digest_name"].format(count=len(members)),
        delivery=name,
        at=moment(now),
        detector=", ".join(sorted({each.message.detector for each in members}))[:100],
        severity=worst[0] if worst else first.severity,
        subject=", ".join(f"{subject} ×{count}" for subject, count in agents),
        title=words["digest_title"].format(count=len(members)),
        facts=by_severity,
        evidence=tuple(map(_line, members)),
        respond="",
        link=first.link.partition("?")[0],
        language=language,
        repeat=any(each.unsure for each in members),
    )
    return Parcel(name, message, tuple(members))


def trouble(
    name: str, reason: str, delivery: str, language: Language, link: str, now: datetime
) -> Message:
    """What another receiver is told of one that fails. `reason` holds no secret."""
    title, respond = TROUBLE[language]
    return Message(
        kind="open",
        alert=f"receiver:{name}",
        delivery=delivery,
        at=moment(now),
        detector="receiver",
        severity="high",
        subject=name,
        title=cut(title.format(name=name, reason=reason), 200),
        facts=(),
        evidence=(),
        respond=respond.format(name=name),
        link=link,
        language=language,
    )


def _line(each: Delivery) -> str:
    message = each.message
    words = WORDS[message.language]
    severity = words.get(message.severity, message.severity)
    head = f"{severity} · {happened(message)} · {each.alert} "
    return head + cut(message.title, LINE)
