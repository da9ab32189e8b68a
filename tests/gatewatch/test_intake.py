"""Lines in over HTTP: where they go, who may send them, and what each sender is answered."""

import base64
import gzip
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span
from starlette.routing import Route

from gatewatch import answers, intake
from gatewatch.api import Api
from gatewatch.disk import Disk
from ingest import adapter
from ingest.config import ConfigError
from ingest.ledger import LedgerError
from tests.kit_http import CASES, Asked, lines, until

SAMPLES = Path(__file__).parents[1] / "ingest" / "adapters"
WRITER = '[[tokens]]\nname = "{name}"\nrole = "writer"\ntoken = "{name}"\n'
VIEWER = '[[tokens]]\nname = "wall"\nrole = "viewer"\ntoken = "v-token"\n'


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[Asked]:
    found = Asked(tmp_path, '[sources.gate]\nadapter = "native"\n')
    yield found
    found.parts.close()


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[Asked]:
    found = Asked(tmp_path, "")
    yield found
    found.parts.close()


def sample(name: str) -> list[bytes]:
    return (SAMPLES / f"{name}.ndjson").read_bytes().splitlines()


def sources(asked: Asked) -> list[tuple[str, str]]:
    rows = asked.parts.rows("SELECT source, adapter FROM sources ORDER BY source")
    return [(row["source"], row["adapter"]) for row in rows]


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


# Where lines go.


def test_every_path_that_an_adapter_names_takes_its_format(bare: Asked) -> None:
    paths = intake._paths(intake._headers(bare.parts))
    for path, name in paths.items():
        answer = bare.http.post(path, content=sample(name)[0])

        assert answer.status_code == 200, (path, answer.text)
        assert (name, name) in sources(bare)
    assert {"/v1/events", "/logs", "/v1/logs", "/v1/traces"} <= paths.keys()


def test_lines_go_to_the_one_source_that_has_their_adapter(asked: Asked) -> None:
    asked.http.post("/v1/events", content=lines(1))

    assert sources(asked) == [("gate", "native")]


def test_with_two_sources_of_one_adapter_lines_go_to_the_adapters_name(tmp_path: Path) -> None:
    asked = Asked(tmp_path, '[sources.a]\nadapter = "native"\n[sources.b]\nadapter = "native"\n')

    asked.http.post("/v1/events", content=lines(1))

    assert sources(asked) == [("native", "native")]
    asked.parts.close()


def test_an_adapter_without_a_source_takes_lines_under_its_own_name(bare: Asked) -> None:
    answer = bare.http.post("/v1/ingest/gatehouse", content=sample("gatehouse")[0])

    assert answer.json()["events"] == 1
    assert sources(bare) == [("gatehouse", "gatehouse")]


def test_times_are_read_in_the_zone_of_the_source(tmp_path: Path) -> None:
    asked = Asked(tmp_path, '[sources.gate]\nadapter = "native"\nzone = "Asia/Shanghai"\n')

    asked.http.post("/v1/events", content=lines(1, ts="2026-03-10T09:00:00"))

    [row] = asked.parts.rows("SELECT epoch_us(ts) // 1000000 AS at FROM events")
    assert row["at"] == 1773104400  # 01:00 in UTC
    asked.parts.close()


def test_two_adapters_on_one_path_are_an_error_at_the_start(tmp_path: Path) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    taken = (adapter.FOLDER / "native.sql").read_text()
    (folder / "mine.sql").write_text(taken)

    with pytest.raises(ConfigError, match="/v1/events is mine's already"):
        Asked(tmp_path, 'adapters_folder = "own"\n')


# Who may send.


@pytest.mark.parametrize(
    "headers",
    [
        bearer("gate"),
        {"Authorization": "bearer gate"},
        {"Authorization": "Basic " + base64.b64encode(b"anybody:gate").decode()},
        {"X-Api-Key": "gate"},
    ],
)
def test_a_token_comes_in_the_header_that_its_sender_can_write(
    tmp_path: Path, headers: dict[str, str]
) -> None:
    asked = Asked(tmp_path, WRITER.format(name="gate"))

    assert asked.http.post("/v1/events", content=lines(1), headers=headers).status_code == 200
    wrong = {key: value.replace("gate", "gaet") for key, value in headers.items()}
    if "Basic" not in str(headers):
        assert asked.http.post("/v1/events", content=lines(1), headers=wrong).status_code == 401
    asked.parts.close()


@pytest.mark.parametrize("value", ["Basic !", "Basic", "Basic Z2F0ZQ==", "Digest gate", "gate"])
def test_what_is_no_token_lets_nobody_in(tmp_path: Path, value: str) -> None:
    asked = Asked(tmp_path, WRITER.format(name="gate"))

    answer = asked.http.post("/v1/events", content=lines(1), headers={"Authorization": value})

    assert answer.status_code == 401
    asked.parts.close()


def test_without_a_token_not_a_byte_of_the_body_is_read(tmp_path: Path) -> None:
    """B178: else anybody could fill the memory."""
    asked = Asked(tmp_path, WRITER.format(name="gate"))
    read: list[bytes] = []

    async def body() -> AsyncIterator[bytes]:
        for _ in range(10):
            read.append(b"0" * 2**20)
            yield read[-1]

    answer = asked.http.post("/v1/events", content=body(), headers=bearer("nobody"))

    assert (answer.status_code, read) == (401, [])
    asked.parts.close()


def test_a_token_that_is_bound_to_a_source_writes_to_no_other(tmp_path: Path) -> None:
    config = "[sources.a]\n[sources.b]\n" + WRITER.format(name="t") + 'source = "a"\n'
    asked = Asked(tmp_path, config)

    def post(path: str) -> int:
        return asked.http.post(path, content=lines(1), headers=bearer("t")).status_code

    assert [post("/v1/ingest/a"), post("/v1/ingest/b"), post("/v1/events")] == [200, 403, 200]
    assert post("/v1/ingest/bb") == 403  # the nearest name would be another's
    assert sources(asked) == [("a", "native")]
    asked.parts.close()


def test_a_token_takes_every_format_to_its_own_source(tmp_path: Path) -> None:
    """One collector sends logs and spans with one token."""
    asked = Asked(tmp_path, WRITER.format(name="t") + 'source = "collector"\n')

    for path, name in (("/logs", "opa"), ("/v1/ingest/gatehouse", "gatehouse")):
        answer = asked.http.post(path, content=sample(name)[0], headers=bearer("t"))
        assert answer.json()["events"] == 1

    assert {name for name, _ in sources(asked)} == {"collector"}
    asked.parts.close()


def test_a_writers_token_reads_nothing(tmp_path: Path) -> None:
    """Every route that does not take lines, whatever it is, as the application lists them."""
    asked = Asked(tmp_path, WRITER.format(name="gate") + VIEWER)
    disk = Disk(asked.parts.ledger.folder, 0, asked.parts.lander.recover)
    routes = Api(asked.parts, lambda: {"judge": "ok"}, lambda: None, disk).app().routes
    pushed = {*intake._paths(intake._headers(asked.parts)), "/v1/ingest/{source}"}
    read = [each for each in routes if isinstance(each, Route) and each.path not in pushed]

    for token in ("gate", ""):
        for route in read:
            path = re.sub(r"\{.*?\}", "x", route.path)
            for method in route.methods or ():
                body = {"sql": "SELECT 1", "actor": "x", "verdict": "true"}
                more: dict[str, Any] = {"headers": bearer(token) if token else {}}
                more |= {"json": body} if method == "POST" else {}
                answer = asked.http.request(method, path, **more)
                if path == "/healthz":
                    assert answer.text in ("ok\n", "")
                elif path == "/readyz":
                    assert answer.text in ('{"ready":true}', "")
                else:
                    assert answer.status_code == (403 if token else 401), (path, token)
    assert len(read) >= 10
    assert asked.http.request("GET", "/metrics", headers=bearer("v-token")).status_code == 200
    readyz = asked.http.request("GET", "/readyz", headers=bearer("v-token"))
    assert readyz.json() == {"judge": "ok"}
    asked.parts.close()


def test_a_sender_speaks_for_its_own_agent_only(tmp_path: Path) -> None:
    """B182."""
    case = json.loads((CASES / "B182-spoofed-source.http.json").read_text())
    tokens = "".join(
        WRITER.format(name=name) + f'source = "{name}"\nagent = "{agent}"\n'
        for name, agent in case["tokens"].items()
    )
    asked = Asked(tmp_path, tokens + VIEWER)

    for each in case["requests"]:
        answer = asked.http.post("/v1/events", content=each["body"], headers=bearer(each["token"]))
        assert answer.json()["events"] == 1

    rows = asked.parts.rows(
        "SELECT agent, attrs ->> 'agent_claimed' AS claimed, signals FROM events ORDER BY ts"
    )
    assert [row["agent"] for row in rows] == case["expect"]["agents"]
    assert [row["claimed"] for row in rows] == [None, "agent-a"]
    assert "agent_mismatch" in rows[1]["signals"]
    page = asked.http.request("GET", "/metrics", headers=bearer("v-token")).text
    counts = re.findall(r'^gatewatch_agent_mismatch_total\{source="(.*)"\} (.*)$', page, re.M)
    assert counts == [("tok-a", "0.0"), ("tok-b", f"{case['expect']['mismatch']}.0")]
    asked.parts.close()


def test_two_agents_may_send_equal_lines(tmp_path: Path) -> None:
    """The second is no repeat of the first: they speak for different agents."""
    tokens = "".join(
        WRITER.format(name=name) + f'source = "gate"\nagent = "{name}"\n' for name in ("a", "b")
    )
    asked = Asked(tmp_path, tokens)
    body = json.dumps({"ts": "2026-03-10T09:00:00Z", "kind": "egress", "host": "x.test"})

    for name in ("a", "b"):
        asked.http.post("/v1/events", content=body, headers=bearer(name))

    rows = asked.parts.rows("SELECT agent FROM events ORDER BY 1")
    assert [row["agent"] for row in rows] == ["a", "b"]
    asked.parts.close()


# OTLP.


def exported(asked: Asked, case: dict[str, Any]) -> list[httpx.Response]:
    return [asked.http.post(each["path"], json=each["json"]) for each in case["requests"]]


def rejected(answer: httpx.Response) -> int:
    return int(answer.json().get("partialSuccess", {}).get("rejectedSpans", 0))


def test_otlp_times_come_as_text_number_or_halves_and_one_without_is_rejected_alone(
    bare: Asked,
) -> None:
    """B043."""
    case = json.loads((CASES / "B043-otlp-nano.http.json").read_text())

    answers = exported(bare, case)

    assert [answer.status_code for answer in answers] == [200] * len(answers)
    assert sum(rejected(answer) == 0 for answer in answers) == case["expect"]["accepted"]
    [row] = bare.parts.rows(
        "SELECT count(DISTINCT ts) AS n, strftime(min(ts), '%Y-%m-%dT%H:%M:%S.%fZ') AS at"
        " FROM events WHERE ts_quality = 'source'"
    )
    assert row == {"n": 1, "at": case["expect"]["ts_utc"]}
    [bad] = [answer.json() for answer in answers if rejected(answer)]
    assert bad["partialSuccess"]["errorMessage"]


def test_otlp_ids_are_one_trace_in_every_spelling(bare: Asked) -> None:
    """B044."""
    case = json.loads((CASES / "B044-otlp-ids.http.json").read_text())

    answers = exported(bare, case)

    assert [answer.status_code for answer in answers] == [200] * len(answers)
    rows = bare.parts.rows("SELECT DISTINCT trace_id FROM events")
    assert len(rows) == case["expect"]["distinct_traces"]
    assert rows[0]["trace_id"] == "5b8efff798038103d269b633813fc60c"


@pytest.mark.parametrize("kind", ["application/json", answers.PROTOBUF])
@pytest.mark.parametrize("path", ["/v1/logs", "/v1/traces"])
def test_otlp_that_cannot_be_read_is_refused_in_its_own_type(
    bare: Asked, path: str, kind: str
) -> None:
    answer = bare.http.post(path, content=b"\xff no", headers={"content-type": kind})

    assert answer.status_code == 400
    assert answer.headers["content-type"] == kind
    assert answer.content


def test_otlp_in_another_type_is_refused(bare: Asked) -> None:
    answer = bare.http.post("/v1/logs", content=b"{}", headers={"content-type": "text/csv"})

    assert answer.status_code == 415
    assert "text/csv" in answer.json()["message"]


def test_otlp_that_is_too_large_or_cannot_be_kept_is_told_so(
    bare: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    huge = gzip.compress(b" " * 2**25)

    large = bare.http.post("/v1/logs", content=huge, headers={"content-encoding": "gzip"})
    monkeypatch.setattr(bare.disk, "refuse", refusing)
    full = bare.http.post("/v1/logs", json={})

    assert large.status_code == 413
    assert full.status_code == 503
    assert int(full.headers["retry-after"]) > 0
    assert full.json() == {"message": "lines cannot be kept now."}


def refusing() -> None:
    raise LedgerError("the disk is full")


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_otlp_in_protobuf_is_told_how_many_records_gave_no_event(bare: Asked, pack: Any) -> None:
    """As an exporter sends it: a span that can be read, and one whose trace id cannot."""
    good = Span(trace_id=bytes(range(16)), span_id=b"8 bytes.", name="execute_tool")
    good.start_time_unix_nano = good.end_time_unix_nano = 1_773_133_200_000_000_000
    bad = Span(trace_id=b"short", span_id=b"8 bytes.", name="execute_tool")
    sent = ExportTraceServiceRequest(
        resource_spans=[ResourceSpans(scope_spans=[ScopeSpans(spans=[good, bad])])]
    )
    coding = "gzip" if pack is gzip.compress else "identity"

    answer = bare.http.post(
        "/v1/traces", content=pack(sent.SerializeToString()),
        headers={"content-type": answers.PROTOBUF, "content-encoding": coding},
    )  # fmt: skip

    assert (answer.status_code, answer.headers["content-type"]) == (200, answers.PROTOBUF)
    told = ExportTraceServiceResponse.FromString(answer.content).partial_success
    assert told.rejected_spans == 1
    assert "quarantine" in told.error_message
    assert len(bare.parts.rows("SELECT * FROM events")) == 1


# OPA, hooks, and those that send arrays.


def test_an_upload_of_opa_that_comes_again_in_other_chunks_counts_once(bare: Asked) -> None:
    """OPA puts the decisions of a refused chunk back into its buffer, and cuts anew."""
    ids = [json.loads(line).get("decision_id") for line in sample("opa")]
    first_seen = {name: line for name, line in zip(ids, sample("opa"), strict=True) if name}
    decisions = list(first_seen.values())
    assert len(decisions) >= 4

    def upload(part: list[bytes]) -> dict[str, Any]:
        body = gzip.compress(b"[" + b",".join(part) + b"]")
        answer = bare.http.post("/logs", content=body, headers={"content-encoding": "gzip"})
        assert answer.status_code == 200
        found: dict[str, Any] = answer.json()
        return found

    first = upload(decisions[:3])
    again = [upload(decisions[:1]), upload(decisions[1:])]

    assert sum(each["duplicates"] for each in again) == first["events"] == 3
    [row] = bare.parts.rows("SELECT count(*) AS n, count(DISTINCT event_id) AS ids FROM events")
    assert row == {"n": len(decisions), "ids": len(decisions)}


def test_a_hook_is_answered_with_nothing_that_changes_what_the_agent_does(bare: Asked) -> None:
    hook = {"session_id": "s-1", "hook_event_name": "Notification", "message": "waiting"}

    answers = [bare.http.post("/v1/ingest/claude_hooks", json=hook) for _ in range(2)]

    assert [(each.status_code, each.content) for each in answers] == [(200, b"{}")] * 2
    [row] = bare.parts.rows("SELECT count(*) AS n FROM events")
    assert row["n"] == 2  # said twice, it happened twice: hooks are never sent again


def test_a_hook_does_not_wait_for_a_writer_that_is_slow(
    bare: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers.Hooks, "patience", 0.1)
    hook = {"session_id": "s-1", "hook_event_name": "Notification", "message": "waiting"}

    with bare.parts.lander._turn:
        answer = bare.http.post("/v1/ingest/claude_hooks", json=hook)

    assert answer.status_code == 503  # no decision: the agent goes on
    assert "retry-after" in answer.headers
    until(lambda: bare.parts.rows("SELECT * FROM events"))  # it was kept later all the same


@pytest.mark.parametrize("shape", ["array", "object", "lines", "pretty"])
def test_a_batch_comes_as_array_object_or_lines(bare: Asked, shape: str) -> None:
    """LiteLLM sends an array, Kong an object or an array."""
    docs = [json.loads(each) for each in lines(1, 2, 3).splitlines()]
    body = {
        "array": json.dumps(docs),
        "object": json.dumps(docs[0]),
        "lines": "\n".join(map(json.dumps, docs)),
        "pretty": json.dumps(docs, indent=2),
    }[shape]

    answer = bare.http.post("/v1/events", content=body)

    assert answer.json()["events"] == (1 if shape == "object" else 3)
    assert answer.json()["quarantined"] == 0


# When there is too much.


def test_a_sender_is_asked_to_come_back_when_too_much_is_on_its_way(asked: Asked) -> None:
    room = asked.intake._room
    assert room.take(room._free)

    answer = asked.http.post("/v1/events", content=lines(1))
    room.give(asked.parts.settings.limits.waiting_bytes)

    assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
    assert asked.http.post("/v1/events", content=lines(1)).status_code == 200


def test_a_sender_is_asked_to_come_back_when_the_writer_is_behind(asked: Asked) -> None:
    """So many batches may wait; the rest is not read into memory at all."""
    with ThreadPoolExecutor(intake.WAITING + 4) as pool:
        with asked.parts.lander._turn:  # a landing that takes its time
            posts = [
                pool.submit(asked.http.post, "/v1/events", content=lines(n))
                for n in range(intake.WAITING + 4)
            ]
            until(lambda: sum(post.done() for post in posts) == 4)
        answers = [post.result() for post in posts]

    assert Counter(each.status_code for each in answers) == {200: intake.WAITING, 429: 4}
    assert {each.headers.get("retry-after") for each in answers} == {None, "1"}
    [row] = asked.parts.rows("SELECT count(*) AS n FROM events")
    assert row["n"] == intake.WAITING


def test_a_body_that_is_refused_leaves_its_room_to_others(asked: Asked) -> None:
    free = asked.intake._room._free
    for body, coding in ((b"0" * 2**20, "gzip"), (gzip.compress(b"0" * 2**25), "gzip")):
        asked.http.post("/v1/events", content=body, headers={"content-encoding": coding})
    asked.http.post("/v1/events", content=lines(1))

    assert asked.intake._room._free == free


def test_while_lines_cannot_be_kept_none_are_taken(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asked.disk, "refuse", refusing)

    answer = asked.http.post("/v1/events", content=lines(1))

    assert (answer.status_code, answer.json()) == (
        503, {"error": "lines cannot be kept now."}
    )  # fmt: skip
    assert int(answer.headers["retry-after"]) > 0
