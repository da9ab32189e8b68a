"""The demo's gates: two write log files that are followed, one sends its lines over HTTP.

They write as real ones do: now and then a line twice, a line that was cut, a file that is rotated
by renaming it, a batch that is sent again because its answer was lost.
Reads: lines of gatewatch/fleet.py. Writes: log files, HTTP requests. Next: gatewatch/demo.py.
"""

import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import httpx

from gatewatch.fleet import AGENTS, GUARDED, NOUNS, TOOLS, Line

TWICE, CUT = 150, 350  # one line in so many is written twice, or followed by half a line
EVERY = 0.5  # seconds between two HTTP batches
AGAIN = 5  # this batch is sent again although it was answered
PATIENCE = 15.0  # seconds for what is left to be sent, at the end


def rules(zone: str) -> dict[str, Any]:
    """The policy file of these gates: what the fleet does in quiet times is allowed."""
    free = [name for name in TOOLS if name not in GUARDED]
    asked = {"action": "require_approval", "risk_level": "high", "op": "commit"}
    allowed = {"action": "allow", "forbidden_params": ["all_fields"]}
    return {
        "global": {"timezone": zone, "unattended_window": [{"start": "22:00", "end": "08:00"}]},
        "rate_limits": {"tool_calls_per_minute": 400, "external_requests_per_hour": 400},
        "egress": {"allowed_hosts": [f"*.{area}.example" for area in NOUNS]},
        "tools": [
            {"name": "crm.export_contacts", "action": "deny", "risk_level": "high", "op": "lookup"},
            *({"name": name, **asked} for name in GUARDED),
            *({"name": name, **allowed, "op": _op(name)} for name in free),
        ],
    }


def _op(tool: str) -> str:
    verb = tool.partition(".")[2].partition("_")[0]
    return {"update": "commit", "check": "verify"}.get(verb, "lookup")


class LogFile:
    """A log that a gate appends to."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("ab", buffering=0)

    def write(self, lines: list[bytes]) -> None:
        """In two pieces that part within a line, as a full buffer of the writer would."""
        data = b"".join(each + b"\n" for each in lines)
        middle = len(data) // 2
        self._file.write(data[:middle])
        self._file.write(data[middle:])

    def rotate(self) -> None:
        self._file.close()
        self._path.rename(self._path.with_name(self._path.name + ".1"))
        self._file = self._path.open("ab", buffering=0)

    def close(self) -> None:
        self._file.close()


class Pusher:
    """A gate that sends its lines in batches; what is not answered with yes is sent again."""

    def __init__(self, url: str) -> None:
        self._http = httpx.Client(timeout=30, trust_env=False)
        self._url, self._held = url, list[bytes]()
        self._turn, self._over = threading.Lock(), threading.Event()
        self._batches = 0
        self.lost = 0  # lines that were never answered with yes
        self._thread = threading.Thread(target=self._run, name="pusher", daemon=True)
        self._thread.start()

    def write(self, lines: list[bytes]) -> None:
        with self._turn:
            self._held += lines

    def close(self) -> None:
        self._over.set()
        self._thread.join(PATIENCE * 2)
        self._http.close()

    def _run(self) -> None:
        while not self._over.wait(EVERY):
            self._push()
        self._push()

    def _push(self) -> None:
        with self._turn:
            lines, self._held = self._held, []
        if not lines:
            return
        self._batches += 1
        tries = int(PATIENCE / EVERY)
        while not self._sent(lines):
            tries -= 1
            if tries == 0:
                self.lost += len(lines)
                return
            threading.Event().wait(EVERY)
        if self._batches == AGAIN:  # its key says that it was landed: nothing is doubled
            self._sent(lines)

    def _sent(self, lines: list[bytes]) -> bool:
        headers = {"Idempotency-Key": f"demo-{self._batches}"}
        try:
            answer = self._http.post(self._url, content=b"\n".join(lines), headers=headers)
        except httpx.TransportError:
            return False
        return answer.status_code == 200


class Gates:
    """Takes the fleet's lines to where each agent's gate writes them. `written` counts them all."""

    def __init__(self, folder: Path, url: str) -> None:
        self.files = (LogFile(folder / "gate_a.jsonl"), LogFile(folder / "gate_b.jsonl"))
        self.pusher = Pusher(url)
        self.written = 0

    def take(self, lines: Iterable[Line]) -> None:
        shares: dict[LogFile | Pusher, list[bytes]] = {}
        for each in lines:
            shares.setdefault(self._gate(each.agent), []).extend(self._flawed(each.data))
        for gate, share in shares.items():
            gate.write(share)

    def _gate(self, agent: str) -> LogFile | Pusher:
        """Two agents of five to either file, one over HTTP."""
        place = AGENTS.index(agent) % 5
        return self.pusher if place == 4 else self.files[place // 2]

    def _flawed(self, data: bytes) -> list[bytes]:
        self.written += 1
        found = [data]
        if self.written % TWICE == 0:
            found.append(data)
        if self.written % CUT == 0:
            found.append(data[: len(data) // 2])
        self.written += len(found) - 1
        return found

    def close(self) -> None:
        self.pusher.close()
        for file in self.files:
            file.close()


def write_history(path: Path, lines: Iterable[Line]) -> int:
    """The fleet's past as one log file. Returns how many lines it has."""
    data = [each.data for each in lines]
    path.write_bytes(b"".join(each + b"\n" for each in data))
    return len(data)
