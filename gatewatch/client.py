"""The service, asked over HTTP by a command that finds the database held.

Reads: the service's answers. Writes: nothing itself. Next: gatewatch/api.py.
"""

import io
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import msgspec
import pyarrow as pa

from ingest.export import Day

SLOW = 320.0  # seconds for a question that may judge all of history


class ServiceError(RuntimeError):
    """The service is not there, or refuses. One sentence that says which."""


class Remote:
    """Answers what a Store answers, and takes what a Lander takes."""

    def __init__(self, url: str, token: str | None = None) -> None:
        self.url = url
        token = token or os.environ.get("GATEWATCH_TOKEN")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._http = httpx.Client(base_url=url, headers=headers, timeout=60, trust_env=False)

    def close(self) -> None:
        self._http.close()

    def rows(self, sql: str, **params: Any) -> list[dict[str, Any]]:
        given = {
            key: value.isoformat() if isinstance(value, datetime) else value
            for key, value in params.items()
        }
        answer = self._ask("POST", "/v1/sql", json={"sql": sql, "params": given})
        with pa.ipc.open_stream(answer.content) as stream:
            rows: list[dict[str, Any]] = stream.read_all().to_pylist()
            return rows

    @contextmanager
    def day(self, table: str, day: date) -> Iterator[Day]:
        """All rows of one table and day, as they come."""
        try:
            with self._http.stream("GET", f"/v1/days/{table}/{day}") as answer:
                if answer.is_error:
                    answer.read()
                    raise ServiceError(f"{self.url}: {_reason(answer)}")
                stream = pa.ipc.open_stream(_Coming(answer.iter_bytes()))
                count = int(stream.schema.metadata[b"rows"])
                yield Day(count, stream.schema.remove_metadata(), _plain(stream))
        except (httpx.HTTPError, pa.ArrowInvalid) as error:
            raise ServiceError(f"{self.url}: ended within {table} of {day}: {error}.") from None

    def prune(self, before: datetime | None, dry_run: bool) -> dict[str, Any]:
        """Have the service prune, which may take minutes."""
        asked = {"before": before.isoformat() if before else None, "dry_run": dry_run}
        done: dict[str, Any] = self._ask("POST", "/v1/prune", json=asked, timeout=3600).json()
        return done

    def act(self, alert_id: str, action: str, **body: str) -> dict[str, Any]:
        """Do something about an alert: ack, verdict, reopen, assign, comment. Returns it."""
        answer = self._ask("POST", f"/v1/alerts/{quote(alert_id, safe='')}/{action}", json=body)
        done: dict[str, Any] = answer.json()
        return done

    def silences(self) -> list[dict[str, Any]]:
        """Those in force, and those that ended of late."""
        found: list[dict[str, Any]] = self._ask("GET", "/v1/silences").json()
        return found

    def preview(self, wanted: Mapping[str, str]) -> dict[str, Any]:
        """What a silence with these matchers would hide."""
        told: dict[str, Any] = self._ask("POST", "/v1/silences/preview", json=wanted).json()
        return told

    def silence(self, body: Mapping[str, str]) -> dict[str, Any]:
        """Make a silence: matchers, `until`, `actor`, `reason`."""
        made: dict[str, Any] = self._ask("POST", "/v1/silences", json=body).json()
        return made

    def end_silence(self, silence_id: str, actor: str) -> dict[str, Any]:
        """It is over now."""
        path = f"/v1/silences/{quote(silence_id, safe='')}/end"
        done: dict[str, Any] = self._ask("POST", path, json={"actor": actor}).json()
        return done

    def deliveries(
        self, states: Sequence[str], receiver: str | None, alert: str | None, limit: int
    ) -> list[dict[str, Any]]:
        """Messages in these states: see detectors/letters.py."""
        named = {"receiver": receiver, "alert": alert, "limit": limit}
        asked = {"state": list(states)} | {key: it for key, it in named.items() if it is not None}
        answer = self._ask("GET", "/v1/deliveries", params=asked)
        found: list[dict[str, Any]] = answer.json()["deliveries"]
        return found

    def retry(self, asked: msgspec.Struct) -> dict[str, Any]:
        """Send after all what was given up: `asked` is gatewatch.delivering.Retry."""
        body = msgspec.to_builtins(asked)
        done: dict[str, Any] = self._ask("POST", "/v1/deliveries/retry", json=body).json()
        return done

    def label(self, rows: list[dict[str, Any]]) -> None:
        """Import labels of runs."""
        self._ask("POST", "/v1/labels", json={"rows": rows, "actor": "import"})

    def mined(self, results: list[dict[str, Any]], rules: list[dict[str, Any]]) -> None:
        """Keep what the miner found, for the pages."""
        self._ask("POST", "/v1/mined", json={"results": results, "rules": rules, "actor": "mine"})

    def pause_preview(self, asked: dict[str, str]) -> dict[str, Any]:
        """Who would be asked to pause whom, until when."""
        told: dict[str, Any] = self._ask("POST", "/v1/pauses/preview", json=asked).json()
        return told

    def pause(self, asked: dict[str, str]) -> list[dict[str, Any]]:
        """Order a pause; a row a gate."""
        rows: list[dict[str, Any]] = self._ask("POST", "/v1/pauses", json=asked).json()
        return rows

    def resume(self, pause: str, actor: str, reason: str) -> None:
        self._ask(
            "POST",
            f"/v1/pauses/{quote(pause, safe='')}/resume",
            json={"actor": actor, "reason": reason},
        )

    def pauses(self, **of: str | None) -> list[dict[str, Any]]:
        """All, of an `alert`, or one `pause`; a row a gate."""
        asked = {key: value for key, value in of.items() if value}
        rows: list[dict[str, Any]] = self._ask("GET", "/v1/pauses", params=asked).json()
        return rows

    def explain(self, alert_id: str) -> dict[str, Any]:
        told: dict[str, Any] = self._ask("GET", f"/v1/alerts/{alert_id}/explain").json()
        return told

    def route(self, alert_id: str | None, asked: msgspec.Struct) -> dict[str, Any]:
        """Who would be told: see gatewatch/routing_answers.py."""
        params = {key: value for key, value in msgspec.to_builtins(asked).items() if value}
        path = f"/v1/alerts/{quote(alert_id, safe='')}/route" if alert_id else "/v1/route"
        told: dict[str, Any] = self._ask("GET", path, params=params).json()
        return told

    def tried(self, path: str, asked: msgspec.Struct) -> dict[str, Any]:
        """What detectors would say: see gatewatch/trying.py, whose requests `asked` is one of."""
        told: dict[str, Any] = self._ask(
            "POST", path, json=msgspec.to_builtins(asked), timeout=SLOW
        ).json()
        return told

    def ingest(self, source: str, lines: list[bytes]) -> dict[str, Any]:
        """Push lines as one batch. The source must be one of the service's own."""
        answer = self._ask("POST", f"/v1/ingest/{source}", content=b"\n".join(lines) + b"\n")
        landed: dict[str, Any] = answer.json()
        return landed

    def _ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        try:
            answer = self._http.request(method, path, **more)
        except httpx.HTTPError as error:
            raise ServiceError(f"{self.url}: no answer ({type(error).__name__}).") from None
        if answer.is_error:
            raise ServiceError(f"{self.url}: {_reason(answer)}")
        return answer


class _Coming(io.RawIOBase):
    """An answer that is read as it comes, as a file."""

    def __init__(self, parts: Iterator[bytes]) -> None:
        self._parts, self._left = parts, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._left:
            part = next(self._parts, None)
            if part is None:
                return 0
            self._left = part
        size = min(len(buffer), len(self._left))
        buffer[:size], self._left = self._left[:size], self._left[size:]
        return size


def _plain(stream: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    for batch in stream:
        yield batch.replace_schema_metadata(None)


def _reason(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["error"])
    except (ValueError, KeyError, TypeError):
        return f"HTTP {answer.status_code}"


def running(db: Path) -> Remote | None:
    """The service that holds this database, where it left its address."""
    path = db.with_suffix(".service.json")
    try:
        return Remote(json.loads(path.read_text())["url"])
    except (OSError, ValueError, KeyError):
        return None
