import ipaddress
import json

import pytest

from detectors.addresses import refused, refused_url
from tests.kit_receivers import ROOT

CASE = json.loads((ROOT.parent / "shared/cases/fixtures/B174-ssrf.urls.json").read_text())
LITERAL = [url for url in CASE["urls"] if " " not in url]


@pytest.mark.parametrize("url", LITERAL)
def test_case_b174_an_address_inside_is_refused_when_the_config_is_read(url: str) -> None:
    assert refused_url(url, allow_http=True, allow_private=False)


@pytest.mark.parametrize(
    "text",
    [
        "10.0.0.1", "127.0.0.1", "169.254.169.254", "100.64.0.1", "100.100.100.200", "0.0.0.0",  # noqa: S104
        "224.0.0.1", "255.255.255.255", "::1", "::", "fd00::1", "fe80::1", "fec0::1", "ff02::1",
        "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::a00:1",
        "2002:7f00:1::", "2001::1", "::ffff:0:a9fe:a9fe", "::ffff:0:10.0.0.1",
    ],
)  # fmt: skip
def test_no_spelling_of_an_inside_address_is_public(text: str) -> None:
    assert refused(ipaddress.ip_address(text), allow_private=False)


@pytest.mark.parametrize(
    "url",
    [
        # a final dot, capitals, names below and beside localhost
        "https://localhost./", "https://LOCALHOST/", "https://x.localhost/", "https://nas.local/",
        "https://metadata.google.internal/", "https://metadata.google.internal./",
        "https://nas.home.arpa/", "https://10.0.0.1./",
        # IPv4 as nobody writes it
        "https://127.1/", "https://0177.0.0.1/", "https://0x7f.1/", "https://0/",
        "https://%31%30.0.0.1/", "https://127\u30020\u30020\u30021/", "https://1\uff127.0.0.1/",
        "https://\u2460\u2461\u2466.\u24ea.\u24ea.\u2460/", "https://\u24dbocalhost/",
        # IPv6 that leads to IPv4, and with a zone
        "https://[::ffff:7f00:1]/", "https://[0:0:0:0:0:ffff:127.0.0.1]/", "https://[::]/",
        "https://[64:ff9b::7f00:1]/", "https://[fe80::1%25eth0]/", "https://[fe80::1%eth0]/",
        # a user, or what a careless reader takes for the host
        "https://user@soc.example/", "https://soc.example@10.0.0.1/",
        "https://soc.example\\@10.0.0.1/", "https://10.0.0.1:443@soc.example/",
        "https://10.0.0.1#@soc.example/", "https://10.0.0.1?@soc.example/",
        "https://10.0.0.1%00.soc.example/", "https://10.0.0.1\t.example/",
        # no URL of a host at all
        "https:10.0.0.1/", "https:///10.0.0.1/", "//10.0.0.1/", "javascript:alert(1)", "https://[::1",
        "https://xn--/",
    ],
)  # fmt: skip
def test_no_spelling_of_a_url_leads_inside(url: str) -> None:
    assert refused_url(url, allow_http=False, allow_private=False)


@pytest.mark.parametrize("text", ["8.8.8.8", "2606:4700::1111", "64:ff9b::808:808"])
def test_a_public_address_is_permitted(text: str) -> None:
    assert refused(ipaddress.ip_address(text), allow_private=False) is None


@pytest.mark.parametrize(
    "text",
    [
        "169.254.169.254",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "fd00:ec2::254",
        "fd20:ce::254",
        "::",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
    ],
)
def test_cloud_metadata_stays_refused_in_private_networks(text: str) -> None:
    assert refused(ipaddress.ip_address(text), allow_private=True)


def test_private_addresses_and_plain_http_need_a_word_in_the_config() -> None:
    assert refused_url("http://10.0.0.1/x", allow_http=True, allow_private=True) is None
    assert "allow_http" in str(refused_url("http://soc.example/", False, True))
    assert "allow_private" in str(refused_url("https://10.0.0.1/", False, False))
    assert refused_url("https://soc.example/x?token=1", False, False) is None
    assert refused_url("https://user:secret@soc.example/", False, False)
    assert refused_url("ftp://soc.example/", True, True)
    assert refused_url("https:///", True, True)


@pytest.mark.parametrize("port", [0, 85_270])
def test_a_port_that_there_is_not_is_refused_when_the_config_is_read(port: int) -> None:
    said = refused_url(f"https://am.example:{port}", allow_http=False, allow_private=False)

    assert said == f"names port {port}, and there are 1 to 65535"
    assert refused_url("https://am.example:65535", allow_http=False, allow_private=False) is None
