"""A message that some were sent, sent once more to others, with the reason why it comes to them.

Of a storm's summary, which stands for many alerts and cannot be worded of one.
Reads: deliveries. Writes: deliveries. Next: detectors/outbox.py.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

import msgspec

from detectors import outbox
from detectors.receivers import Language, Message
from detectors.routing import Route
from detectors.wording import moment
from ingest.store import Db, fetch

NEWEST = """
    SELECT message FROM deliveries
    WHERE alert_id = $of AND kind = 'storm' AND message ->> 'alert' IS NOT NULL
    QUALIFY row_number() OVER (PARTITION BY message ->> 'language'
        ORDER BY created_at DESC, delivery_id) = 1
"""


def carry(
    db: Db, of: str, to: Sequence[tuple[Route, str]],
    why: Mapping[Language, tuple[str, str]], now: datetime,
) -> int:  # fmt: skip
    """Owe the newest summary of a storm to these, each under this delivery id; in their language,
    if anybody was told in it. Returns how many are owed."""
    rows = [msgspec.json.decode(row["message"], type=Message) for row in fetch(db, NEWEST, of=of)]
    known = {message.language: message for message in rows}
    owed = 0
    for route, key in to:
        message = known.get(route.language) or next(iter(known.values()), None)
        if message is None:
            continue  # a rebuilt database has no text of it; its next summary has
        own = replace(
            message, kind="escalated", delivery=key, at=moment(now), reply_to="",
            facts=(why[message.language], *message.facts),
        )  # fmt: skip
        owed += outbox.put(db, route.name, message.severity, now, own)
    return owed
