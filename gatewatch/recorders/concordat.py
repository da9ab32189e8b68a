"""A recorder for Concordat, which keeps no log: a JSON line for each decision, approval and result.

    agent = record(Refunds(approver=ask), "logs/refunds.jsonl", approver="ops-1")

It changes nothing of what the agent does. A line that cannot be written is lost, never the step:
the log says so, and the next line that is written says how many are missing.
It needs Concordat and the standard library, nothing else of gatewatch.
Reads: nothing. Writes: what it is told to. Next: ingest/adapters/concordat.sql.
"""

import functools
import json
import logging
import re
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from concordat import BudgetExceeded, ProtocolViolation

AnAgent = TypeVar("AnAgent")
Emit = Callable[[str], object]  # is given one line of JSON, without its line end
LONGEST = 4_096  # characters of a result that are kept as they are
LONGEST_LINE = 256 * 1024  # characters; gatewatch takes no endless line
DEEPEST = 32  # levels of brackets; gatewatch takes 64 in a line
_BRACKET = re.compile(r"[{}\[\]]")
logger = logging.getLogger(__name__)


def record(
    agent: AnAgent, to: str | Path | Emit, approver: str | None = None, name: str | None = None
) -> AnAgent:
    """Record every step of this agent from now on: into a file, or through a function.

    `approver` is who answers, which Concordat does not know. `name`: the agent's, else its class's.
    Returns the same agent.
    """
    emit = to if callable(to) else functools.partial(_append, Path(to))
    shown = name or type(agent).__name__
    recorder = Recorder(emit, shown, approver)
    kind = type(type(agent).__name__, (_Recorded, type(agent)), {"__module__": __name__})
    agent.__class__ = kind
    vars(agent)["_recorder"] = recorder
    vars(agent)["approver"] = recorder.asking(agent, vars(agent)["approver"])
    return agent


def protocol_as_json(protocol: Any) -> dict[str, Any]:
    """A protocol as data, for holding recorded moves against it."""
    return {
        "initial": protocol.initial,
        "final": sorted(protocol.final),
        "transitions": {
            state: {action: sorted(targets) for action, targets in actions.items()}
            for state, actions in protocol.transitions.items()
        },
    }


class _Recorded:
    """What `record` puts in front of an agent's class: its steps pass through the recorder."""

    _recorder: "Recorder"
    _steps: Mapping[str, Any]

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        if name.startswith("_") or name not in type(self)._steps:
            return value
        return self._recorder.watching(self, name, value)


class Recorder:
    """The lines of one run. `lost` counts those that could not be written since the last."""

    def __init__(self, emit: Emit, name: str, approver: str | None) -> None:
        self._emit, self._name, self._approver = emit, name, approver
        self._run_id = uuid.uuid4().hex
        self._seq = 0
        self._calls: list[dict[str, Any]] = []  # those that run now: a step may call a step
        self._hit: BudgetExceeded | None = None  # told of already
        self.lost = 0

    def watching(self, agent: Any, name: str, step: Callable[..., Any]) -> Callable[..., Any]:
        """The step, recorded."""

        @functools.wraps(step)
        def run(*args: Any, **kwargs: Any) -> Any:
            session, call = agent.session, _call(agent, name, args, kwargs)
            try:
                session.check(name)
            except ProtocolViolation as error:
                allowed = sorted(session.allowed_actions())
                self._write(agent, "decided", call, decision="deny", reason=_text(error),
                            allowed=allowed)  # fmt: skip
                raise
            self._write(agent, "decided", call, decision="allow")
            self._calls.append(call)
            began = time.perf_counter()
            try:
                result = step(*args, **kwargs)
            except Exception as error:
                self._failed(agent, call, error, began)
                raise
            finally:
                self._calls.pop()
            self._write(agent, "executed", call, status="ok", result=_kept(result),
                        to=session.state, ms=_since(began))  # fmt: skip
            return result

        return run

    def asking(self, agent: Any, ask: Callable[[str, Any], bool]) -> Callable[[str, Any], bool]:
        """The approver, recorded."""

        @functools.wraps(ask)
        def asked(step: str, request: Any) -> bool:
            call: dict[str, Any] = self._calls[-1] if self._calls else {"action": step}
            call["human"] = True  # of what is written of it from here on
            self._write(agent, "approval_requested", call, request=_kept(request))
            began = time.perf_counter()
            approved = ask(step, request)
            self._write(agent, "approval_approved" if approved else "approval_rejected", call,
                        approver=self._approver, ms=_since(began))  # fmt: skip
            return approved

        return asked

    def _failed(self, agent: Any, call: Mapping[str, Any], error: Exception, began: float) -> None:
        text, took = f"{type(error).__name__}: {_text(error)}", _since(began)
        if isinstance(error, BudgetExceeded) and error is not self._hit:
            self._hit = error
            self._write(agent, "budget_hit", call, reason=_text(error), ms=took,
                        budget_kind=_text(error).partition(":")[0])  # fmt: skip
        else:
            self._write(agent, "executed", call, status="error", error=text, ms=took)

    def _write(self, agent: Any, event: str, call: Mapping[str, Any], **fields: Any) -> None:
        """One line. Whatever goes wrong here, the agent goes on."""
        self._seq += 1
        try:
            line = {
                "ts": datetime.now(UTC).isoformat(), "seq": self._seq, "run_id": self._run_id,
                "agent": self._name, "event": event, "state": agent.session.state,
                "budget_left": dict(vars(agent.session.budget)), **fields, **call,
            }  # fmt: skip
            if self.lost:
                line["lost"] = self.lost
            self._emit(_json(line))
        except Exception as error:  # noqa: BLE001 - a log must not stop what it is the log of
            self.lost += 1
            logger.warning(
                "a line of %s was lost (%d since the last): %s", self._name, self.lost, _text(error)
            )
        else:
            self.lost = 0


def _append(path: Path, line: str) -> None:
    """Opened for each line, so that a file that was rotated away is not written to."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(line + "\n")


def _call(agent: Any, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    try:
        given = dict(type(agent)._steps[name].signature.bind(*args, **kwargs).arguments)
    except TypeError:  # the step will say so itself
        given = {"args": list(args), **kwargs}
    state = agent.session.state
    return {"call_id": uuid.uuid4().hex, "action": name, "args": given, "from": state}


def _json(value: Any) -> str:
    """JSON of anything, as gatewatch reads it; what is none is there as its repr."""
    try:
        line = json.dumps(value, default=_text, allow_nan=False)
    except (TypeError, ValueError, RecursionError):  # NaN, keys that are no text, a circle
        line = ""
    if line and len(line) <= LONGEST_LINE and not _deep(line):
        return line
    return json.dumps({key: _kept(each) for key, each in value.items()})


def _kept(value: Any) -> Any:
    """A value as JSON where it is, else its repr; cut when it is long."""
    try:
        text = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return _text(value)
    return value if len(text) <= LONGEST and not _deep(text) else text[:LONGEST]


def _deep(text: str) -> bool:
    """Nested deeper than a line may be. Brackets within strings count too: that does no harm."""
    if text.count("{") + text.count("[") <= DEEPEST:
        return False
    level = 0
    for found in _BRACKET.finditer(text):
        level += 1 if found[0] in "{[" else -1
        if level > DEEPEST:
            return True
    return False


def _text(value: Any) -> str:
    try:
        return (str(value) if isinstance(value, Exception) else repr(value))[:LONGEST]
    except Exception:  # noqa: BLE001 - somebody else's __repr__
        return f"<{type(value).__name__}>"


def _since(began: float) -> float:
    return round((time.perf_counter() - began) * 1e3, 3)
