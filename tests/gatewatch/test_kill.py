"""kill -9 while landing, while judging, while delivering: nothing lost, nothing doubled (B046)."""

import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from gatewatch.parts import utc_now
from ingest.chain import verify
from tests.kit_sockets import answering
from tests.world import World

ROOT = Path(__file__).parents[2]
TRIALS = 20  # of each kind
LANDING = ("ledger", "applied", "commit")
LINES = 12  # a trial; three of them denials of one agent
APART = 2 / 60  # hours between two trials: so many alerts at once would be one storm


class Sink(ThreadingHTTPServer):
    """Takes what the webhook receiver sends, and remembers it."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Taker)
        self.got: list[dict[str, Any]] = []
        self.url = f"http://127.0.0.1:{self.server_port}/hook"


class Taker(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        assert isinstance(self.server, Sink)
        self.server.got.append({"id": self.headers["webhook-id"], **json.loads(body)})
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def sink() -> Iterator[Sink]:
    server = Sink()
    with answering(server):
        yield server


def victim(folder: Path, sink: Sink, hours: float = 0, *die: object) -> str:
    command = [sys.executable, "-m", "tests.gatewatch.victim", str(folder), sink.url, str(hours)]
    done = subprocess.run(
        [*command, *map(str, die)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode in (0, -9), done.stderr
    return done.stdout


def write(folder: Path, trial: int) -> list[str]:
    """Twelve lines of now, the agent of this trial denied three times; returns their ids."""
    stamp = (utc_now() + timedelta(hours=APART * trial)).isoformat()
    lines = []
    for number in range(LINES):
        deny = number < 3
        lines.append({
            "ts": stamp, "kind": "tool_call", "agent": f"agent-{trial}", "trace_id": f"t-{trial}",
            "tool": "crm.export" if deny else "crm.read", "params": {"pad": "x" * 200},
            "decision": "deny" if deny else "allow", "status": None if deny else "ok",
            "event_id": f"{trial}-{number}",
        })  # fmt: skip
    with (folder / "logs" / "gate.jsonl").open("a") as log:
        log.writelines(json.dumps(line) + "\n" for line in lines)
    return [str(line["event_id"]) for line in lines]


def trials(kind: str) -> Iterator[tuple[object, ...]]:
    """Where each trial dies: phase, how often it has come there, milliseconds after."""
    chance = random.Random(kind)  # noqa: S311 - where to kill, not a secret
    for trial in range(TRIALS):
        match kind:
            case "landing":
                yield LANDING[trial % 3], 1 + trial % 2, chance.choice([0, 0, 1, 4])
            case "judging":
                yield "judging", 1, chance.uniform(1, 120)
            case _:
                yield "delivery", 1 + trial % 3, chance.uniform(0.1, 40)


@pytest.mark.parametrize("kind", ["landing", "judging", "delivery"])
def test_a_process_that_is_killed_loses_and_doubles_nothing(
    kind: str, tmp_path: Path, sink: Sink
) -> None:
    (tmp_path / "logs").mkdir()
    wanted: list[str] = []
    killed = 0
    for trial, die in enumerate(trials(kind)):
        wanted += write(tmp_path, trial)
        killed += "done" not in victim(tmp_path, sink, APART * trial, *die)
    assert killed >= TRIALS * 3 // 4  # or nothing was tried

    assert "done" in victim(tmp_path, sink, APART * TRIALS)  # what is left
    assert "done" in victim(tmp_path, sink, APART * TRIALS + 0.5)  # half an hour later all is over

    world = World(tmp_path, policy=None)
    ids = Counter(row["native_id"] for row in world.rows("SELECT native_id FROM events"))
    assert ids == Counter(wanted)
    [counts] = world.rows("SELECT sum(events)::INT AS n FROM minute_counts")
    assert counts["n"] == len(wanted)
    assert world.rows("SELECT * FROM quarantine") == []
    assert verify(tmp_path / "gatewatch.ledger").problems == ()
    alerts = world.rows("SELECT subject, status FROM alerts ORDER BY subject")
    assert alerts == sorted(
        ({"subject": f"agent-{n}", "status": "resolved"} for n in range(TRIALS)),
        key=lambda row: row["subject"],
    )
    assert world.alerts() == world.backtest()
    world.close()
    told(sink)


def told(sink: Sink) -> None:
    """Each alert was opened once and resolved once; a message that came twice says so."""
    messages: dict[tuple[str, str], set[str]] = {}
    for each in sink.got:
        messages.setdefault((each["data"]["subject"], each["type"]), set()).add(each["id"])
    for number in range(TRIALS):
        for kind in ("gatewatch.alert.open", "gatewatch.alert.resolved"):
            assert len(messages.pop((f"agent-{number}", kind))) == 1, (number, kind)
    assert messages == {}
    times = Counter(each["id"] for each in sink.got)
    for name, count in times.items():
        repeats = [each["data"]["repeat"] for each in sink.got if each["id"] == name]
        # the first that comes may be marked too: an attempt before it died before it was sent
        assert repeats[1:] == [True] * (count - 1)
