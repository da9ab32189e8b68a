"""A stand-in of Alertmanager that refuses as the real one does, and forgets when it is restarted.

https://prometheus.io/docs/alerting/latest/alerts_api/; rules as in its `api/v2/api.go` and
`types/types.go`: a start is needed, an end lies after it, an alert has a label, names are plain;
one bad alert makes the answer 400, and those beside it are kept.
"""

import json
import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

import httpx

NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
Labels = frozenset[tuple[str, str]]


class Alertmanager:
    """A callable for httpx.MockTransport. `now` is its clock."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self.now = now
        self.kept: dict[Labels, dict[str, Any]] = {}
        self.heard: list[list[dict[str, Any]]] = []
        self.asked: list[httpx.Request] = []
        self.rejected = 0
        self.away: int | None = None  # answers everything with this status

    def restart(self) -> None:
        """Alerts live in memory alone."""
        self.kept.clear()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        if self.away is not None:
            return httpx.Response(self.away)
        if (request.method, request.url.path) != ("POST", "/api/v2/alerts"):
            return httpx.Response(404)
        if request.headers["content-type"] != "application/json":
            return httpx.Response(415)
        alerts = json.loads(request.content)
        self.heard.append(alerts)
        bad = [why for each in alerts if (why := self._take(each))]
        self.rejected += len(bad)
        return httpx.Response(400, json="; ".join(bad)) if bad else httpx.Response(200)

    def _take(self, alert: dict[str, Any]) -> str | None:
        labels = {name: value for name, value in alert["labels"].items() if value}
        if not labels:
            return "at least one label pair required"
        for name in (*labels, *alert["annotations"]):
            if not NAME.fullmatch(name):
                return f"invalid label name {name!r}"
        start, end = (datetime.fromisoformat(alert[key]) for key in ("startsAt", "endsAt"))
        if start.year < 1970:
            return "start time missing"
        if end <= start:
            return "start time must be before end time"
        self.kept[frozenset(labels.items())] = alert | {"start": start, "end": end}
        return None

    def active(self, **labels: str) -> list[dict[str, Any]]:
        """Those that fire now and carry these labels."""
        wanted = set(labels.items())
        return [
            each for key, each in self.kept.items() if wanted <= key and each["end"] > self.now()
        ]
