"""Secrets leave a text once more, right before it is stored for a service and when one answers.

Landing has replaced what it knew, under the installation's own key (ingest/redact.py). What comes
here has been put together since: a secret that was cut in two is whole again, and an answer of a
service was never landed.
Reads: nothing. Writes: nothing. Next: ingest/shapes.py.
"""

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from detectors.receivers import Delivered, Message, Outcome
from ingest import shapes
from ingest.config import Secret

MASK = "[redacted]"
PARTS = re.compile(r"[/?&=:#]")  # between what an address holds
LEAST, KNOWN = 16, 8  # characters of a part that is a secret, and by how many it is recognised


def masked(text: str, name: str = "") -> str:
    """A text without the secrets in it. `name`: what it is the value of."""
    words = shapes.words(name[-128:])
    if words and shapes.is_secret(words) and not text.isdigit():  # a number of secrets is a count
        return shapes.whole(text, _mask)
    return shapes.inside(text, words, _mask)


def cleaned(message: Message) -> Message:
    """The same message, with no secret in what came from logs. Our own links hold tickets that
    people are meant to have: they stay."""
    return replace(
        message,
        subject=masked(message.subject),
        title=masked(message.title),
        tenant=masked(message.tenant),
        facts=tuple(_pairs(message.facts)),
        params=tuple(_pairs(message.params)),
        evidence=tuple(map(masked, message.evidence)),
    )


def unsaid(outcome: Outcome, options: Any) -> Outcome:
    """The same outcome without a receiver's own secrets in its words: a service, or a proxy's page,
    may repeat the address it was asked at. What is cut off at its end is still recognised."""
    values = (getattr(options, name) for name in options.__struct_fields__)
    secrets = (each.reveal for each in values if isinstance(each, Secret))
    parts = {part for each in secrets for part in PARTS.split(each) if len(part) >= LEAST}
    parts = {part for part in parts if "." not in part}  # a host is none
    if not parts:
        return outcome
    known = re.compile("|".join(rf"{re.escape(part[:KNOWN])}[^\s'\"]*" for part in sorted(parts)))
    if isinstance(outcome, Delivered):
        return replace(outcome, hint=known.sub(MASK, outcome.hint))
    return replace(outcome, reason=known.sub(MASK, outcome.reason))


def _pairs(pairs: Iterable[tuple[str, str]]) -> Iterable[tuple[str, str]]:
    for name, value in pairs:
        yield masked(name), masked(value, name)


def _mask(_: str) -> str:
    return MASK
