"""The service, asked over HTTP by a command that finds the database held.

Reads: the service's answers. Writes: nothing itself. Next: gatewatch/api.py.
"""

import json
import os
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa


class ServiceError(RuntimeError):
    """The service is not there, or refuses. One sentence that says which."""


class Remote:
    """Answers what a Store answers, and takes what a Lander takes."""

    def __init__(self, url: str, token: str | None = None) -> None:
        self.url = url
        token = token or os.environ.get("GATEWATCH_TOKEN")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._http = httpx.Client(base_url=url, headers=headers, timeout=60, trust_env=False)

    def rows(self, sql: str, **params: Any) -> list[dict[str, Any]]:
        given = {
            key: value.isoformat() if isinstance(value, datetime) else value
            for key, value in params.items()
        }
        answer = self._ask("POST", "/v1/sql", json={"sql": sql, "params": given})
        with pa.ipc.open_stream(answer.content) as stream:
            rows: list[dict[str, Any]] = stream.read_all().to_pylist()
            return rows

    def act(self, alert_id: str, action: str, **body: str) -> dict[str, Any]:
        """Acknowledge an alert or give a verdict on it."""
        answer = self._ask("POST", f"/v1/alerts/{alert_id}/{action}", json=body)
        done: dict[str, Any] = answer.json()
        return done

    def label(self, rows: list[dict[str, Any]]) -> None:
        """Import labels of runs."""
        self._ask("POST", "/v1/labels", json={"rows": rows, "actor": "import"})

    def mined(self, results: list[dict[str, Any]], rules: list[dict[str, Any]]) -> None:
        """Keep what the miner found, for the pages."""
        self._ask("POST", "/v1/mined", json={"results": results, "rules": rules, "actor": "mine"})

    def explain(self, alert_id: str) -> dict[str, Any]:
        told: dict[str, Any] = self._ask("GET", f"/v1/alerts/{alert_id}/explain").json()
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
            try:
                reason = answer.json()["error"]
            except (ValueError, KeyError, TypeError):
                reason = f"HTTP {answer.status_code}"
            raise ServiceError(f"{self.url}: {reason}")
        return answer


def running(db: Path) -> Remote | None:
    """The service that holds this database, where it left its address."""
    path = db.with_suffix(".service.json")
    try:
        return Remote(json.loads(path.read_text())["url"])
    except (OSError, ValueError, KeyError):
        return None
