"""`gatewatch coverage`: what the user's own sources can feed."""

import json
from pathlib import Path

from tests.kit_command import ROOT, gatewatch, run
from tests.kit_http import lines, running

SAMPLES = ROOT / "tests" / "ingest" / "adapters"


def test_the_sources_of_the_data_and_those_that_sent_nothing_yet(tmp_path: Path) -> None:
    (tmp_path / "gatewatch.toml").write_text(
        '[sources.till]\nadapter = "gatehouse"\n[sources.latch]\nadapter = "latch"\n'
    )
    db = tmp_path / "c.duckdb"
    gatewatch("ingest", SAMPLES / "latch.ndjson", "--adapter", "latch", db=db)

    rows = gatewatch("coverage", db=db)

    told = {(each["source"], each["detector"]): each for each in rows}
    seen, could = told["latch", "deny_retry"], told["till", "deny_retry"]
    assert (seen["events"], seen["feeds"], seen["coarse"]) == (True, "alone", ["agent"])
    assert seen["filled"]["decision"] == 1
    assert (could["events"], could["feeds"]) == (False, "alone")
    assert could["filled"] == {"agent": None, "tool": None, "decision": None}
    assert told["latch", "config_churn"]["lacks"] == ["config_object", "config_after"]


def test_a_table_for_people_says_which_share_is_filled(tmp_path: Path) -> None:
    db = tmp_path / "c.duckdb"
    gatewatch("ingest", SAMPLES / "latch.ndjson", "--adapter", "latch", db=db)

    done = run("coverage", "--db", db, folder=tmp_path)

    [row] = [line for line in done.stdout.splitlines() if " deny_retry" in line]
    assert "decision 100%" in row
    assert "agent: counts for the session or source" in row


def test_before_there_is_anything_it_says_so(tmp_path: Path) -> None:
    nothing, missing = (
        run("coverage", folder=tmp_path),
        run("coverage", "--db", "no.duckdb", folder=tmp_path),
    )

    assert (nothing.returncode, nothing.stdout) == (0, "")
    assert "There is no source yet" in nothing.stderr
    assert missing.returncode == 2


def test_a_running_service_is_asked(tmp_path: Path) -> None:
    with running(tmp_path) as service:
        assert service.http.post("/v1/events", content=lines(1, 2, 3)).status_code == 200

        done = run("coverage", "--json", folder=tmp_path)

    told = {(each["source"], each["detector"]): each for each in json.loads(done.stdout)}
    [source] = {source for source, _ in told}
    assert told[source, "deny_retry"]["feeds"] == "alone"
