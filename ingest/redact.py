"""Secrets leave a line before anything is stored; all the rest of it stays byte for byte.

A secret becomes [redacted:HHHHHHHHHHHH], 12 hex digits of HMAC-SHA256 over it: equal secrets stay
comparable, and nobody without the key can guess them back.
Reads: lines. Writes: the key file, once. Next: ingest/shapes.py, ingest/parse.py.
"""

import hashlib
import hmac
import json
import os
import re
import secrets
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import polars as pl

from ingest import shapes
from ingest.config import ConfigError
from ingest.parse import parse

KEY_BYTES = 32
MAX_PATHS, MAX_PATH = 64, 256  # paths go into a column: a hostile line must not swell it
MAX_NESTING = 6  # JSON in strings in JSON; below that it is text
MIN_TEXT, MIN_KEY = 6, 16  # pwd=ab; the shortest token by its shape
TEXT = "(text)"  # the path of a secret in a line that is no JSON

# Of a line that is known to be JSON: a string that is a value (1), one that is a key (1 and 2).
_TOKEN = re.compile(rb'("[^"\\]*+(?:\\.[^"\\]*+)*+")(\s*+:)?|[{}\[\],]|[^\s"{}\[\],:]+', re.DOTALL)
_ITS_NAME = {"name", "key", "header", "field"}  # {"name": "X-Api-Key", "value": "..."}
_ITS_VALUE = {"value", "val", "stringvalue", "string_value"}


class Redacted(NamedTuple):
    """`paths` name what was replaced, as params.headers.Authorization; () and the same bytes
    when the line is clean."""

    raw: bytes
    paths: tuple[str, ...] = ()


class Redactor:
    """Replaces secrets, under one key."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def redact(self, lines: Sequence[bytes]) -> list[Redacted]:
        """Each line, clean. One cheap look at all of them; only suspects are taken apart."""
        done = [Redacted(line) for line in lines]
        for number in self.suspects(lines):
            done[number] = self.line(lines[number])
        return done

    def suspects(self, lines: Sequence[bytes]) -> list[int]:
        """The numbers of the lines that may hold a secret."""
        return _texts(lines).str.contains(shapes.SUSPECT).arg_true().to_list()

    def line(self, raw: bytes) -> Redacted:
        """One line, clean."""
        paths: dict[str, None] = {}
        if parse(raw).doc is not None:
            clean = _Walk(self._mask, paths, 0).json(raw, "")
        else:
            text = raw.decode(errors="surrogateescape")
            changed = shapes.inside(text, "", self._mask)
            clean = raw if changed == text else changed.encode(errors="surrogateescape")
            if clean != raw:
                paths[TEXT] = None
        return Redacted(clean, tuple(paths)) if clean != raw else Redacted(raw)

    def _mask(self, secret: str) -> str:
        digest = hmac.new(self._key, secret.encode(errors="surrogatepass"), hashlib.sha256)
        return f"[redacted:{digest.hexdigest()[:12]}]"


class _Walk:
    """One line's JSON, token by token: knows under which key each value stands.

    Only a text in which a hint of a secret begins is looked into; see shapes.spots.
    """

    def __init__(self, mask: shapes.Mask, paths: dict[str, None], nesting: int) -> None:
        self.mask, self.paths, self.nesting = mask, paths, nesting

    def json(self, raw: bytes, top: str) -> bytes:
        """The text with secrets replaced in place. `raw` must be JSON; `top` is its own path."""
        out, end = list[bytes](), 0
        frame = _Frame(None, top, None, False)
        spots, spot = [*shapes.spots(raw), len(raw)], 0
        for found in _TOKEN.finditer(raw):
            token, kind, start = found[0], found.lastindex, found.start()
            while spots[spot] < start:
                spot += 1
            hinted = spots[spot] < found.end()
            new = None
            if kind == 2:
                new = self._key(found[1], frame, hinted)
            elif kind == 1:
                new = self._text(token, frame, hinted)
            elif token in b"{[":
                frame = frame.inner(token == b"[")
            elif token in b"}]":
                frame = frame.outer or frame
            elif token == b",":
                frame.next()
            else:
                new = self._bare(token, frame)
            if new is not None:
                out += [raw[end:start], new]
                end = start + len(found[1] or token)
        return b"".join([*out, raw[end:]]) if out else raw

    def _key(self, token: bytes, frame: "_Frame", hinted: bool) -> bytes | None:
        key = _text(token) if hinted and len(token) > MIN_KEY else ""
        new = shapes.inside(key, "", self.mask) if key else key
        if new == key:
            frame.key, frame.name, frame.hides = _read_key_text(token)
            return None
        frame.key, frame.name, frame.hides = new[:64], shapes.words(new[-128:]), False
        self._found(frame.above, new)
        return _quote(new)

    def _text(self, token: bytes, frame: "_Frame", hinted: bool) -> bytes | None:
        secret = frame.secret()
        if frame.name.lower() in _ITS_NAME:
            frame.pair = shapes.is_secret(shapes.words(_text(token)[-128:]))
        if not (hinted or secret):
            return None
        text = _text(token)
        new = self._string(text, frame, secret)
        return None if new == text else _quote(new)

    def _bare(self, token: bytes, frame: "_Frame") -> bytes | None:
        """A number; true, false and null are no secrets."""
        if token[0] not in b"-0123456789" or not self._number(token.decode(), frame):
            return None
        return _quote(self._found(frame.path(), self.mask(token.decode())))

    def _string(self, text: str, frame: "_Frame", secret: bool) -> str:
        if secret:
            new = shapes.whole(text, self.mask)
        elif text.lstrip()[:1] in ("{", "[") and self.nesting < MAX_NESTING and _is_json(text):
            walk = _Walk(self.mask, self.paths, self.nesting + 1)
            raw = text.encode(errors="surrogatepass")
            return walk.json(raw, frame.path()).decode(errors="surrogatepass")
        else:
            new = shapes.inside(text, frame.name, self.mask) if len(text) >= MIN_TEXT else text
        return new if new == text else self._found(frame.path(), new)

    @staticmethod
    def _number(digits: str, frame: "_Frame") -> bool:
        if shapes.is_card(frame.name):
            return digits.isdigit() and 13 <= len(digits) <= 19 and shapes.luhn(digits)
        return frame.secret() and not shapes.is_count(frame.name)

    def _found(self, path: str, new: str) -> str:
        if len(self.paths) < MAX_PATHS:
            self.paths[path[:MAX_PATH]] = None
        return new


class _Frame:
    """Where in the line: inside which object or array, at which key or index."""

    __slots__ = ("above", "hides", "index", "inherited", "key", "name", "outer", "pair")

    def __init__(
        self, outer: "_Frame | None", above: str, index: int | None, inherited: bool
    ) -> None:
        self.outer, self.above, self.index, self.inherited = outer, above, index, inherited
        self.key, self.name = "", ""  # the key as it stands, and as words
        self.hides = False  # the key names a secret
        self.pair = False  # an object of name and value, whose name does

    def inner(self, array: bool) -> "_Frame":
        return _Frame(self, self.path(), 0 if array else None, self.secret())

    def next(self) -> None:
        if self.index is not None:
            self.index += 1

    def path(self) -> str:
        here = self.key if self.index is None else str(self.index)
        joined = f"{self.above}.{here}" if self.above and here else self.above or here
        return joined[: 4 * MAX_PATH]

    def secret(self) -> bool:
        if self.inherited and not shapes.is_open(self.name):
            return True
        return self.hides or (self.pair and self.name.lower() in _ITS_VALUE)


@lru_cache(maxsize=4096)
def _read_key_text(token: bytes) -> tuple[str, str, bool]:
    """A key as it stands in the line: its text, its words, and whether they name a secret."""
    text = _text(token)
    name = shapes.words(text[-128:])
    return text[:64], name, name != "" and shapes.is_secret(name)


def _texts(lines: Sequence[bytes]) -> pl.Series:
    """The lines as a column of text. A cast is the fast way; it refuses all for one bad byte."""
    try:
        return pl.Series(lines, dtype=pl.Binary).cast(pl.String)
    except pl.exceptions.PolarsError:
        return pl.Series([line.decode(errors="replace") for line in lines], dtype=pl.String)


def _text(token: bytes) -> str:
    if b"\\" not in token:
        return token[1:-1].decode(errors="replace")
    return str(json.loads(token.decode(errors="replace"), strict=False))


def _quote(text: str) -> bytes:
    """A JSON string; a lone surrogate stays the escape that it was."""
    try:
        return json.dumps(text, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return json.dumps(text).encode()


def _is_json(text: str) -> bool:
    raw = text.encode(errors="surrogatepass")
    return parse(raw if raw.lstrip()[:1] == b"{" else b'{"_":' + raw + b"}").doc is not None


def load_key(path: Path) -> bytes:
    """The key of this installation, made on first use. It lives outside the data folder.

    Raises ConfigError when the file is too short or cannot be read or made.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return _read_key(path)
    except OSError as error:
        raise ConfigError(f"{path}: the redaction key can't be made: {error.strerror}.") from None
    key = secrets.token_bytes(KEY_BYTES)
    with os.fdopen(handle, "wb") as file:
        file.write(key)
        file.flush()
        os.fsync(file.fileno())
    return key


def _read_key(path: Path) -> bytes:
    try:
        key = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: the redaction key can't be read: {error.strerror}.") from None
    if len(key) < KEY_BYTES:
        raise ConfigError(
            f"{path}: the redaction key has {len(key)} bytes, {KEY_BYTES} are needed."
        )
    return key
