"""Strict stand-ins for the services that are told: what the real one refuses, they refuse.

One module for each receiver, under its name. It has `Fake`, which knows the tokens and keys of the
receiver's own EXAMPLE, or of the options that it is given. A fake is called with a request (a mail,
where the receiver sends one) and answers. It keeps its own clock `now`, which a test moves, and its
own limits, signatures and mutes. What it let through stands in `accepted`, as people see it; what
it turned away, in `refused`.
Sources: reference/delivery.md and the page of the vendor that each module names.
"""

import importlib
import json
import pkgutil
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import httpx
import jsonschema

from detectors.receivers import Message, Outcome
from detectors.receivers import load as load_receiver
from tests.kit_receivers import MESSAGE, NOW, example

ALERT = re.compile(r"\bal_[0-9a-z]+")


@dataclass(frozen=True)
class Seen:
    """One message as people see it, markup drawn, and what the service would do because of it."""

    at: datetime
    text: str  # all that can be read, top to bottom; what is markup is gone from it
    pinged: tuple[str, ...] = ()  # who would be notified: must stay empty
    links: tuple[str, ...] = ()  # where a click on a word or a button leads, pictures included
    marks: tuple[str, ...] = ()  # what markup sets apart, each by itself: headings, bold, tags
    handle: str = ""  # what the service calls this message
    reply_to: str = ""  # the message that this one answers

    @property
    def alerts(self) -> frozenset[str]:
        """The ids of the alerts that it tells of."""
        return frozenset(ALERT.findall(self.text))


@dataclass(frozen=True)
class Turned:
    """A request that was turned away."""

    at: datetime
    why: str


class NoError(Exception):
    """A refusal, with the answer that the real service gives."""

    def __init__(self, why: str, answer: Any) -> None:
        super().__init__(why)
        self.answer = answer


class Fake(ABC):
    """One account of one service. A module's `Fake` says `take` and `yes`."""

    limits: tuple[tuple[int, float], ...] = ()  # as published: at most so many in so many seconds

    def __init__(self, options: Any = None) -> None:
        self.options = options or example(type(self).__module__.rpartition(".")[2])[0]
        self.now = NOW
        self.accepted: list[Seen] = []
        self.refused: list[Turned] = []
        self.requests: list[Any] = []
        self.arrived: list[datetime] = []  # what counts against the limits

    def __call__(self, request: Any) -> Any:
        """Answer one request, as the service would at `now`."""
        self.requests.append(request)
        try:
            seen = self.take(request)
        except NoError as no:
            self.refused.append(Turned(self.now, str(no)))
            answer = no.answer
        else:
            self.accepted.append(seen)
            answer = self.yes(seen)
        if isinstance(answer, httpx.Response):
            date = format_datetime(self.now.astimezone(UTC), usegmt=True)
            answer.headers.setdefault("date", date)
        return answer

    @abstractmethod
    def take(self, request: Any) -> Seen:
        """Read a request as the service does. Raises NoError for what it turns away."""

    @abstractmethod
    def yes(self, seen: Seen) -> Any:
        """What it answers to a message that it takes."""

    def on(self, clock: Callable[[], datetime]) -> Callable[[httpx.Request], httpx.Response]:
        """The same service on somebody's clock, behind delivery's client: House.answer takes it.

        A mail travels inside a request that says so, and its answer comes back the same way.
        """

        def answer(request: httpx.Request) -> httpx.Response:
            self.now = clock()
            found = self(request.extensions.get("asked", request))
            if isinstance(found, httpx.Response):
                return found
            return httpx.Response(200, extensions={"answer": found})

        return answer

    def crowded(self) -> bool:
        """Count one arrival; is it one too many for any of `limits`, each a sliding window?"""
        self.arrived.append(self.now)
        return any(
            sum(self.now - at < timedelta(seconds=seconds) for at in self.arrived) > count
            for count, seconds in self.limits
        )

    @property
    def told(self) -> frozenset[str]:
        """The ids of all alerts that people have seen."""
        return frozenset().union(*(seen.alerts for seen in self.accepted))


def names() -> list[str]:
    """The receivers that have a fake."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def load(name: str, options: Any = None) -> Fake:
    """The fake of one receiver, as its EXAMPLE, or these options, want it."""
    fake: Fake = importlib.import_module(f"{__name__}.{name}").Fake(options)
    return fake


def tell(
    fake: Fake,
    name: str,
    message: Message = MESSAGE,
    options: Any = None,
    now: datetime | None = None,
) -> Outcome:
    """Let a receiver tell the fake one message, without a network; `now`: the receiver's clock."""
    flow = load_receiver(name, "tests").deliver(
        message, options or fake.options, fake.now if now is None else now
    )
    try:
        request = next(flow)
        while True:
            request = flow.send(fake(request))
    except StopIteration as end:
        outcome: Outcome = end.value
        return outcome


def busiest(moments: Sequence[datetime], seconds: float) -> int:
    """The most moments that any window of so many seconds holds."""
    span = timedelta(seconds=seconds)
    return max((sum(at <= each < at + span for each in moments) for at in moments), default=0)


def json_of(request: httpx.Request) -> Any:
    """The JSON body of a request. Raises ValueError for one that a strict reader cannot take."""
    if request.headers.get("content-type", "").partition(";")[0] != "application/json":
        raise ValueError("not sent as application/json")
    text = request.content.decode("utf-8")
    found = json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant)
    if "\\u" in text:  # a half of a pair can be written so, and is no text
        json.dumps(found, ensure_ascii=False).encode("utf-8")
    return found


def check(value: Any, schema: Any) -> None:
    """Raises ValueError, naming the place, for what a JSON schema does not allow."""
    errors = jsonschema.Draft202012Validator(schema).iter_errors(value)
    if error := next(iter(errors), None):
        raise ValueError(f"{error.json_path}: {error.message[:200]}")


def table(required: dict[str, Any], **optional: Any) -> dict[str, Any]:
    """The schema of an object with these keys and no others."""
    properties = {**required, **optional}
    return {
        "type": "object",
        "properties": properties,
        "required": [*required],
        "additionalProperties": False,
    }


def text(most: int | None = None) -> dict[str, Any]:
    """The schema of a text that is not empty, of at most so many characters."""
    return {"type": "string", "minLength": 1} | ({} if most is None else {"maxLength": most})


def _once(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"{key!r} is said twice")
        found[key] = value
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
