"""Alertmanagers and a Pushgateway: where they are, and how we say who we are.

They are spoken to as receivers are: judged addresses, TLS, one deadline, no redirects.
Reads: gatewatch.toml. Writes: nothing. Next: detectors/alertmanager.py.
"""

import base64
from collections.abc import Iterable
from pathlib import Path

import httpx
import msgspec

from detectors import delivery
from detectors.addresses import refused_url
from ingest.config import ConfigError, Secret

TOTAL = 10.0  # seconds for one request


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """The keys that `[alertmanager]` and `[pushgateway]` share.

    A bearer `token`, or `user` and `password`; never in the URL, which is shown to people.
    """

    allow_http: bool = False
    allow_private: bool = False
    ca_file: str | None = None  # an authority of your own, beside the public ones
    token: Secret | None = None
    user: str | None = None
    password: Secret | None = None


def check(urls: Iterable[str], access: Access, where: str) -> tuple[str, ...]:
    """The addresses without a slash at their end. Raises ConfigError for one that may not be."""
    if (access.user is None) != (access.password is None):
        raise ConfigError(f"{where}: `user` and `password` go together.")
    if access.user is not None and access.token is not None:
        raise ConfigError(f"{where}: `token` or `user` and `password`, not both.")
    if access.ca_file is not None and not Path(access.ca_file).is_file():
        raise ConfigError(f"{where}.ca_file: {access.ca_file} is no file.")
    found = tuple(url.rstrip("/") for url in urls)
    for number, url in enumerate(found, 1):
        if why := refused_url(url, access.allow_http, access.allow_private):
            raise ConfigError(f"{where}: address {number} {why}.")
    return found


def headers(access: Access) -> dict[str, str]:
    """Who we are. Holds a secret: for a request, for nothing that is shown."""
    if access.token is not None:
        return {"authorization": f"Bearer {access.token.reveal}"}
    if access.user is not None and access.password is not None:
        both = base64.b64encode(f"{access.user}:{access.password.reveal}".encode()).decode()
        return {"authorization": f"Basic {both}"}
    return {}


def client(access: Access, total: float = TOTAL) -> httpx.Client:
    """The client that such a peer is spoken to with."""
    return delivery.client(total, access.allow_http, access.allow_private, access.ca_file)
