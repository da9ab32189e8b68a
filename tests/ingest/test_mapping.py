"""A mapping: a table of columns and JSON paths reads a log that nobody has seen before."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest import adapter, mapping
from ingest.config import ConfigError
from ingest.paths import checked, literal
from ingest.store import fetch, memory_store
from tests.kit_command import gatewatch, run
from tests.kit_http import running

NOW = datetime(2026, 3, 11, tzinfo=UTC)
TILL = """
title = "The gate of the till"
key = ["$.id"]

[columns]
ts = "$.time"
agent = ["$.actor.name", "$.actor.id"]
tool = "$.call.name"
params = "$.call.args"
latency_ms = "$.took"
rule_ids = "$.rules"
port = "$.port"
status = "$.outcome"
op = "$.does"
tenant = { value = "shop's" }

[columns.kind]
path = "$.type"
words = { JUDGED = "tool_decided", DONE = "tool_executed" }
default = "other"

[columns.decision]
path = "$.verdict"
words = { GO = "allow", STOP = "deny" }

[attrs]
shop = "$.shop"
"@id" = '$."a key".@id'
"""
LINE: dict[str, Any] = {
    "id": 7, "time": "2026-03-10T09:00:00Z", "type": "judged", "actor": {"id": "a1"},
    "call": {"name": "pay", "args": '{"amount": 12.5}'}, "verdict": "STOP", "rules": ["r", 1],
    "took": "3.5", "port": 443, "does": "commit", "shop": {"n": 4}, "a key": {"@id": "x"},
}  # fmt: skip


def made(folder: Path, text: str, name: str = "till") -> Path:
    (folder / f"{name}.toml").write_text(text, encoding="utf-8")
    return folder


STORE = memory_store()  # to make one takes longer than all that is asked of it here


def events(folder: Path, *docs: Any, name: str = "till") -> list[dict[str, Any]]:
    """What a mapping makes of these lines; absent columns left out."""
    with STORE.writing() as db:
        found = adapter.load(name, db, "tests", folder)
        numbered = [(at, json.dumps(doc)) for at, doc in enumerate(docs, start=1)]
        with adapter.lines(db, "gate", NOW, numbered):
            rows = fetch(db, found.events, at=NOW)
    rows.sort(key=lambda row: (row["ledger_seq"], row["event_id"]))
    return [{key: value for key, value in row.items() if value is not None} for row in rows]


def error(folder: Path, text: str) -> str:
    with pytest.raises(ConfigError) as raised:
        events(made(folder, text))
    return str(raised.value).replace(str(folder), "")


def test_a_line_becomes_an_event_column_by_column(tmp_path: Path) -> None:
    [row] = events(made(tmp_path, TILL), LINE)

    assert row.pop("event_id")
    assert row.pop("ts") == datetime(2026, 3, 10, 9, tzinfo=UTC)
    assert json.loads(row.pop("attrs")) == {"shop": {"n": 4}, "@id": "x"}
    assert row == {
        "kind": "tool_decided", "source": "gate", "ledger_seq": 1, "native_id": "7",
        "ts_quality": "source", "agent": "a1", "tenant": "shop's", "tool": "pay",
        "params": '{"amount":12.5}', "decision": "deny", "decision_native": "STOP",
        "rule_ids": ["r", "1"], "latency_ms": 3.5, "port": 443, "op": "commit",
        "op_basis": "declared",
    }  # fmt: skip


@pytest.mark.parametrize(
    "time",
    [
        "2026-03-10T09:00:00Z", "2026-03-10T10:00:00+01:00", "2026-03-10 09:00:00,000",
        "20260310T090000Z", "2026-03-10T08:59:60Z", 1773133200, 1773133200.0, "1773133200",
        1773133200000, 1773133200000000, 1773133200000000000,
    ],
)  # fmt: skip
def test_a_time_is_read_in_every_form_that_the_native_format_takes(
    tmp_path: Path, time: object
) -> None:
    [row] = events(made(tmp_path, TILL), LINE | {"time": time})

    assert row["ts"] == datetime(2026, 3, 10, 9, tzinfo=UTC)


@pytest.mark.parametrize("missing", ["time", "type"])
def test_a_line_without_time_or_kind_gives_no_event(tmp_path: Path, missing: str) -> None:
    text = TILL.replace('default = "other"\n', "")

    assert events(made(tmp_path, text), {**LINE, missing: None}) == []


def test_a_word_that_none_of_ours_stands_for_is_kept_beside(tmp_path: Path) -> None:
    line = LINE | {"type": "SIGHED", "verdict": "HM", "outcome": "odd", "does": "x"}

    [row] = events(made(tmp_path, TILL), line)

    assert (row["kind"], row["decision_native"]) == ("other", "HM")
    assert {"decision", "status", "op", "op_basis"} & row.keys() == set()
    assert json.loads(row["attrs"]).items() >= {
        ("kind_native", "SIGHED"), ("status_native", "odd"), ("op_native", "x"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("word", "ours"), [("ALLOWED", "allow"), ("Blocked", "deny"), ("escalate", "require_approval")]
)
def test_words_that_gates_often_use_need_no_table(tmp_path: Path, word: str, ours: str) -> None:
    text = 'title = "T"\n[columns]\nkind = { value = "tool_decided" }\ndecision = "$.d"\n'

    [row] = events(made(tmp_path, text), {"d": word})

    assert (row["decision"], row["ts_quality"]) == (ours, "receiver")


def test_a_key_with_its_kind_is_one_event_however_often_it_comes(tmp_path: Path) -> None:
    again = LINE | {"took": "4"}
    done = LINE | {"type": "DONE"}

    rows = events(made(tmp_path, TILL), LINE, again, done, LINE | {"id": None})

    ids = [row["event_id"] for row in rows]
    assert ids[0] == ids[1]
    assert len(set(ids)) == 3
    assert "native_id" not in rows[3]


def test_an_envelope_gives_an_event_an_element_and_the_whole_line_stays_in_reach(
    tmp_path: Path,
) -> None:
    text = """
title = "Envelopes"
format = "json"
envelope = "$.body.items"
[columns]
ts = "$.t"
kind = { value = "egress" }
host = "$.to"
agent = "^.sender.name"
"""
    docs = {"sender": {"name": "a1"}, "body": {"items": [{"t": 1773133200, "to": "x.example"}, 3,
            {"t": 1773133201, "to": "y.example"}]}}  # fmt: skip

    rows = events(made(tmp_path, text), docs, {"body": {"items": {}}}, {"sender": 1})

    assert [(row["agent"], row["host"]) for row in rows if row["ledger_seq"] == 1] in (
        [("a1", "x.example"), ("a1", "y.example")],
        [("a1", "y.example"), ("a1", "x.example")],
    )
    assert len({row["event_id"] for row in rows}) == len(rows) == 2


MISTAKES = {
    "a column that is none": (
        'titel = "T"\n[columns]\n',
        "/till.toml: unknown key 'titel'. Did you mean 'title'?",
    ),
    "no kind": (
        'title = "T"\n[columns]\nagent = "$.a"\n',
        "/till.toml: columns.kind: is missing. It says what one line is.",
    ),
    "a misspelled column": (
        'title = "T"\n[columns]\nkind = "$.k"\nagnet = "$.a"\n',
        "/till.toml: columns.agnet: there is no such column. Did you mean 'agent'?",
    ),
    "a column that is made": (
        'title = "T"\n[columns]\nkind = "$.k"\nledger_seq = "$.a"\n',
        "/till.toml: columns.ledger_seq: there is no such column.",
    ),
    "a bare name": (
        'title = "T"\n[columns]\nkind = "type"\n',
        "/till.toml: columns.kind: 'type' is no path. Did you mean '$.type'?",
    ),
    "a wildcard": (
        'title = "T"\n[columns]\nkind = "$.a[*]"\n',
        "/till.toml: columns.kind: '$.a[*]' is no path. Write $.name, $.outer.inner, $.list[0] or"
        ' $."a name with spaces".',
    ),
    "a word of nobody": (
        'title = "T"\n[columns]\nkind = { path = "$.k", words = { A = "tool_decide" } }\n',
        "/till.toml: columns.kind: no word 'tool_decide'. Did you mean 'tool_decided'?",
    ),
    "a value of nobody": (
        'title = "T"\n[columns]\nkind = { value = "tool_run" }\n',
        "/till.toml: columns.kind: no word 'tool_run'.",
    ),
    "path and value": (
        'title = "T"\n[columns]\nkind = { value = "other", path = "$.a" }\n',
        "/till.toml: columns.kind: either a path or a value, and not both.",
    ),
    "an unknown key": (
        'title = "T"\n[columns]\nkind = { pth = "$.a" }\n',
        "/till.toml: columns.kind: unknown key 'pth'. Did you mean 'path'?",
    ),
    "a number for a path": (
        'title = "T"\n[columns]\nkind = 3\n',
        "/till.toml: columns.kind: a path, a list of paths or a table; found 3.",
    ),
    "a constant time": (
        'title = "T"\n[columns]\nkind = "$.k"\nts = { value = "2026" }\n',
        "/till.toml: columns.ts: a time is a path, or a list of paths.",
    ),
    "the line without an envelope": (
        'title = "T"\n[columns]\nkind = "^.k"\n',
        "/till.toml: columns.kind: '^.k' reads the whole line, and there is no envelope.",
    ),
    "a word twice": (
        'title = "T"\n[columns]\nkind = { path = "$.k", words = { A = "other", a = "egress" } }\n',
        "/till.toml: columns.kind: 'a' is there twice, with another meaning.",
    ),
    "a control character": (
        'title = "T"\n[columns]\nkind = "$.k"\ntenant = { value = "a\\u0000b" }\n',
        "/till.toml: columns.tenant: 'a\\x00b' holds characters that cannot be printed.",
    ),
    "a broken file": ("title = ", "/till.toml: not TOML: "),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named_with_its_key_and_the_nearest_right_word(
    tmp_path: Path, mistake: str
) -> None:
    text, said = MISTAKES[mistake]

    assert error(tmp_path, text).startswith(said)


HOSTILE = ["x'); DROP TABLE events; --", "'", "''", "\\'", "\\", "$$", "{0}", "%s", "-- ", "/*"]


@pytest.mark.parametrize("hostile", HOSTILE)
def test_no_name_and_no_word_can_add_to_the_query(tmp_path: Path, hostile: str) -> None:
    key = hostile.replace('"', "")
    text = f"""
title = {json.dumps(hostile)}
key = {json.dumps([f'$."{key}"' if not {chr(92), "*"} & {*key} else "$.k"])}
[columns]
kind = {{ value = "other" }}
tool = {{ path = "$.tool", words = {{ {json.dumps(hostile)} = {json.dumps(hostile)} }} }}
tenant = {{ value = {json.dumps(hostile)} }}
[attrs]
{json.dumps(hostile)} = "$.tool"
"""

    [row] = events(made(tmp_path, text), {"tool": hostile, key: "k", "k": "k"})

    assert (row["tool"], row["tenant"], row["native_id"]) == (hostile, hostile, "k")
    assert json.loads(row["attrs"]) == {hostile: hostile}


@settings(max_examples=200, deadline=None)
@given(path=st.text(max_size=12).map(lambda text: f"$.{text}"))
def test_a_path_is_refused_or_reads_the_key_that_it_names(path: str) -> None:
    try:
        read = checked(path, "here")
    except ConfigError:
        return
    with STORE.writing() as db:
        db.execute(f"SELECT json_extract_string('{{}}'::JSON, [{literal(read, '')}])").fetchall()


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text(max_size=8)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=5,
)  # fmt: skip


@settings(max_examples=8, deadline=None)
@given(
    changes=st.lists(
        st.dictionaries(st.sampled_from(sorted(LINE)), VALUES, max_size=3), min_size=8, max_size=20
    )
)
def test_no_type_of_any_field_raises(
    tmp_path_factory: pytest.TempPathFactory, changes: list[dict[str, Any]]
) -> None:
    folder = made(tmp_path_factory.mktemp("any"), TILL)

    rows = events(folder, *(LINE | change for change in changes))

    assert {row["kind"] for row in rows} <= set(mapping.WORDS["kind"])


def test_the_lines_of_an_own_format_come_back_with_a_rebuild(tmp_path: Path) -> None:
    own, log, db = tmp_path / "own", tmp_path / "till.log", tmp_path / "till.duckdb"
    own.mkdir()
    made(own, TILL)
    denials = [LINE | {"id": n, "time": f"2026-03-10T09:0{n}:00Z"} for n in range(3)]
    log.write_text("".join(json.dumps(line) + "\n" for line in denials) + '{"no": 1}\n')

    counts = gatewatch("ingest", log, "--adapter", "till", "--adapters", own, db=db)
    again = gatewatch("rebuild", "--adapters", own, db=db)
    [alert] = gatewatch("detect", db=db)

    assert (counts["events"], counts["quarantined"]) == (3, 1)
    assert (again["events"], again["quarantined"]) == (3, 1)
    assert (alert["detector"], alert["subject"]) == ("deny_retry", "a1")


def test_a_rebuild_without_the_folder_says_what_is_missing_and_leaves_all_as_it_was(
    tmp_path: Path,
) -> None:
    own, log, db = tmp_path / "own", tmp_path / "till.log", tmp_path / "till.duckdb"
    own.mkdir()
    made(own, TILL)
    log.write_text(json.dumps(LINE) + "\n")
    gatewatch("ingest", log, "--adapter", "till", "--adapters", own, db=db)

    done = run("rebuild", "--db", db, folder=tmp_path)

    assert done.returncode == 2
    assert "sources.till.adapter: no adapter called 'till'." in done.stderr
    assert "adapters_folder" in done.stderr
    assert gatewatch("sql", "SELECT count(*) AS n FROM events", db=db) == [{"n": 1}]


def test_a_config_names_the_folder_once_for_every_command(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    made(tmp_path / "own", TILL)
    (tmp_path / "gatewatch.toml").write_text(
        'adapters_folder = "own"\nredact_key = "redact.key"\n'
        '[sources.till]\nadapter = "till"\npaths = ["*.log"]\n'
    )
    (tmp_path / "till.log").write_text(json.dumps(LINE) + "\n")

    done = run("ingest", "till.log", "--adapter", "till", "--json", folder=tmp_path)
    checked_ = run("doctor", "--json", folder=tmp_path)

    assert json.loads(done.stdout)["events"] == 1, done.stderr
    assert "till" in checked_.stdout


def test_a_service_takes_pushes_in_an_own_format_at_the_path_that_its_table_names(
    tmp_path: Path,
) -> None:
    (tmp_path / "own").mkdir()
    made(tmp_path / "own", 'paths = ["/v1/till"]\n' + TILL)
    config = 'adapters_folder = "own"\n[sources.till]\nadapter = "till"\n'
    with running(tmp_path, config) as service:
        by_source = service.http.post("/v1/ingest/till", json=[LINE, LINE | {"id": 8}])
        by_path = service.http.post("/v1/till", json=LINE | {"id": 9, "time": "soon"})

        assert (by_source.status_code, by_path.status_code) == (200, 200)
        [counts] = service.rows("SELECT events, quarantined FROM sources")
        [why] = service.rows("SELECT reason, detail FROM quarantine")

    assert counts == {"events": 2, "quarantined": 1}
    assert why == {"reason": "time", "detail": "no usable time under 'time': 'soon'"}


def test_an_own_adapter_in_sql_is_held_to_what_ours_are(tmp_path: Path) -> None:
    (tmp_path / "mine.sql").write_text(
        "-- title = \"Mine\"\nSELECT 'seq:' || ledger_seq AS event_id, 'other' AS kind, source,"
        " ledger_seq, received_at AS ts FROM lines"
    )
    (tmp_path / "two.sql").write_text('-- title = "Two"\nSELECT 1; SELECT 2')

    [row] = events(tmp_path, {}, name="mine")

    assert row["kind"] == "other"
    with pytest.raises(ConfigError, match="an adapter is one SELECT, nothing else"):
        events(tmp_path, {}, name="two")


def test_an_own_adapter_cannot_take_the_name_of_one_of_ours(tmp_path: Path) -> None:
    made(tmp_path, TILL, "native")

    with pytest.raises(ConfigError, match=r"native\.toml: there is an adapter 'native' already"):
        events(tmp_path, LINE)
