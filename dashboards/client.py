"""Ask the service over HTTP. The dashboard's only way to data; it never opens the database.

Nothing is cached: what one token may see is never shown to another, and old is never shown as new.
"""

import io
import json
from collections.abc import Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple
from urllib.parse import quote

import httpx
import polars as pl
from polars.exceptions import PolarsError

TIMEOUT = httpx.Timeout(8, connect=3)  # a page that hangs longer looks like one that is up to date
SLOW = httpx.Timeout(320, connect=3)  # for what a person asked for and waits for


class ServiceDown(Exception):  # noqa: N818 - the name is the reason
    """Nobody answers, or the answer says that the service itself is broken. One sentence."""


class ServiceRefused(Exception):  # noqa: N818 - the name is the reason
    """The service answers, and says no. One sentence."""


TROUBLE = (ServiceDown, ServiceRefused)


class Health(NamedTuple):
    now: datetime  # the service's clock, aware UTC, whole seconds
    ok: bool


class Client:
    """One viewer's connection: an address and a token, kept for one session only."""

    def __init__(self, url: str, token: str, transport: httpx.BaseTransport | None = None) -> None:
        self.answered: datetime | None = None  # when the service last answered, by its own clock
        self._token = token
        self._url = _without_password(url).rstrip("/")
        self._http = httpx.Client(timeout=TIMEOUT, transport=transport, trust_env=False)

    def close(self) -> None:
        self._http.close()

    def sql(self, sql: str, **params: Any) -> pl.DataFrame:
        """The rows of one SELECT. Times go out as RFC 3339: cast them, `$since::TIMESTAMPTZ`."""
        body = self._ask("POST", "/v1/sql", {"sql": sql, "params": params}).content
        try:
            return pl.read_ipc_stream(io.BytesIO(body))
        except (PolarsError, OSError, ValueError):
            raise ServiceDown(f"{self._who} answers, but not with a table.") from None

    def rows(self, sql: str, **params: Any) -> list[dict[str, Any]]:
        """The same as dictionaries, for what asks a store so elsewhere."""
        plain = {
            key: value.isoformat() if isinstance(value, datetime) else value
            for key, value in params.items()
        }
        return self.sql(sql, **plain).to_dicts()

    def ack(self, alert_id: str, actor: str, reason: str) -> None:
        """A person has seen the alert and works on it."""
        self._act(alert_id, "ack", {"actor": actor, "reason": reason})

    def verdict(self, alert_id: str, verdict: str, actor: str, reason: str) -> None:
        """What the alert was: true, false, expected or accepted."""
        self._act(alert_id, "verdict", {"verdict": verdict, "actor": actor, "reason": reason})

    def reopen(self, alert_id: str, actor: str, reason: str) -> None:
        """Acknowledgement and verdict are taken back, and the incidents with them."""
        self._act(alert_id, "reopen", {"actor": actor, "reason": reason})

    def assign(self, alert_id: str, to: str, actor: str, reason: str = "") -> None:
        """Somebody is to look into it; with an empty name, nobody is."""
        self._act(alert_id, "assign", {"to": to, "actor": actor, "reason": reason})

    def comment(self, alert_id: str, text: str, actor: str) -> None:
        """A line of the alert's history."""
        self._act(alert_id, "comment", {"text": text, "actor": actor})

    def silences(self) -> list[dict[str, Any]]:
        """Those in force (`active`), and those that ended in the last seven days."""
        found: list[dict[str, Any]] = self._ask("GET", "/v1/silences", None).json()
        return found

    def preview(self, wanted: Mapping[str, str]) -> dict[str, Any]:
        """What a silence with these matchers (detector, subject, agent, tenant, tag, severity,
        at_most) would hide: `open`, `week`, `open_count`, `week_count`."""
        told: dict[str, Any] = self._ask("POST", "/v1/silences/preview", wanted).json()
        return told

    def silence(
        self, wanted: Mapping[str, str], until: datetime, actor: str, reason: str
    ) -> dict[str, Any]:
        """Make a silence. Returns it, with its `silence_id`."""
        body = {**wanted, "until": until, "actor": actor, "reason": reason}
        made: dict[str, Any] = self._ask("POST", "/v1/silences", body).json()
        return made

    def end_silence(self, silence_id: str, actor: str) -> None:
        """It is over now."""
        self._ask("POST", f"/v1/silences/{quote(silence_id, safe='')}/end", {"actor": actor})

    def route(self, alert_id: str) -> dict[str, Any]:
        """Who would be told of an alert now, and why: what detectors/whom.py answers."""
        path = f"/v1/alerts/{quote(alert_id, safe='')}/route"
        found: dict[str, Any] = self._ask("GET", path, None).json()
        return found

    def pause_preview(self, asked: Mapping[str, str]) -> dict[str, Any]:
        """Who would be asked to pause whom, until when; `asked` names an alert, or a target."""
        told: dict[str, Any] = self._ask("POST", "/v1/pauses/preview", asked).json()
        return told

    def pause(self, asked: Mapping[str, str], actor: str, reason: str) -> None:
        """Have the gates stop an agent."""
        self._ask("POST", "/v1/pauses", {**asked, "actor": actor, "reason": reason})

    def resume(self, pause: str, actor: str, reason: str) -> None:
        """Have them let it go on."""
        path = f"/v1/pauses/{quote(pause, safe='')}/resume"
        self._ask("POST", path, {"actor": actor, "reason": reason})

    def tune(self, detector: str, param: str, values: list[str], since: datetime) -> pl.DataFrame:
        """Alerts a day and precision of one detector at other values, a row each."""
        asked = {"detector": detector, "values": values, "since": since, "param": param or None}
        told = self._ask("POST", "/v1/tune", asked, SLOW).json()
        return pl.DataFrame(told["steps"])

    def health(self) -> Health:
        """The service's clock and whether it calls itself healthy; the dashboard has no clock."""
        response = self._send("GET", "/healthz", None)
        try:
            now = parsedate_to_datetime(response.headers.get("date", ""))
        except ValueError:
            raise ServiceDown(f"{self._who} answers without saying what time it is.") from None
        self.answered = now
        return Health(now, response.is_success)

    def _act(self, alert_id: str, action: str, body: Mapping[str, str]) -> None:
        self._ask("POST", f"/v1/alerts/{quote(alert_id, safe='')}/{action}", body)

    @property
    def _who(self) -> str:
        return f"The service at {self._url}"

    def _ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        timeout: httpx.Timeout = TIMEOUT,
    ) -> httpx.Response:
        response = self._send(method, path, body, timeout)
        if response.is_success:
            return response
        if response.status_code in (401, 403):
            raise ServiceRefused(
                f"{self._who} refuses this token ({response.status_code}: {_said(response)})."
                " Set GATEWATCH_TOKEN to one with the role that this needs."
            )
        if response.status_code >= 500:
            raise ServiceDown(f"{self._who} is in trouble ({response.status_code}).")
        raise ServiceRefused(f"{self._who} refuses: {_said(response)}")

    def _send(
        self, method: str, path: str, body: Mapping[str, Any] | None,
        timeout: httpx.Timeout = TIMEOUT,
    ) -> httpx.Response:  # fmt: skip
        headers = {"Content-Type": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        content = None if body is None else json.dumps(body, default=_plain).encode()
        try:
            return self._http.request(
                method, self._url + path, content=content, headers=headers, timeout=timeout
            )
        except httpx.InvalidURL:
            raise ServiceDown("GATEWATCH_URL is not an address.") from None
        except httpx.HTTPError as error:  # its class only: the text may hold the address
            raise ServiceDown(f"{self._who} does not answer ({type(error).__name__}).") from None


def _without_password(url: str) -> str:
    """A name and password in the address would be sent in place of the token, and be shown."""
    try:
        return str(httpx.URL(url).copy_with(userinfo=b""))
    except httpx.InvalidURL:
        return url  # said when it is used


def _plain(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} cannot be a parameter")


def _said(response: httpx.Response) -> str:
    """The service's own sentence, else its status line."""
    try:
        answer = response.json()
    except ValueError:
        answer = None
    if isinstance(answer, dict) and isinstance(answer.get("error"), str):
        return str(answer["error"])[:300]
    return response.reason_phrase
