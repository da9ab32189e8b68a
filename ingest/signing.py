"""Ed25519 keys of the ledger: who holds the private one alone can add to the manifest.

The private key never lives in the data folder: who can change the ledger must not be able to sign.
Reads: key files (PEM). Writes: a new pair of keys, once. Next: ingest/manifest.py.
"""

import base64
import binascii
import os
from collections.abc import Iterable
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from ingest.config import ConfigError, Secret

PEM = serialization.Encoding.PEM


class Signer:
    """Signs with one private key."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key

    def sign(self, data: bytes) -> str:
        """The signature of these bytes, in base64."""
        return base64.b64encode(self._key.sign(data)).decode()


def signer(value: str | None, data: Path) -> Signer | None:
    """The signer that `ledger.sign_key` names (`file:PATH` or `env:NAME`), None without one.

    Raises ConfigError for what is no Ed25519 key, and for a key inside `data`, the data folder.
    """
    if value is None:
        return None
    place, _, name = value.partition(":")
    if place not in ("file", "env"):
        raise ConfigError("ledger.sign_key: write file:PATH or env:NAME, not the key itself.")
    if place == "file" and Path(name).expanduser().resolve().is_relative_to(data.resolve()):
        raise ConfigError(
            f"ledger.sign_key: {name} lies in the data folder, beside what it signs: move it."
        )
    try:
        key = serialization.load_pem_private_key(Secret(value).reveal.encode(), password=None)
    except (ValueError, TypeError):
        raise ConfigError(f"ledger.sign_key: {value} is no private key in PEM.") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise ConfigError(f"ledger.sign_key: {value} is no Ed25519 key.")
    return Signer(key)


def new_key(path: Path) -> Path:
    """Write a new private key, readable by its owner alone, and beside it the public one.

    Returns the public key's path. Raises ConfigError where one of the files is there already.
    """
    key, public = Ed25519PrivateKey.generate(), path.with_name(path.name + ".pub")
    private = key.private_bytes(
        PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    shared = key.public_key().public_bytes(PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    for target, mode, data in ((path, 0o600, private), (public, 0o644, shared)):
        try:
            handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        except FileExistsError:
            raise ConfigError(f"{target}: is there already; a key is never replaced.") from None
        with os.fdopen(handle, "wb") as file:
            file.write(data)
    return public


def public_key(path: Path) -> Ed25519PublicKey:
    """The public key of a PEM file. Raises ConfigError."""
    try:
        key = serialization.load_pem_public_key(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}.") from None
    except (ValueError, TypeError):
        raise ConfigError(f"{path}: is no public key in PEM.") from None
    if not isinstance(key, Ed25519PublicKey):
        raise ConfigError(f"{path}: is no Ed25519 key.")
    return key


def signed(data: bytes, signature: str, keys: Iterable[Ed25519PublicKey]) -> bool:
    """Whether one of the keys has signed exactly these bytes."""
    try:
        raw = base64.b64decode(signature, validate=True)
    except (binascii.Error, ValueError):
        return False
    for key in keys:
        try:
            key.verify(raw, data)
        except InvalidSignature:
            continue
        return True
    return False
