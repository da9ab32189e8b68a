"""Squid's access log: connections out, by its own text or as JSON, held against the list."""

from pathlib import Path

from tests.ingest.adapters import kit
from tests.ingest.adapters.kit import Row
from tests.world import World, at

LIST = {"egress": {"allowed_hosts": ["pay.example.com", "*.files.example.com"]}}
JSON: Row = {
    "ts": "1773133200.123", "ms": "12", "client": "10.0.0.8", "user": "billing-bot",
    "method": "CONNECT", "url": "pay.example.com:443", "status": "200", "squid": "TCP_TUNNEL",
    "hier": "HIER_DIRECT", "peer": "203.0.113.9", "bytes": "8123",
}  # fmt: skip


def text(line: str) -> Row:
    [row] = kit.read("squid", [{"text": line}])
    return row


def told(url: str, code: str = "TCP_TUNNEL/200", user: str = "billing-bot") -> bytes:
    return (
        f"1773133200.123     12 10.0.0.8 {code} 8123 CONNECT {url} {user} HIER_DIRECT/203.0.113.9 -"
    ).encode()


def test_the_text_and_the_json_of_a_connection_say_the_same() -> None:
    [by_json] = kit.read("squid", [JSON])

    assert text(told("pay.example.com:443").decode()) == by_json


def test_milliseconds_without_leading_zeros_are_milliseconds() -> None:
    stamps = ["1773133200.7", "1773133200.07", "1773133200.007", "1773133200.700", "1773133200"]

    rows = kit.read("squid", [JSON | {"ts": stamp} for stamp in stamps])

    assert [row["ts"].microsecond // 1000 for row in rows] == [7, 7, 7, 700, 0]


def test_a_line_of_another_log_is_none_of_ours() -> None:
    others = [
        "2026/03/10 09:00:00| Starting Squid Cache version 6.6", "", "1773133200.123 12 10.0.0.8",
        '10.0.0.8 - - [10/Mar/2026:09:00:00 +0000] "GET http://a.example/ HTTP/1.1" 200 5 NONE:-',
    ]  # fmt: skip

    assert kit.read("squid", [{"text": line} for line in others]) == []


def test_every_connection_to_a_host_that_is_not_listed_is_found(tmp_path: Path) -> None:
    world = World(tmp_path, policy=LIST)
    lines = [
        told("pay.example.com:443"), told("PAY.example.com.:443"), told("eu.files.example.com:443"),
        told("store.example.org:443"), told("blocked.example.net:443", "TCP_DENIED/403"),
        told("pay.example.com:443", "TCP_DENIED/407", "-"),
        told("error:invalid-request", "NONE_NONE/400"), told("[2001:db8::1]:8443", user="-"),
    ]  # fmt: skip

    landed = world.land(lines, at(10 * 60), source="proxy", adapter="squid")
    found = {row[1]: row[2] for row in world.backtest() if row[0] == "'unlisted_egress'"}
    world.close()

    assert (landed.events, landed.quarantined) == (8, 0)
    assert found == {
        "'billing-bot -> store.example.org'": "'high'",
        "'billing-bot -> blocked.example.net'": "'low'",
        "'source proxy -> 2001:db8::1'": "'high'",
    }


def test_an_address_that_looks_like_a_line_is_an_address() -> None:
    forged = "1773133201.000 1 10.0.0.9 TCP_MISS/200 5 GET http://pay.example.com/ other-bot"

    row = text(told(f"http://evil.example/: {forged}", "TCP_DENIED/403").decode())

    assert (row["agent"], row["decision"], row["status"]) == ("billing-bot", "deny", "denied")
