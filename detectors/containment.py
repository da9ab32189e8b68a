"""Gates that can pause an agent or a trace: the `[containment.NAME]` tables, checked whole before
the service starts, and how one of them is asked.

Everything that leaves goes the way of messages: detectors/delivery.py with its guard, its deadline
and no redirects. What a gate answers is kept short and plain, and without our own secrets in it.
Reads: gatewatch.toml. Writes: the policy folder of a gate that has one. Next: detectors/pauses.py.
"""

import os
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import httpx
import msgspec

from detectors import delivery, gates, tables
from detectors.addresses import refused_url
from detectors.gates import Order, Placed, Target
from detectors.receivers import Flow, Outcome, Refused
from detectors.shorten import plain
from ingest.config import ConfigError, Duration, Secret, nearest

Verb = Literal["pause", "resume"]
TOTAL = 10.0  # seconds for one request to a gate
ANSWER = 200  # characters of an answer that are kept
LONGEST = timedelta(days=30)  # of a pause: what should last longer is a matter of policy


class Common(msgspec.Struct, frozen=True):
    """The keys that every gate has. Of `agents`, `tenants` and `sources` each that is given must
    fit; `agents` may hold `*`. `automatic` names detectors whose alerts pause without a person."""

    type: str
    agents: tuple[str, ...] = ()
    tenants: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    automatic: tuple[str, ...] = ()
    automatic_per_hour: int = 5
    expires: Duration = Duration("1 hour")
    allow_http: bool = False
    allow_private: bool = False
    ca_file: str | None = None


@dataclass(frozen=True)
class Whom:
    """Who is to be paused, and where it has been seen: what gates are chosen by."""

    kind: Target
    name: str
    tenant: str = ""
    agents: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()


@dataclass(frozen=True)
class Gate:
    """One gate of the config. `module` is its code, `options` what it takes."""

    name: str
    type: str
    module: ModuleType
    options: Any
    common: Common

    def serves(self, whom: Whom) -> bool:
        """Is it for this agent or trace?"""
        own = self.common
        return (
            (not own.tenants or whom.tenant in own.tenants)
            and (not own.sources or not set(own.sources).isdisjoint(whom.sources))
            and (not own.agents or any(_fits(each, own.agents) for each in whom.agents))
        )

    @property
    def where(self) -> str:
        """Its kind and host, for the person who is about to ask it. Never the whole address."""
        with suppress(httpx.InvalidURL):
            return f"{self.type} at {httpx.URL(self.options.address).host}"
        return self.type


@dataclass(frozen=True)
class Answer:
    """How asking a gate ended, and what it said: plain, short, without secrets."""

    outcome: Outcome
    status: int | None
    text: str


def load(table: Mapping[str, Any], where: str = "gatewatch.toml: containment") -> tuple[Gate, ...]:
    """The gates of a config's `[containment]`. Raises ConfigError on the first mistake."""
    return tuple(_gate(name, each, f"{where}.{name}") for name, each in table.items())


def check_detectors(
    known_gates: Sequence[Gate], known: Iterable[str], where: str = "gatewatch.toml: containment"
) -> None:
    """A gate that waits for a detector that there is not would never act."""
    known = set(known)
    for gate in known_gates:
        for name in gate.common.automatic:
            if name not in known:
                place = f"{where}.{gate.name}.automatic"
                raise ConfigError(f"{place}: no detector called {name!r}.{nearest(name, known)}")


def chosen(known_gates: Iterable[Gate], whom: Whom) -> tuple[Gate, ...]:
    """Those that are asked."""
    return tuple(gate for gate in known_gates if gate.serves(whom))


def client_for(gate: Gate) -> httpx.Client:
    """The guarded client that speaks to a gate."""
    own = gate.common
    return delivery.client(TOTAL, own.allow_http, own.allow_private, own.ca_file)


def ask(gate: Gate, verb: Verb, order: Order, client: httpx.Client, now: datetime) -> Answer:
    """Have a gate pause, or let go. Never raises for what network, disk or gate can do."""
    heard: list[httpx.Response] = []
    flow: Flow = getattr(gate.module, verb)(order, gate.options, now)
    outcome = delivery.attempt(_heard(flow, heard), client)
    if not heard:
        return Answer(outcome, None, "")
    text = heard[-1].text[: 4 * ANSWER]
    for secret in _secrets(gate.options):
        text = text.replace(secret, "…")
    return Answer(outcome, heard[-1].status_code, plain(text).strip()[:ANSWER])


def _heard(flow: Flow, heard: list[httpx.Response]) -> Generator[Any, Any, Outcome]:
    """The same flow: its files are written on the way, and what is answered is listened to."""
    answer: Any = None
    while True:
        try:
            asked = flow.send(answer)
        except StopIteration as end:
            outcome: Outcome = end.value
            return outcome
        if isinstance(asked, Placed):
            try:
                place(asked)
            except OSError as error:
                flow.close()
                return Refused(f"{asked.folder}: cannot be written: {error.strerror}", "other")
            answer = None
        else:
            answer = yield asked
            heard.append(answer)


def place(asked: Placed) -> None:
    """Write a file whole or not at all, readable for the gate, or take it away."""
    path = Path(asked.folder) / asked.name
    if asked.content is None:
        path.unlink(missing_ok=True)
        return
    part = path.with_name(f".{asked.name}.part")  # no gate reads a name that ends so
    with part.open("wb") as file:
        file.write(asked.content)
        file.flush()
        os.fsync(file.fileno())
    part.chmod(0o644)
    part.replace(path)


def _gate(name: str, table: Any, where: str) -> Gate:
    module, shared, options = tables.read(table, Common, gates, "gate", where)
    if why := refused_url(options.address, shared.allow_http, shared.allow_private):
        raise ConfigError(f"{where}: the address {why.replace('receiver', 'gate')}.")
    if options.folder and not Path(options.folder).is_dir():
        raise ConfigError(f"{where}: {options.folder}: no such folder.")
    if shared.ca_file and not Path(shared.ca_file).is_file():
        raise ConfigError(f"{where}.ca_file: {shared.ca_file}: no such file.")
    if not timedelta(0) < shared.expires <= LONGEST:
        raise ConfigError(f"{where}.expires: at most {LONGEST.days} days.")
    if not 1 <= shared.automatic_per_hour <= 100:
        raise ConfigError(f"{where}.automatic_per_hour: between 1 and 100.")
    return Gate(name, shared.type, module, options, shared)


def _secrets(options: Any) -> list[str]:
    values: list[object] = []
    for field in options.__struct_fields__:
        value = getattr(options, field)
        values += value if isinstance(value, tuple) else [value]
    return [each.reveal for each in values if isinstance(each, Secret)]


def _fits(agent: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(agent, pattern) for pattern in patterns)
