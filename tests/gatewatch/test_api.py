"""The service's HTTP, asked as senders, viewers and operators ask it."""

import asyncio
import gzip
import json
import zlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard

from gatewatch import body as intake
from gatewatch.parts import utc_now
from ingest.config import ConfigError
from tests.kit_http import CASES, Asked, lines

OPEN = '[sources.gate]\nadapter = "native"\n'
TOKENS = (
    OPEN
    + """
[[tokens]]
name = "gate"
role = "writer"
source = "gate"
token = "w-token"
[[tokens]]
name = "wall"
role = "viewer"
token = "v-token"
[[tokens]]
name = "oncall"
role = "operator"
token = "o-token"
"""
)


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[Asked]:
    found = Asked(tmp_path, OPEN)
    yield found
    found.parts.close()


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Asked]:
    found = Asked(tmp_path, TOKENS)
    yield found
    found.parts.close()


def test_a_batch_whose_answer_was_lost_lands_once(asked: Asked) -> None:
    """B036: the sender posts it again, with its key and then without."""
    case = json.loads((CASES / "B036-http-retry.http.json").read_text())

    answers = [
        asked.http.post(each["path"], content=each["body"], headers=each.get("headers", {}))
        for each in case["requests"]
    ]

    assert [answer.status_code for answer in answers] == [200, 200, 200]
    assert [answer.json()["events"] for answer in answers] == [3, 0, 0]
    assert answers[1].json()["repeated"]
    rows = asked.rows("SELECT native_id FROM events ORDER BY 1")
    assert [row["native_id"] for row in rows] == case["expect"]["event_ids_once"]


PACKERS: dict[Any, str] = {
    gzip.compress: "gzip", zstandard.compress: "zstd", zlib.compress: "deflate",
}  # fmt: skip


@pytest.mark.parametrize("pack", [bytes, *PACKERS, "members", "array"])
def test_a_body_may_be_packed(asked: Asked, pack: Any) -> None:
    body, coding = lines(1, 2, 3), "identity"
    if pack == "array":
        body = b"[" + b",".join(body.splitlines()) + b"]"
    elif pack == "members":
        body, coding = gzip.compress(lines(1)) + gzip.compress(lines(2, 3)), "gzip"
    else:
        coding = PACKERS.get(pack, "identity")
        body = pack(body)

    answer = asked.http.post("/v1/events", content=body, headers={"content-encoding": coding})

    assert answer.json()["events"] == 3


def test_a_small_body_that_unpacks_to_a_huge_one_is_refused(asked: Asked) -> None:
    """B178."""
    huge = b"0" * 2**27
    statuses = [
        asked.http.post(
            "/v1/events", content=body, headers={"content-encoding": coding}
        ).status_code
        for body, coding in (
            (gzip.compress(huge), "gzip"),
            (zstandard.compress(huge), "zstd"),
            (gzip.compress(gzip.compress(huge)), "gzip, gzip"),
            (zlib.compress(huge), "deflate"),
            (zlib.compress(b"cut off")[:-5], "deflate"),
            (zstandard.compress(b"cut off")[:-5], "zstd"),
            (zstandard.compress(b"whole") + zstandard.compress(b"cut off")[:6], "zstd"),
        )
    ]

    assert statuses == [413, 413, 415, 413, 400, 400, 400]
    assert asked.rows("SELECT count(*) AS n FROM events") == [{"n": 0}]


def test_a_line_that_is_no_json_is_kept_and_the_others_land(asked: Asked) -> None:
    answer = asked.http.post("/v1/ingest/gate", content=lines(1) + b"{no\n" + lines(2))

    assert answer.json() | {"id_conflicts": 0} == {
        "lines": 3, "events": 2, "duplicates": 0, "quarantined": 1, "id_conflicts": 0,
        "repeated": False,
    }  # fmt: skip
    assert asked.rows("SELECT raw FROM quarantine") == [{"raw": "{no"}]


def test_an_unknown_source_is_refused_with_the_nearest_name(asked: Asked) -> None:
    answer = asked.http.post("/v1/ingest/gaet", content=lines(1))

    assert (answer.status_code, answer.json()["error"]) == (
        404, "no source 'gaet'. Did you mean 'gate'?"
    )  # fmt: skip


def test_each_role_may_do_its_own_and_no_more(guarded: Asked) -> None:
    def status(method: str, path: str, token: str, **more: Any) -> int:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return guarded.http.request(method, path, headers=headers, **more).status_code

    sql = {"json": {"sql": "SELECT 1"}}
    assert status("POST", "/v1/events", "", content=lines(1)) == 401
    assert status("POST", "/v1/events", "wrong", content=lines(1)) == 401
    assert status("POST", "/v1/events", "w-token", content=lines(1)) == 200
    assert status("POST", "/v1/events", "v-token", content=lines(2)) == 403
    assert status("POST", "/v1/sql", "w-token", **sql) == 403
    assert status("POST", "/v1/sql", "v-token", **sql) == 200
    assert status("POST", "/v1/sql", "o-token", **sql) == 200
    ack = {"json": {"actor": "kim"}}
    assert status("POST", "/v1/alerts/al_1/ack", "v-token", **ack) == 403
    assert status("POST", "/v1/alerts/al_1/ack", "o-token", **ack) == 400  # no such alert


def test_without_tokens_a_page_of_another_origin_gets_nothing(asked: Asked) -> None:
    body = {"sql": "SELECT 1"}

    assert asked.http.post("/v1/sql", json=body, headers={"origin": "https://evil.example"}
                           ).status_code == 403  # fmt: skip
    assert asked.http.post("/v1/sql", json=body, headers={"host": "evil.example"}
                           ).status_code == 403  # fmt: skip


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("DELETE FROM events", "one SELECT, nothing else."),
        ("SELECT 1; SELECT 2", "one SELECT, nothing else."),
        ("SELECT nonsense", "nonsense"),
        ("SELECT * FROM read_csv('/etc/passwd')", "read_csv"),
        (
            "WITH x AS (INSERT INTO landed VALUES (1, '') RETURNING 1) FROM x",
            "read-only",
        ),
        ("", "one SELECT, nothing else."),
    ],
)
def test_sql_is_one_select_over_our_own_tables(asked: Asked, sql: str, says: str) -> None:
    status, error = asked.rows(sql)

    assert status == 400
    assert says in error


def test_sql_takes_parameters(asked: Asked) -> None:
    assert asked.rows("SELECT $x::INT + 1 AS y", x=4) == [{"y": 5}]


def test_an_alert_is_acknowledged_judged_and_explained(asked: Asked) -> None:
    asked.http.post("/v1/events", content=lines(1, 2, 3, trace_id="t-1"))
    asked.parts.tick(utc_now())
    [alert] = asked.rows("SELECT alert_id FROM alerts")
    path = f"/v1/alerts/{alert['alert_id']}"

    acked = asked.http.post(f"{path}/ack", json={"actor": "kim", "reason": "on it"}).json()
    judged = asked.http.post(f"{path}/verdict", json={"actor": "kim", "verdict": "true"}).json()
    wrong = asked.http.post(f"{path}/verdict", json={"actor": "kim", "verdict": "tru"})
    told = asked.http.get(f"{path}/explain").json()

    assert acked["acked_by"] == "kim"
    assert judged["verdict"] == "true"
    assert wrong.status_code == 400
    assert wrong.json()["error"] == "verdict: 'tru' is none. Did you mean 'true'?"
    assert told["trace_ids"] == ["t-1"]
    rows = asked.rows("SELECT trace_id, label FROM incidents")
    assert rows == [{"trace_id": "t-1", "label": "misaction"}]


def test_readyz_is_red_while_something_is_wrong(asked: Asked) -> None:
    assert asked.http.get("/readyz").status_code == 200

    asked.health["judge"] = "has not come round for 300 s"

    assert asked.http.get("/readyz").status_code == 503
    assert asked.http.get("/healthz").status_code == 200


def test_the_metrics_page_holds_counts_and_no_text_from_logs(asked: Asked) -> None:
    asked.http.post("/v1/ingest/gate", content=lines(1, 2, 3, trace_id='"}\nevil{x="'))
    asked.parts.tick(utc_now())

    page = asked.http.get("/metrics").text

    assert 'gatewatch_ingest_events_total{source="gate"} 3.0' in page
    assert 'gatewatch_alerts_active{detector="deny_retry",severity="high"} 1.0' in page
    assert "evil" not in page


def test_sql_sees_no_variable_of_the_service(asked: Asked) -> None:
    status, error = asked.rows("SELECT * FROM statements")

    assert status == 400
    assert "statements" in error


def test_a_key_that_is_used_again_for_other_lines_loses_none(asked: Asked) -> None:
    for number in (1, 2):
        answer = asked.http.post(
            "/v1/events", content=lines(number), headers={"Idempotency-Key": "batch-1"}
        )
        assert answer.json()["events"] == 1


@pytest.mark.parametrize("key", [{}, {"Idempotency-Key": "batch-1"}])
def test_lines_that_were_sent_as_another_format_are_taken_when_they_come_as_their_own(
    tmp_path: Path, key: dict[str, str]
) -> None:
    asked = Asked(tmp_path, TOKENS)
    headers = {"Authorization": "Bearer w-token"} | key

    first = asked.http.post("/v1/ingest/kong_ai", content=lines(3), headers=headers)
    second = asked.http.post("/v1/events", content=lines(3), headers=headers)

    assert first.json()["quarantined"] == 1
    assert second.json()["events"] == 1
    asked.parts.close()


def test_a_slow_sender_is_let_go(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "BODY_SECONDS", 0.05)

    async def slow() -> AsyncIterator[bytes]:
        yield lines(1)
        await asyncio.Event().wait()

    answer = asked.http.post("/v1/events", content=slow())

    assert answer.status_code == 408
    assert asked.http.post("/v1/events", content=lines(1)).json()["events"] == 1


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/mined", {"actor": "x", "results": [{}]}),
        ("/v1/mined", {"actor": "x", "results": [], "rules": [{"doc": {}}]}),
        ("/v1/mined", {"actor": "x", "results": json.loads("[" * 90 + "]" * 90)}),
        ("/v1/labels", {"actor": "x", "rows": [{"trace_id": "t-1"}]}),
        ("/v1/labels", {"actor": "x", "rows": [{"trace_id": "t-1", "label": "perhaps"}]}),
        ("/v1/silences", {"actor": "x", "reason": "r", "until": "tomorrow"}),
        ("/v1/silences", {"actor": "x", "reason": "\ud800", "until": "2026-03-10T09:00:00Z"}),
        ("/v1/silences", {"actor": "x", "reason": "r", "until": "2026-03-10", "subject": {}}),
    ],
)
def test_what_an_operator_sends_wrong_is_refused_and_stops_nothing(
    asked: Asked, path: str, body: dict[str, Any]
) -> None:
    before = asked.parts.ledger.seq

    answer = asked.http.post(path, content=json.dumps(body))

    assert answer.status_code == 400, answer.text
    assert asked.parts.ledger.seq == before
    assert asked.http.post("/v1/events", content=lines(1)).json()["events"] == 1
    asked.parts.tick(utc_now())


@pytest.mark.parametrize("host", ["[::1]", "[::1]:8686", "LOCALHOST:8686", "127.0.0.1"])
def test_this_machine_may_ask_under_each_of_its_names(asked: Asked, host: str) -> None:
    answer = asked.http.post("/v1/events", content=lines(1), headers={"Host": host})

    assert answer.status_code == 200


def test_an_adapter_that_is_none_is_an_error_at_the_start(tmp_path: Path) -> None:
    for name in ("nativ", "gatewatch"):
        with pytest.raises(ConfigError, match=r"sources\.gate\.adapter"):
            Asked(tmp_path, f'[sources.gate]\nadapter = "{name}"\n')


def test_an_empty_token_lets_nobody_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATE_TOKEN", "")
    table = '[[tokens]]\nname = "gate"\nrole = "writer"\ntoken = "env:GATE_TOKEN"\n'

    with pytest.raises(ConfigError, match="GATE_TOKEN"):
        Asked(tmp_path, OPEN + table)
