"""Secrets leave a text once more, right before it is stored for a service and when one answers.

Landing has replaced what it knew, under the installation's own key (ingest/redact.py). What comes
here has been put together since: a secret that was cut in two is whole again, and an answer of a
service was never landed.
Reads: nothing. Writes: nothing. Next: ingest/shapes.py.
"""

from collections.abc import Iterable
from dataclasses import replace

from detectors.receivers import Message
from ingest import shapes

MASK = "[redacted]"


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


def _pairs(pairs: Iterable[tuple[str, str]]) -> Iterable[tuple[str, str]]:
    for name, value in pairs:
        yield masked(name), masked(value, name)


def _mask(_: str) -> str:
    return MASK
