"""B086 in full, and what else agents and attackers write."""

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.hosts import canonical_host

CASES = Path(__file__).parents[2].parent / "shared/cases"


def test_one_host_in_many_spellings_is_one_host_b086() -> None:
    lines = (CASES / "fixtures/B086-host-spelling.jsonl").read_text().splitlines()
    [case] = [
        case for case in json.loads((CASES / "manifest.json").read_text()) if case["id"] == "B086"
    ]

    found = Counter(canonical_host(json.loads(line)["params"]["url"]) for line in lines)

    assert found == case["expect"]["hosts"]


@pytest.mark.parametrize(
    ("written", "host"),
    [
        ("api.example.com", "api.example.com"),
        ("API.example.com:8443", "api.example.com"),
        ("api.example.com:", "api.example.com"),
        ("localhost", "localhost"),
        ("my_service.internal:80", "my_service.internal"),
        (" https://api.example.com/a?b#c ", "api.example.com"),
        ("//api.example.com/a", "api.example.com"),
        ("http:\\\\api.example.com\\a", "api.example.com"),
        ("http:api.example.com", "api.example.com"),
        ("https:///api.example.com/a", "api.example.com"),
        ("ht\ntp://api.exa\tmple.com", "api.example.com"),
        ("https://api.exam%70le.com", "api.example.com"),
        ("https://user:pa@ss@api.example.com:1", "api.example.com"),
        ("https://evil.example#@api.example.com/", "evil.example"),
        ("https://evil.example?@api.example.com/", "evil.example"),
        ("postgres://u:p@db.internal:5432/x", "db.internal"),
        ("mailto:bob@evil.example", "evil.example"),
        ("ａｐｉ．example。com", "api.example.com"),
        ("BÜCHER.example", "xn--bcher-kva.example"),
        ("xn--BCHER-kva.example", "xn--bcher-kva.example"),
        ("faß.example", "xn--fa-hia.example"),
        ("i❤.ws", "xn--i-7iq.ws"),
        ("api.exam\u00adple.com", "api.example.com"),
    ],
)
def test_a_name_has_one_spelling(written: str, host: str) -> None:
    assert canonical_host(written) == host


@pytest.mark.parametrize(
    ("written", "host"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("0x7f000001", "127.0.0.1"),
        ("0X7F.1", "127.0.0.1"),
        ("2130706433", "127.0.0.1"),
        ("0177.0.0.01", "127.0.0.1"),
        ("127.1:80", "127.0.0.1"),
        ("127.0.0.1.", "127.0.0.1"),
        ("１２７.0.0.1", "127.0.0.1"),
        ("0", "0.0.0.0"),  # noqa: S104 - an address to read, not one to bind
        ("::ffff:7f00:1", "127.0.0.1"),
        ("[::ffff:127.0.0.1]:80", "127.0.0.1"),
        ("[2001:DB8:0:0::1]", "2001:db8::1"),
        ("2001:db8::0001", "2001:db8::1"),
        ("[fe80::1%25eth0]", "fe80::1"),
    ],
)
def test_an_address_has_one_spelling(written: str, host: str) -> None:
    assert canonical_host(written) == host


@pytest.mark.parametrize(
    "written",
    [
        "",
        " ",
        "https://",
        "file:///etc/passwd",
        ".",
        "..",
        "a..example",
        "-a.example",
        "javascript:alert(1)",
        "host:80:90",
        "host:port",
        "a b.example",
        "a\x00.example",
        "%ff.example",
        "a%00.example",
        "256.256.256.256",
        "1.2.3.4.5",
        "08.1.1.1",
        "0x1ffffffff",
        "1.example.0x",
        "9" * 5_000,
        "[::1",
        "[::1]x",
        "[x]",
        "http://api.example.com\\@evil.example/",
        "a" * 64 + ".example",
        "a." * 200 + "example",
        "\ud800.example",
        "<script>",
        "*.example.com",
        "a" * 5_000_000,
    ],
)
def test_what_is_no_host_is_none(written: str) -> None:
    assert canonical_host(written) is None


@given(
    st.text()
    | st.from_regex(r"https?://[^ ]{0,40}")
    | st.text("0123456789abcdefx.:[]%@/\\", max_size=30)
)
def test_nothing_raises_and_a_host_stays_as_it_is(written: str) -> None:
    host = canonical_host(written)

    assert host is None or canonical_host(f"[{host}]" if ":" in host else host) == host
