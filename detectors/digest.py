"""Several alerts in one message, for a service that limits how many messages it takes.

Reads: nothing. Writes: nothing. Next: detectors/worker.py.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from detectors.phrases import WORDS, happened
from detectors.receivers import Language, Message
from detectors.routing import SEVERITIES
from detectors.shorten import cut
from detectors.waiting import Delivery, Parcel
from detectors.wording import moment

LINE = 80  # code points of one alert's title


def digest(members: Sequence[Delivery], language: Language, now: datetime) -> Parcel:
    """Several deliveries as one message: the worst first, then the oldest, one line each."""
    words = WORDS[language]
    key = "|".join(sorted(each.owed.delivery_id for each in members))
    name = "dg_" + hashlib.sha256(key.encode()).hexdigest()[:24]
    counts = Counter(each.owed.severity for each in members)
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
        subject=", ".join(f"{cut(subject, 40)} ×{count}" for subject, count in agents),
        title=words["digest_title"].format(count=len(members)),
        facts=by_severity,
        evidence=tuple(map(_line, members)),
        respond="",
        link=listed(first.link),
        language=language,
        repeat=any(each.owed.unsure for each in members),
    )
    return Parcel(name, message, tuple(members))


def listed(link: str) -> str:
    """The page of all alerts, beside the page of one."""
    page = link.partition("?")[0]
    return f"{page}s" if page.endswith("/alert") else page


def _line(each: Delivery) -> str:
    message = each.message
    words = WORDS[message.language]
    severity = words.get(message.severity, message.severity)
    head = f"{severity} · {happened(message)} · {each.owed.alert_id} "
    return head + cut(message.title, LINE)
