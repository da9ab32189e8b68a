"""Single values as people write them: secrets, lengths of time, times of day.

Reads: the environment, files of secrets. Writes: nothing. Next: ingest/config.py.
"""

import hmac
import os
import re
from datetime import timedelta
from pathlib import Path
from typing import Self


class ConfigError(ValueError):
    """The user must change a file. Names it, the key, what was found, and the nearest spelling."""


class Secret:
    """A string that shows itself only when asked; printed, it is the name of its type.

    Written as `env:NAME` or `file:PATH` it is taken from there.
    """

    def __init__(self, value: str) -> None:
        self.reveal = _looked_up(value)
        if not self.reveal:  # an empty token would let everybody in
            raise ConfigError(f"a secret is empty{f': {value}' if value else ''}.")

    def __eq__(self, other: object) -> bool:
        """By what it holds: a config that is read again has not changed."""
        return isinstance(other, Secret) and hmac.compare_digest(
            self.reveal.encode(), other.reveal.encode()
        )

    def __hash__(self) -> int:
        return hash(self.reveal)


class Duration(timedelta):
    """A length of time as people write it: `30 days`, `6 hours`."""

    def __new__(cls, text: str) -> Self:
        found = isinstance(text, str) and re.fullmatch(r"(\d{1,6}) (minute|hour|day|week)s?", text)
        if not found:
            raise ConfigError(f"{text!r} is no length of time: write 30 days, or 6 hours.")
        whole = timedelta(**{f"{found[2]}s": int(found[1])})
        return super().__new__(cls, days=whole.days, seconds=whole.seconds)


class Clock(str):
    """A time of day on a wall clock, as in `09:00`; or `never`. Both compare as texts do."""

    __slots__ = ()

    def __new__(cls, text: str) -> Self:
        if not isinstance(text, str) or not re.fullmatch(
            r"([01][0-9]|2[0-3]):[0-5][0-9]|never", text
        ):
            raise ConfigError(f"{text!r} is no time of day: write 09:00, or never.")
        return super().__new__(cls, text)


def _looked_up(value: str) -> str:
    if not isinstance(value, str):
        raise ConfigError(f"a secret is a text, found {type(value).__name__}.")
    place, _, name = value.partition(":")
    if place == "env":
        if name not in os.environ:
            raise ConfigError(f"the environment has no variable {name!r}, which a secret names.")
        return os.environ[name]
    if place == "file":
        try:
            return Path(name).expanduser().read_text(encoding="utf-8").strip()
        except OSError as error:
            raise ConfigError(f"{name}: a secret names this file: {error.strerror}.") from None
    return value
