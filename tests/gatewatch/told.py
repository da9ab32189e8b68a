"""Four services at once, and a process that is killed between the alert and their answers.

`python -m tests.gatewatch.told 200` runs as many trials and says who missed what, and who was told
twice; tests/gatewatch/test_told.py runs fewer. In each trial a new agent is denied three times, a
process tails, judges and delivers, and gets SIGKILL: before it sends, when a service has the
message and has not answered, right after the answer, or between ledger and database. The services:
a chat that gives no receipt, a webhook and a pager that drop an id which they have seen, and mail.
"""

import json
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from aiosmtpd.smtp import SMTP, Envelope, Session

from gatewatch.parts import utc_now
from tests.kit_mail import Relay, body, read, relay
from tests.world import World

ROOT = Path(__file__).parents[2]
MINUTES = 20  # of the clock between two trials: else so many alerts would be one storm
PHASES = ("delivery", "ledger", "commit", "taken", "answered")
RECEIVERS = ("chat", "hook", "pager", "mail")
KEYED = {"hook", "pager"}  # they drop what they have seen: a repeat does no harm there
WHOLE = 300.0  # seconds that one process may take
ALERT = re.compile(r"\bal_[0-9a-z]+")


@dataclass(frozen=True)
class Heard:
    """One message that a service has taken."""

    receiver: str
    key: str  # equal for the same message
    alerts: frozenset[str]
    what: str  # Opened, Resolved, ...
    repeat: bool


@dataclass
class Result:
    """What became of the messages of all trials."""

    trials: int
    killed: int
    alerts: int
    messages: dict[str, int]  # by receiver, those that came twice included
    repeats: dict[str, int]  # messages that came again under the same key, marked
    unmarked: list[Heard] = field(default_factory=list)  # that came again and did not say so
    missed: list[tuple[str, str]] = field(default_factory=list)  # receiver, and alert
    owed: int = 0  # messages that were neither delivered nor accepted in the end


class Services:
    """Takes what is sent and remembers it, and kills who sent it when that is armed."""

    def __init__(self) -> None:
        self.heard: list[Heard] = []
        self.victim: subprocess.Popen[str] | None = None
        self._armed: tuple[str, int] | None = None
        self._turn = threading.Lock()

    def arm(self, phase: str, count: int) -> None:
        """Kill at the COUNTth message from now on: when it is `taken`, or `answered`."""
        self._armed = (phase, count)

    def take(self, it: Heard) -> str | None:
        """Remember one message. Returns the phase in which its sender is to die."""
        with self._turn:
            self.heard.append(it)
            if self._armed is None:
                return None
            phase, count = self._armed
            self._armed = (phase, count - 1) if count > 1 else None
            return phase if count == 1 else None

    def kill(self) -> None:
        victim = self.victim
        while victim is None:  # it may speak before we know it
            victim = self.victim
        victim.send_signal(signal.SIGKILL)


class Door(ThreadingHTTPServer):
    """The chat, the webhook and the pager, each under a path of its own."""

    def __init__(self, services: Services) -> None:
        super().__init__(("127.0.0.1", 0), Taker)
        self.services = services


class Taker(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers["content-length"]))
        server = self.server
        assert isinstance(server, Door)
        status, text, it = _read(self.path, content, str(self.headers["webhook-id"]))
        phase = server.services.take(it)
        if phase == "taken":
            server.services.kill()
            self.close_connection = True
            return
        with suppress(OSError):
            self.send_response(status)
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)
            self.wfile.flush()
        if phase == "answered":
            server.services.kill()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@dataclass
class Post(Relay):
    """The mail server."""

    services: Services = field(default_factory=Services)

    async def handle_DATA(  # noqa: N802 - aiosmtpd's own name
        self, server: SMTP, session: Session, envelope: Envelope
    ) -> str:
        assert isinstance(envelope.content, bytes)
        letter = read(envelope.content)
        found = _chat("mail", body(letter, "plain"))
        phase = self.services.take(
            Heard("mail", str(letter["Message-ID"]), found.alerts, found.what, found.repeat)
        )
        if phase:
            self.services.kill()
        return "250 2.0.0 Ok"


def _read(path: str, content: bytes, key: str) -> tuple[int, bytes, Heard]:
    """What a service makes of one request, and its yes."""
    doc = json.loads(content)
    if path == "/hook":
        data = doc["data"]
        it = Heard("hook", key, frozenset([data["alert_id"]]), data["kind"], data["repeat"])
        return 204, b"", it
    if path == "/pager":
        details = doc.get("payload", {}).get("custom_details", {})
        repeat = "repeat" in str(details.get("note", ""))
        alert, action = str(doc["dedup_key"]), str(doc["event_action"])
        it = Heard("pager", f"{alert} {action}", frozenset([alert]), action, repeat)
        return 202, b'{"status": "success"}', it
    shown = json.dumps([doc["blocks"], doc.get("attachments")])  # a digest lists its alerts there
    return 200, b"ok", _chat("chat", f"{doc['text']}\n{shown}")


def _chat(receiver: str, text: str) -> Heard:
    """A message for people: what its first line says, and the alerts that it names."""
    first = text.split("\n")[0]
    what = re.split(" [(·]", first.partition(" · ")[2])[0].strip()
    alerts = frozenset(ALERT.findall(text))
    return Heard(receiver, f"{what} {sorted(alerts)}", alerts, what, "(repeat" in first)


@contextmanager
def services(folder: Path) -> Iterator[Services]:
    """All four, and the config by which the victim knows them."""
    it = Services()
    door = Door(it)
    serving = threading.Thread(target=door.serve_forever, daemon=True)
    serving.start()
    url = f"http://127.0.0.1:{door.server_port}"
    near = {"allow_http": True, "allow_private": True}
    with relay(kind=Post, services=it) as post:
        table = {
            "chat": {"type": "slack", "webhook": f"{url}/chat", **near},
            "hook": {"type": "webhook", "webhook": f"{url}/hook", **near},
            "pager": {"type": "pagerduty", "routing_key": "F" * 32},
            "mail": {"type": "email", "host": "127.0.0.1", "port": post.port, "security": "none",
                     "from": "gatewatch@corp.example", "to": ["duty@corp.example"], **near},
        }  # fmt: skip
        (folder / "receivers.json").write_text(json.dumps(table))
        yield it
    door.shutdown()
    door.server_close()
    serving.join()


def write(folder: Path, trial: int) -> None:
    """A new agent, denied three times, on the clock of its trial."""
    stamp = (utc_now() + timedelta(minutes=MINUTES * trial)).isoformat()
    lines = [
        {"ts": stamp, "kind": "tool_call", "agent": f"agent-{trial}", "trace_id": f"t-{trial}",
         "tool": "crm.export", "decision": "deny", "event_id": f"{trial}-{n}"}
        for n in range(3)
    ]  # fmt: skip
    with (folder / "logs" / "gate.jsonl").open("a") as log:
        log.writelines(json.dumps(line) + "\n" for line in lines)


def victim(it: Services, folder: Path, hours: float, *die: object) -> bool:
    """One process, to its end. True: it was killed."""
    door = json.loads((folder / "receivers.json").read_text())["hook"]["webhook"]
    command = [sys.executable, "-m", "tests.gatewatch.victim", str(folder), door, str(hours)]
    it.victim = None
    with subprocess.Popen(
        [*command, *map(str, die)],
        cwd=ROOT,
        text=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as process:
        it.victim = process
        _, errors = process.communicate(timeout=WHOLE)
    assert process.returncode in (0, -signal.SIGKILL), errors
    return process.returncode != 0


def run(folder: Path, trials: int, seed: int = 0) -> Result:
    """All trials in one folder; the last process ends in peace."""
    (folder / "logs").mkdir(parents=True)
    chance, killed = random.Random(seed), 0  # noqa: S311 - when to kill, not a secret
    with services(folder) as it:
        for trial in range(trials):
            write(folder, trial)
            phase, hours = chance.choice(PHASES), MINUTES * trial / 60
            if phase in ("taken", "answered"):
                it.arm(phase, chance.randint(1, 5))
                killed += victim(it, folder, hours)
            else:
                # landing comes to these before delivering does
                count = chance.randint(1, 8) + (phase != "delivery") * 2
                delay = chance.choice([0, 0, chance.uniform(0, 20)])
                killed += victim(it, folder, hours, phase, count, delay)
        it.arm("", 0)
        for more in (0, MINUTES, 6 * MINUTES):  # what is left; and until all is over
            assert not victim(it, folder, (MINUTES * trials + more) / 60)
    return judged(folder, it.heard, trials, killed)


def judged(folder: Path, heard: list[Heard], trials: int, killed: int) -> Result:
    """What the services heard, against what the database says that they were told."""
    world = World(folder, policy=None, only=["deny_retry"])
    told = world.rows("SELECT alert_id FROM alerts WHERE told_at IS NOT NULL")
    owed = world.rows("SELECT * FROM deliveries WHERE state IN ('pending', 'dead')")
    world.close()
    alerts = {row["alert_id"] for row in told}
    seen = {(each.receiver, alert) for each in heard for alert in each.alerts}
    by_key: dict[tuple[str, str], list[Heard]] = defaultdict(list)
    for each in heard:
        by_key[each.receiver, each.key].append(each)
    again = [each for its in by_key.values() for each in its[1:]]
    return Result(
        trials=trials,
        killed=killed,
        alerts=len(alerts),
        messages={name: sum(each.receiver == name for each in heard) for name in RECEIVERS},
        repeats={name: sum(each.receiver == name for each in again) for name in RECEIVERS},
        unmarked=[each for each in again if not each.repeat and each.receiver not in KEYED],
        missed=[(name, each) for name in RECEIVERS for each in sorted(alerts)
                if (name, each) not in seen],
        owed=len(owed),
    )  # fmt: skip


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        began = time.monotonic()
        done = run(Path(name) / "told", int(sys.argv[1]), int((*sys.argv, "0")[2]))
        sys.stdout.write(f"{done}\n{time.monotonic() - began:.0f} s\n")
        sys.exit(bool(done.missed or done.unmarked or done.owed))
