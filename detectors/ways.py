"""The way to a receiver, as a config says it: authorities, a certificate of one's own, a proxy.

Checked when the config is read: what is wrong with a file is said then, not at three at night.
Reads: gatewatch.toml, the files it names. Writes: nothing. Next: detectors/delivery.py.
"""

import ssl
from pathlib import Path
from typing import Protocol

import httpx

from detectors.addresses import refused_url
from ingest.config import ConfigError, Secret


class Way(Protocol):
    """What a receiver's table says of its way: detectors.routing.Common."""

    @property
    def allow_private(self) -> bool: ...
    @property
    def ca_file(self) -> str | None: ...
    @property
    def client_cert(self) -> str | None: ...
    @property
    def client_key(self) -> str | None: ...
    @property
    def proxy(self) -> Secret | None: ...


def check(way: Way, address: str, where: str) -> None:
    """Raises ConfigError for the first thing that no connection could be made with."""
    _authority(way.ca_file, f"{where}.ca_file")
    if way.client_key is not None and way.client_cert is None:
        raise ConfigError(f"{where}.client_key: needs client_cert, the certificate it belongs to.")
    _identity(identity(way), f"{where}.client_cert")
    if way.proxy is not None:
        _proxy(way.proxy, way.allow_private, address, f"{where}.proxy")


def identity(way: Way) -> tuple[str, str] | None:
    """The files of our own certificate and its key, which may be one."""
    return (way.client_cert, way.client_key or way.client_cert) if way.client_cert else None


def _authority(path: str | None, where: str) -> None:
    if path is None:
        return
    _there(path, where)
    try:
        ssl.create_default_context(cafile=path)
    except ssl.SSLError:
        raise ConfigError(f"{where}: {path}: holds no certificate in PEM.") from None


def _identity(files: tuple[str, str] | None, where: str) -> None:
    if files is None:
        return
    for path in files:
        _there(path, where)
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(*files, password=_none)
    except (ssl.SSLError, ValueError):
        raise ConfigError(
            f"{where}: {files[0]}: holds no certificate in PEM with its key (a key must not need"
            " a password; in a file of its own it is client_key)."
        ) from None


def _none() -> str:
    """Without it OpenSSL would ask for a password on the terminal."""
    return ""


def _there(path: str, where: str) -> None:
    if not Path(path).is_file():
        raise ConfigError(f"{where}: {path}: no such file.")


def _proxy(proxy: Secret, allow_private: bool, address: str, where: str) -> None:
    """What is wrong with it. Never its text: it may hold a password."""
    try:
        url = httpx.URL(proxy.reveal)
    except (httpx.InvalidURL, UnicodeError):
        raise ConfigError(f"{where}: is not a URL, such as http://proxy.example:3128.") from None
    if url.scheme not in ("http", "https"):
        raise ConfigError(f"{where}: must begin with http:// or https://.")
    if httpx.URL(address).scheme not in ("http", "https"):
        raise ConfigError(f"{where}: only a receiver that is told over HTTP can have one.")
    bare = str(url.copy_with(userinfo=None))
    if why := refused_url(bare, allow_http=True, allow_private=allow_private):
        raise ConfigError(f"{where}: the address {why}.")
