from pathlib import Path
from typing import Any

import pytest

from detectors import routing
from detectors.worker import client_for
from ingest.config import ConfigError
from tests.kit_sockets import self_signed
from tests.kit_telling import HOOK


def load(**keys: Any) -> routing.Route:
    [route] = routing.load({"soc": HOOK | keys})
    return route


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"proxy": "ftp://proxy.example"}, "soc.proxy: must begin with http:// or https://."),
        ({"proxy": "http://10.0.0.1:3128"}, "soc.proxy: the address is 10.0.0.1, inside this"),
        ({"proxy": "http://[::1"}, "soc.proxy: is not a URL"),
        ({"proxy": "http://us:FAKE-pw@169.254.169.254"}, "which no receiver has"),
        ({"client_key": "x.pem"}, "soc.client_key: needs client_cert"),
        ({"client_cert": "/no/such.pem"}, "soc.client_cert: /no/such.pem: no such file."),
        ({"ca_file": "/no/such.pem"}, "soc.ca_file: /no/such.pem: no such file."),
        ({"timeout": 0}, "`$.timeout`"),
        ({"timeout": 31}, "`$.timeout`"),
    ],
)
def test_a_way_that_cannot_be_gone_is_refused_when_the_config_is_read(
    keys: dict[str, Any], says: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load(**keys)

    assert says in str(caught.value)
    assert "FAKE-pw" not in str(caught.value)


def test_a_certificate_without_its_key_is_refused(tmp_path: Path) -> None:
    pem = self_signed(tmp_path)
    only = tmp_path / "only.pem"
    text = pem.read_text()
    only.write_text(text[text.index("-----BEGIN CERT") :])

    with pytest.raises(ConfigError, match="holds no certificate in PEM with its key"):
        load(client_cert=str(only))
    assert load(client_cert=str(only), client_key=str(pem))


def test_a_way_that_is_configured_becomes_a_client_that_shows_no_password(tmp_path: Path) -> None:
    pem = str(self_signed(tmp_path))
    proxy = "http://us:FAKE-pw@10.0.0.1:3128"
    route = load(ca_file=pem, client_cert=pem, proxy=proxy, allow_private=True, timeout=3)

    with client_for(route) as client:
        assert "FAKE-pw" not in f"{route!r} {client!r}"


def test_a_proxy_is_refused_where_nothing_goes_over_http() -> None:
    mail = {"type": "email", "host": "mail.example", "from": "gw@corp.example",
            "to": ["duty@corp.example"], "proxy": "http://proxy.example:3128"}  # fmt: skip

    with pytest.raises(ConfigError, match="only a receiver that is told over HTTP can have one"):
        routing.load({"mail": mail})
