"""No way from a config line, a name or an answer into the inside of a network, on the real road."""

import socket
from typing import Any

import httpx
import pytest

from detectors.receivers import Refused
from detectors.routing import load
from detectors.worker import try_out
from ingest.config import ConfigError
from tests.kit_cases import fixture
from tests.kit_receivers import NOW
from tests.kit_sockets import service
from tests.kit_telling import HOOK


@pytest.fixture
def going(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Where connections were to go. Those that leave this machine are not made."""
    went: list[tuple[str, int]] = []
    real = socket.create_connection

    def connect(address: tuple[str, int], *rest: Any, **more: Any) -> socket.socket:
        went.append(address)
        if not address[0].startswith("127."):
            raise ConnectionRefusedError
        return real(address, *rest, **more)

    monkeypatch.setattr(socket, "create_connection", connect)  # the world is not ours to change
    return went


def test_b174_no_request_leaves_for_an_inside_address(
    going: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    case = fixture("B174")
    answers = iter(["203.0.113.5", "10.0.0.1"])

    def resolve(host: str | bytes, port: int, **_: object) -> list[object]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (next(answers), port))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    refused = []
    for text in case["urls"]:
        url, _, told = text.partition(" ")
        table = HOOK | {"webhook": url, "allow_http": True}
        if not told:
            with pytest.raises(ConfigError, match="the address"):
                load({"soc": table})
            continue
        [route] = load({"soc": table})  # a name is judged by what it resolves to, each time
        refused += [try_out(route, "", NOW) for _ in range(2)]

    assert len(going) == case["expect"]["requests_sent"]
    assert [isinstance(each, Refused) and each.hint for each in refused] == ["address"] * 2


@pytest.mark.parametrize("status", [302, 307])
def test_b175_a_redirect_is_a_failure_that_names_where_to(
    status: int, going: list[tuple[str, int]]
) -> None:
    case = fixture("B175")
    [response] = case["responses"]
    location = response["headers"]["Location"]
    head = f"HTTP/1.1 {status} Moved\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n"

    def redirect(connection: socket.socket, _: bytes) -> None:
        connection.sendall(head.encode())

    with service(redirect) as (port, heard):
        table = HOOK | {"webhook": f"http://127.0.0.1:{port}/x", "allow_http": True}
        [route] = load({"soc": table | {"allow_private": True}})
        outcome = try_out(route, "", NOW)

    assert isinstance(outcome, Refused)
    assert httpx.URL(location).host in outcome.reason
    assert len(going) - len(heard) == case["expect"]["followed"]
    assert {host for host, _ in going} == {"127.0.0.1"}
