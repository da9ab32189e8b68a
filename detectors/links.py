"""Signed links: what a person may do from a chat message without a password.

A link is a ticket for one action on one alert, made for one receiver, until one moment. Who holds
it may act, so it names nothing that could be changed and is worth nothing after its time.
Opening it does nothing: chat services open links to show a preview (gatewatch/link_pages.py).
Reads: nothing. Writes: nothing. Next: detectors/telling.py.
"""

import base64
import binascii
import hashlib
import hmac
import json
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

from ingest.config import ConfigError, Secret, SignedLinks

ACTIONS = ("ack", "pause")
PATH = "links"  # below the service's own address
LEAST_KEY = 32  # characters of a key: RFC 2104 wants no fewer bytes than the hash gives
LONGEST = timedelta(days=30)  # a ticket that lives longer is a password
VERSION = "gatewatch link 1"  # what is signed begins with it, so no other signature fits


@dataclass(frozen=True)
class Ticket:
    """What a link lets its holder do."""

    action: str  # ack | pause
    alert: str
    receiver: str  # whose message carries it
    until: datetime  # aware, UTC, whole seconds

    def over(self, now: datetime) -> bool:
        return now >= self.until


@dataclass(frozen=True)
class Links:
    """Makes links and tells the genuine from the forged."""

    url: str  # of the service, as people's browsers reach it
    key: Secret
    valid: timedelta
    actions: tuple[str, ...] = ACTIONS

    def buttons(self, alert_id: str, receiver: str, now: datetime) -> tuple[tuple[str, str], ...]:
        """The word and the address of each thing that can be done from a message, in order."""
        until = (now + self.valid).astimezone(UTC).replace(microsecond=0)
        tickets = (Ticket(action, alert_id, receiver, until) for action in self.actions)
        return tuple((each.action, self.address(each)) for each in tickets)

    def address(self, ticket: Ticket) -> str:
        """The link: letters, digits, `-`, `_` and `.` only, so that no chat service breaks it."""
        said = _said(ticket)
        return f"{self.url.rstrip('/')}/{PATH}/{_letters(said)}.{_letters(self._sign(said))}"

    def opened(self, token: str) -> Ticket | None:
        """What a link's last part says, where we made it; None where we did not.

        It may be over: ask `Ticket.over`.
        """
        said, _, signature = token.partition(".")
        with suppress(binascii.Error, ValueError, TypeError):
            told = _bytes(said)
            if hmac.compare_digest(self._sign(told), _bytes(signature)):
                _, action, alert, receiver, seconds = json.loads(told)
                until = datetime.fromtimestamp(seconds, UTC)
                return Ticket(action, alert, receiver, until)
        return None

    def _sign(self, said: bytes) -> bytes:
        return hmac.digest(self.key.reveal.encode(), said, hashlib.sha256)


def load(table: SignedLinks | None, pausing: bool, where: str) -> Links | None:
    """The links of a config's `[links]`; None without it. `pausing`: some gate can pause.

    Raises ConfigError for an address or a key that would be no use, or no secret.
    """
    if table is None:
        return None
    parts = urlsplit(table.url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ConfigError(f"{where}.url: {table.url!r} is no address: https://gatewatch.example.")
    if "@" in parts.netloc:
        raise ConfigError(f"{where}.url: 'https://...@{parts.hostname}' holds a password.")
    if parts.scheme == "http" and not table.allow_http:
        raise ConfigError(
            f"{where}.url: a link is a key, and http shows it to the network: use https,"
            " or say `allow_http = true`."
        )
    if len(table.key.reveal) < LEAST_KEY:
        raise ConfigError(
            f"{where}.key: at least {LEAST_KEY} characters, as `openssl rand -hex 32` gives."
        )
    if not timedelta(minutes=1) <= table.valid <= LONGEST:
        raise ConfigError(f"{where}.valid: between 1 minute and {LONGEST.days} days.")
    return Links(table.url, table.key, table.valid, ACTIONS if pausing else ("ack",))


def _said(ticket: Ticket) -> bytes:
    seconds = int(ticket.until.timestamp())
    said = [VERSION, ticket.action, ticket.alert, ticket.receiver, seconds]
    return json.dumps(said, ensure_ascii=True, separators=(",", ":")).encode()


def _letters(said: bytes) -> str:
    return base64.urlsafe_b64encode(said).decode().rstrip("=")


def _bytes(letters: str) -> bytes:
    """Raises what is no such text; only the one spelling of any bytes is taken."""
    found = base64.b64decode(letters + "=" * (-len(letters) % 4), altchars=b"-_", validate=True)
    if _letters(found) != letters:
        raise ValueError("another spelling")
    return found
