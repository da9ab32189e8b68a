"""The dashboard's road to the service: tables, triage, and one sentence when it is closed."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone

import httpx
import polars as pl
import pytest

from dashboards.client import Client, ServiceDown, ServiceRefused
from tests.dashboards import rows, service
from tests.dashboards.insert import NOW

Answer = Callable[[httpx.Request], httpx.Response]


def asked(answer: Answer, token: str = "") -> Client:
    return Client("http://ops:hidden@service:1", token, httpx.MockTransport(answer))


def test_a_table_keeps_its_types_and_a_time_goes_out_with_its_zone() -> None:
    client = service.client(rows.example())
    china = timezone(timedelta(hours=8))
    sql = "SELECT $when::TIMESTAMPTZ AS at_utc, $none::VARCHAR AS nothing, 7::UBIGINT AS n"

    frame = client.sql(sql, when=datetime(2026, 3, 10, 17, 0, tzinfo=china), none=None)

    assert frame["at_utc"].dtype == pl.Datetime("us", "UTC")
    assert frame.row(0) == (datetime(2026, 3, 10, 9, 0, tzinfo=UTC), None, 7)


def test_the_clock_is_the_services_own() -> None:
    client = service.client(rows.example())

    assert client.health() == (NOW, True)
    assert client.answered == NOW


@pytest.mark.parametrize(
    ("answer", "kind", "sentence"),
    [
        (httpx.Response(400, json={"error": "no table x"}), ServiceRefused, "refuses: no table x"),
        (
            httpx.Response(401, json={"error": "unknown token"}),
            ServiceRefused,
            "refuses this token (401: unknown token). Set GATEWATCH_TOKEN to one with the role"
            " that this needs.",
        ),
        (httpx.Response(404), ServiceRefused, "refuses: Not Found"),
        (httpx.Response(400, content=b'["x"]'), ServiceRefused, "refuses: Bad Request"),
        (httpx.Response(503), ServiceDown, "is in trouble (503)."),
        (httpx.Response(200, content=b"<html>"), ServiceDown, "answers, but not with a table."),
        (httpx.Response(200, content=b""), ServiceDown, "answers, but not with a table."),
        (httpx.ConnectError("secret"), ServiceDown, "does not answer (ConnectError)."),
        (httpx.ReadTimeout("secret"), ServiceDown, "does not answer (ReadTimeout)."),
    ],
)
def test_what_goes_wrong_is_one_sentence_without_a_password(
    answer: httpx.Response | Exception, kind: type[Exception], sentence: str
) -> None:
    def reply(request: httpx.Request) -> httpx.Response:
        if isinstance(answer, Exception):
            raise answer
        return answer

    with pytest.raises(kind) as raised:
        asked(reply).sql("SELECT 1")

    assert str(raised.value) == f"The service at http://service:1 {sentence}"


def test_a_service_without_a_clock_is_not_believed() -> None:
    with pytest.raises(ServiceDown, match="without saying what time it is"):
        asked(lambda _: httpx.Response(200)).health()


def test_a_wrong_address_is_said_so() -> None:
    with pytest.raises(ServiceDown, match="GATEWATCH_URL is not an address"):
        Client("http://x:port", "").health()


def test_an_alert_id_cannot_lead_to_another_address() -> None:
    seen: list[bytes] = []

    def reply(request: httpx.Request) -> httpx.Response:
        seen.append(request.url.raw_path)
        return httpx.Response(200)

    asked(reply).ack("../sql?x=1#", "mei", "")

    assert seen == [b"/v1/alerts/..%2Fsql%3Fx%3D1%23/ack"]


def test_two_viewers_never_see_each_others_rows() -> None:
    def reply(request: httpx.Request) -> httpx.Response:
        seen = pl.DataFrame({"who": [request.headers["authorization"]]})
        return httpx.Response(200, content=seen.write_ipc_stream(None).getvalue())

    first, second = asked(reply, "admin"), asked(reply, "viewer")

    for client, expected in ((first, "Bearer admin"), (second, "Bearer viewer")) * 2:
        assert client.sql("SELECT 1")["who"].to_list() == [expected]


def test_other_values_are_tried_with_patience_and_come_back_as_a_table() -> None:
    sent: list[httpx.Request] = []

    def reply(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return httpx.Response(200, json={"detector": "d", "steps": [{"param": "n", "alerts": 2}]})

    frame = asked(reply).tune("d", "", ["2"], NOW)

    assert json.loads(sent[0].content) == {
        "detector": "d", "param": None, "values": ["2"], "since": NOW.isoformat()
    }  # fmt: skip
    assert sent[0].extensions["timeout"]["read"] > 300
    assert frame.rows() == [("n", 2)]
