"""The command line, as a person meets it: what it prints, how it fails, what it leaves."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gatewatch.parts import utc_now
from tests.world import World

ROOT = Path(__file__).parents[2]


class Done:
    def __init__(self, run: "subprocess.CompletedProcess[str]") -> None:
        self.code, self.out, self.err = run.returncode, run.stdout, run.stderr

    @property
    def json(self) -> Any:
        assert self.code == 0, self.err
        return json.loads(self.out)


class Shell:
    """Runs `gatewatch` in a folder, as a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = os.environ | {"XDG_CONFIG_HOME": str(folder / "config"), "COLUMNS": "200"}

    def __call__(self, *words: str, stdin: str = "") -> Done:
        run = subprocess.run(
            [sys.executable, "-m", "gatewatch", *words], cwd=self.folder, env=self.env, input=stdin,
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert "Traceback" not in run.stderr, run.stderr
        return Done(run)


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def gate_log(folder: Path, count: int = 3) -> Path:
    """The one example: a1 is denied crm.export_contacts, a minute apart, an hour ago."""
    path = folder / "gate.jsonl"
    with path.open("w") as log:
        for number in range(count):
            stamp = utc_now().replace(microsecond=number).isoformat()
            doc = {"ts": stamp, "kind": "tool_call", "agent": "a1", "trace_id": "t-1",
                   "tool": "crm.export_contacts", "params": {"list": "partners"},
                   "decision": "deny", "rule_id": "rule-17", "event_id": f"e{number}"}  # fmt: skip
            log.write(json.dumps(doc) + "\n")
    return path


def test_the_journey_from_a_file_to_a_verdict(shell: Shell, tmp_path: Path) -> None:
    gate_log(tmp_path)

    landed = shell("ingest", "gate.jsonl", "--adapter", "native", "--db", "x.duckdb", "--json").json
    found = shell("detect", "--db", "x.duckdb", "--json").json
    [alert] = shell("alerts", "--db", "x.duckdb", "--json").json
    told = shell("explain", alert["alert_id"], "--db", "x.duckdb").out
    judged = shell(
        "verdict", alert["alert_id"], "true", "--actor", "kim", "--db", "x.duckdb", "--json"
    )

    assert {key: landed[key] for key in ("lines", "events", "quarantined")} == {
        "lines": 3, "events": 3, "quarantined": 0}  # fmt: skip
    assert [(row["detector"], row["subject"]) for row in found] == [("deny_retry", "a1")]
    assert found[0].keys() >= {"severity", "started_at", "ended_at", "event_ids", "title", "facts"}
    assert "crm.export_contacts" in told
    assert "list=partners" in told
    assert judged.json["verdict"] == "true"


def test_a_dry_run_finds_the_same_and_keeps_nothing(shell: Shell, tmp_path: Path) -> None:
    gate_log(tmp_path)
    shell("ingest", "gate.jsonl", "--db", "x.duckdb")

    dry = shell("detect", "--db", "x.duckdb", "--dry-run", "--json").json
    kept = shell("alerts", "--db", "x.duckdb", "--all", "--json").json

    assert [row["detector"] for row in dry] == ["deny_retry"]
    assert kept == []


def test_lines_come_from_standard_input_too(shell: Shell) -> None:
    line = '{"ts":"2026-03-10T09:00:00Z","kind":"tool_call","agent":"a1"}\n'

    assert shell("ingest", "-", "--db", "x.duckdb", "--json", stdin=line).json["events"] == 1


def test_a_rebuilt_database_holds_what_the_old_one_held(shell: Shell, tmp_path: Path) -> None:
    gate_log(tmp_path)
    shell("ingest", "gate.jsonl", str(tmp_path / "gate.jsonl"), "--db", "x.duckdb")
    shell("detect", "--db", "x.duckdb")
    [alert] = shell("alerts", "--db", "x.duckdb", "--json").json
    shell("verdict", alert["alert_id"], "true", "--actor", "kim", "--db", "x.duckdb")
    before = tables(tmp_path)

    rebuilt = shell("rebuild", "--db", "x.duckdb", "--json").json

    assert rebuilt["events"] == 3
    assert tables(tmp_path) == before
    assert shell("verify", "--db", "x.duckdb", "--json").json["ok"]


def tables(folder: Path) -> dict[str, Any]:
    world = World.__new__(World)
    from ingest.store import open_store

    world.store = open_store(folder / "x.duckdb")
    wanted = {
        "events": "SELECT * FROM events ORDER BY event_id",
        "calls": "SELECT * FROM calls ORDER BY call_key",
        "minute_counts": "SELECT * FROM minute_counts ORDER BY ALL",
        "sources": "SELECT * FROM sources ORDER BY source",
        "alerts": "SELECT alert_id, detector, subject, started_at, ended_at, title, verdict,"
                  " verdict_by, acked_by FROM alerts ORDER BY alert_id",
        "incidents": "SELECT * FROM incidents ORDER BY incident_id",
    }  # fmt: skip
    found = {name: world.rows(sql) for name, sql in wanted.items()}
    world.store.close()
    return found


def test_a_changed_or_cut_ledger_does_not_verify(shell: Shell, tmp_path: Path) -> None:
    gate_log(tmp_path)
    shell("ingest", "gate.jsonl", "--db", "x.duckdb")
    [segment] = (tmp_path / "x.ledger").glob("*/*.ndjson")
    whole = segment.read_bytes()

    segment.write_bytes(whole.replace(b"crm.export_contacts", b"crm.export_contactz", 1))
    changed = shell("verify", "--db", "x.duckdb")
    segment.write_bytes(b"")
    cut = shell("verify", "--db", "x.duckdb")

    assert changed.code == 1
    assert "the lines up to 3 are not those that were there before" in changed.out
    assert cut.code == 1
    assert "it was cut" in cut.out


MISTAKES = {
    "unknown adapter": (
        ("ingest", "gate.jsonl", "--adapter", "natve", "--db", "x.duckdb"), 2,
        "--adapter: no adapter called 'natve'. Did you mean 'native'?"
        " One of your own: name its folder as adapters_folder.",
    ),
    "unreadable file": (
        ("ingest", "none.jsonl", "--db", "x.duckdb"), 2,
        "none.jsonl: cannot be read: No such file or directory.",
    ),
    "a folder": (
        ("ingest", ".", "--db", "x.duckdb"), 2, ".: cannot be read: Is a directory.",
    ),
    "no such alert": (("ack", "al_1", "--db", "x.duckdb"), 2, "no alert 'al_1'."),
    "wrong verdict": (
        ("verdict", "al_1", "treu", "--db", "x.duckdb"), 2,
        "verdict: 'treu' is none. Did you mean 'true'?",
    ),
    "no database": (
        ("sql", "SELECT 1", "--db", "y.duckdb"), 2,
        "y.duckdb: there is no database. `gatewatch ingest` makes one.",
    ),
    "wrong sql": (
        ("sql", "DELETE FROM events", "--db", "x.duckdb"), 2, "sql: one SELECT, nothing else.",
    ),
    "unknown detector": (
        ("detect", "--only", "deny_rety", "--db", "x.duckdb"), 2,
        "--only: no detector 'deny_rety'. Did you mean 'deny_retry'?",
    ),
    "wrong time": (
        ("detect", "--since", "yesterday", "--db", "x.duckdb"), 2,
        "--since: 'yesterday' is no time. Write 2026-03-10T09:00:00Z, 2026-03-10 or 30d.",
    ),
    "no config": (
        ("serve", "--config", "none.toml"), 2,
        "none.toml: no such file. `gatewatch init` writes one.",
    ),
    "unknown receiver": (
        ("test-send", "ops"), 2, "no receiver 'ops'. No [receivers.NAME] is configured.",
    ),
    "no ledger": (("verify", "--db", "y.duckdb"), 2, "y.ledger: there is no ledger here."),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_gets_one_clear_sentence(name: str, shell: Shell, tmp_path: Path) -> None:
    words, code, says = MISTAKES[name]
    if "x.duckdb" in words and "ingest" not in words:
        gate_log(tmp_path)
        shell("ingest", "gate.jsonl", "--db", "x.duckdb")
    elif "ingest" in words:
        gate_log(tmp_path)

    done = shell(*words)

    assert done.err.strip() == says
    assert done.code == code
    assert done.out == ""


CONFIGS = {
    "[service]\nprot = 1": "service: unknown key 'prot'. Did you mean 'port'?",
    "[detectors.deny_rety]\ndenials = 4":
        "detectors.deny_rety: no such detector. Did you mean 'deny_retry'?",
    "[detectors.deny_retry]\ndenials = 99": "detectors.deny_retry.denials: 99 is above the maximum",
    "[receivers.ops]\ntype = 'dingding'": "receivers.ops.type: no receiver called 'dingding'.",
    "policy = 'none.json'": "none.json",
    "data = ": "not TOML",
}  # fmt: skip


@pytest.mark.parametrize("config", CONFIGS)
def test_a_wrong_config_key_is_named_with_its_file(
    config: str, shell: Shell, tmp_path: Path
) -> None:
    (tmp_path / "gatewatch.toml").write_text(config)

    done = shell("serve")

    assert done.code == 2
    assert CONFIGS[config] in done.err
    assert len(done.err.strip().splitlines()) == 1


def test_a_detector_with_a_wrong_column_stops_nothing_and_is_named(
    shell: Shell, tmp_path: Path
) -> None:
    gate_log(tmp_path)
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "my_own.sql").write_text(MY_OWN)
    (tmp_path / "gatewatch.toml").write_text('detectors_folder = "mine"\n')

    done = shell("detect", "--db", "x.duckdb")

    assert done.code == 2
    assert "my_own.sql: subject must be VARCHAR, found None." in done.err


MY_OWN = """\
-- title    = "{sbject}"
-- title_zh = "{sbject}"
-- severity = "low"
-- why      = "x"
-- respond  = "x"
-- quiet    = "x"
-- lookback = "0 seconds"
-- gap      = "1 minute"
-- needs    = []
SELECT agent AS sbject, ts AS started_at, ts AS ended_at, event_ids
FROM calls WHERE ts >= $since AND ts < $until
"""


@pytest.fixture
def served(shell: Shell) -> Iterator[Shell]:
    with serving(shell):
        yield shell


@contextmanager
def serving(shell: Shell) -> Iterator[None]:
    """A running service, in the folder of the shell."""
    (shell.folder / "gatewatch.toml").write_text(
        f"[service]\nport = {free_port()}\n"
        "[sources.gate]\nadapter = 'native'\npaths = ['*.jsonl']\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "gatewatch", "serve"], cwd=shell.folder, env=shell.env,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    assert "listens" in process.stderr.readline()
    yield
    process.terminate()
    assert process.wait(30) == 0
    process.stderr.close()


def free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_while_a_service_holds_the_file_commands_ask_it(served: Shell) -> None:
    gate_log(served.folder)

    for _ in range(100):
        alerts = served("alerts", "--json").json
        if alerts:
            break

    [alert] = alerts
    assert served("ack", alert["alert_id"], "--actor", "kim", "--json").json["acked_by"] == "kim"
    assert "Why:" in served("explain", alert["alert_id"]).out
    assert served("sql", "SELECT count(*) AS n FROM events", "--json").json == [{"n": 3}]
    line = '{"ts":"2026-03-10T09:00:00Z","kind":"tool_call","agent":"a1"}\n'
    pushed = served("ingest", "-", "--source", "gate", "--json", stdin=line)
    assert pushed.json["events"] == 1
    held = served("detect")
    assert held.code == 2
    assert "Stop the service to judge its database by hand." in held.err
    again = served("serve")
    assert again.code == 2
    assert "Is a service running already?" in again.err


def test_a_large_file_goes_through_the_service_in_pieces(served: Shell) -> None:
    line = '{"ts":"2026-03-10T09:00:00Z","kind":"message","agent":"a1","text":"%s","id":"%d"}\n'
    text = "".join(line % ("x" * 500_000, number) for number in range(40))  # 20 MB
    (served.folder / "large.log").write_text(text)

    landed = served("ingest", "large.log", "--source", "gate", "--json").json

    assert (landed["lines"], landed["events"]) == (40, 40)


def test_a_line_that_cannot_go_through_the_service_is_not_dropped_unsaid(served: Shell) -> None:
    (served.folder / "long.log").write_text('{"text":"%s"}\n' % ("x" * 2**21))

    done = served("ingest", "long.log", "--source", "gate", "--json")

    assert done.code == 2
    assert "limits.line_bytes" in done.err


def test_a_dry_run_closes_the_windows_that_keeping_closes(shell: Shell, tmp_path: Path) -> None:
    with (tmp_path / "gate.jsonl").open("w") as log:
        for number in range(400):
            stamp = f"2026-03-10T09:0{number % 4}:0{number % 10}Z"
            doc = {"ts": stamp, "kind": "egress", "agent": "a1", "host": f"h{number}.example"}
            log.write(json.dumps(doc) + "\n")
    shell("ingest", "gate.jsonl", "--db", "x.duckdb")

    dry = shell("detect", "--db", "x.duckdb", "--dry-run", "--json").json
    kept = shell("detect", "--db", "x.duckdb", "--json").json

    assert "external_call_spike" in {row["detector"] for row in kept}
    assert [row["title"] for row in dry] == [row["title"] for row in kept]


def test_labels_of_runs_are_imported_and_a_wrong_one_is_named(shell: Shell, tmp_path: Path) -> None:
    gate_log(tmp_path)
    shell("ingest", "gate.jsonl", "--db", "x.duckdb")
    (tmp_path / "rules").mkdir()
    labels = tmp_path / "labels.jsonl"

    labels.write_text('{"trace_id": "t-1", "label": "misaction"}\n')
    mined = shell(
        "mine", "--labels", "labels.jsonl", "--rules", "rules", "--db", "x.duckdb", "--json"
    )
    kept = shell(
        "sql", "SELECT trace_id, label, author FROM incidents", "--db", "x.duckdb", "--json"
    )
    labels.write_text('{"trace_id": "t-1", "label": "bad"}\n')
    wrong = shell("mine", "--labels", "labels.jsonl", "--rules", "rules", "--db", "x.duckdb")

    assert mined.code == 0
    assert kept.json == [{"trace_id": "t-1", "label": "misaction", "author": "import"}]
    assert wrong.code == 2
    assert wrong.err.strip() == "labels.jsonl: line 1: `label` is misaction or good."
