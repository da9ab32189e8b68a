"""A fleet that is simulated, and everything else that is real: log files that are followed, HTTP
batches, the service, its detectors, a chat that is told, the dashboard.

Reads: the clock. Writes: one folder. Next: gatewatch/commands/demo.py.
"""

import base64
import json
import queue
import secrets
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from gatewatch.chat_sink import Arrived, ChatSink
from gatewatch.fleet import Fleet, Line
from gatewatch.gates import Gates, rules, write_history
from gatewatch.parts import Parts, open_parts, utc_now
from gatewatch.service import Service
from gatewatch.summary import Alert, Summary, landed, summarise
from gatewatch.troubles import Trouble, begins, troubles
from ingest.config import ConfigError, Settings, read_settings

PAST = timedelta(hours=29)  # of history: a day's baseline, and the whole night before this one
PER_SECOND = 20.0  # live lines of the whole fleet
STEP = 0.1  # seconds between two writes of the live fleet
ROTATE = 20.0  # seconds of live time after which the files are rotated, once
DRAIN = 30.0  # seconds that what was written may take to land, at the end
PORTS = range(20_000, 32_000)  # below those that outgoing connections are given on the way
NIGHT_HOUR = 1  # the fleet's local hour at the start: deep in its night, far from its midnight

CONFIG = """\
data       = "data"
policy     = "policy.json"
redact_key = "redact.key"
public_url = "http://127.0.0.1:{dashboard}"

[service]
port = {service}

[dashboard]
port = {dashboard}

[sources.gate_a]
paths = ["logs/gate_a*.jsonl"]

[sources.gate_b]
paths = ["logs/gate_b*.jsonl"]

[sources.gate_http]
adapter = "native"

# The chat of this demo. On this machine, hence allow_http and allow_private.
[receivers.webhook]
type          = "webhook"
webhook       = "{chat}/webhook"
secrets       = ["{secret}"]
allow_http    = true
allow_private = true

[receivers.slack]
type          = "slack"
webhook       = "{chat}/slack"
allow_http    = true
allow_private = true

[receivers.dingtalk]
type          = "dingtalk"
webhook       = "{chat}/dingtalk?access_token=demo"
sign_key      = "{secret}"
language      = "zh"
allow_http    = true
allow_private = true
"""


@dataclass
class Demo:
    """One run in one folder. `told` is called for each alert that the chat was told of."""

    folder: Path
    dashboard: bool
    say: Callable[[str], None]
    told: Callable[[Alert], None]
    past: timedelta = PAST
    over: threading.Event = field(default_factory=threading.Event)

    def run(self, seconds: float | None) -> Summary:
        """Until `over` is set, or for so many seconds of live time. Cleans up behind itself."""
        began = time.monotonic()
        heard: queue.SimpleQueue[Arrived] = queue.SimpleQueue()
        secret = "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()
        sink = ChatSink(0, secret, utc_now, self.folder / "chat.ndjson", heard.put)
        sink.start()
        try:
            settings, zone = prepare(self.folder, sink.url, secret, utc_now())
            fleet = Fleet(utc_now() - self.past, zone)
            past = write_history(self.folder / "logs" / "gate_a.past.jsonl", fleet.until(utc_now()))
            parts = open_parts(settings)
            service = Service(parts, self.dashboard)
            try:
                service.start()
                self._addresses(service, sink, settings, zone)
                return self._live(parts, service, fleet, heard, past, began, seconds)
            finally:
                service.stop()
        finally:
            sink.stop()

    def _addresses(
        self, service: Service, sink: ChatSink, settings: Settings, zone: ZoneInfo
    ) -> None:
        self.say(f"Folder      {self.folder}")
        self.say(f"Service     {service.url}  (/metrics, /readyz)")
        self.say(f"Chat        {sink.url}")
        if self.dashboard:
            self.say(f"Dashboard   {settings.public_url}")
        clock = utc_now().astimezone(zone)
        self.say(f"The fleet's clock says {clock:%H:%M} ({zone.key}): nobody watches 22:00-08:00.")

    def _live(
        self, parts: Parts, service: Service, fleet: Fleet, heard: "queue.SimpleQueue[Arrived]",
        past: int, began: float, seconds: float | None,
    ) -> Summary:  # fmt: skip
        waited = time.monotonic()
        while landed(parts).lines < past and not self.over.wait(0.05):
            pass
        self.say(f"{past} lines of the past {self.past.total_seconds() / 3600:.0f} hours landed in"
                 f" {time.monotonic() - waited:.1f} s. Trouble begins now.")  # fmt: skip
        fleet.quicken(PER_SECOND)
        injected, start = troubles(), utc_now()
        run = _Run(injected, start, began, heard, self.told)
        gates = Gates(self.folder / "logs", f"{service.url}/v1/ingest/gate_http")
        try:
            self._write(gates, fleet, run, seconds)
        finally:
            gates.close()
        written = past + gates.written
        limit = time.monotonic() + DRAIN
        while landed(parts).lines < written - gates.pusher.lost and time.monotonic() < limit:
            time.sleep(0.05)
        run.hear()
        return summarise(parts, run.alerts, injected, written, time.monotonic() - began)

    def _write(self, gates: Gates, fleet: Fleet, run: "_Run", seconds: float | None) -> None:
        rotate = min(ROTATE, seconds / 2 if seconds else ROTATE)
        live = time.monotonic()
        while not self.over.wait(STEP):
            age = time.monotonic() - live
            if seconds is not None and age >= seconds:
                return
            now = utc_now()
            gates.take(sorted([*fleet.until(now), *run.due(now)]))
            if age >= rotate:
                for file in gates.files:
                    file.rotate()
                rotate = float("inf")
            run.hear()


class _Run:
    """What was injected, what is still to be written of it, and what the chat has heard."""

    def __init__(
        self, injected: tuple[Trouble, ...], start: datetime, began: float,
        heard: "queue.SimpleQueue[Arrived]", told: Callable[[Alert], None],
    ) -> None:  # fmt: skip
        self.alerts: list[Alert] = []
        self._heard, self._told, self._began = heard, told, began
        self._begins = begins(injected, start)
        self._injected = {(each.detector, each.subject): each for each in injected}
        self._lines: list[Line] = sorted(line for each in injected for line in each.at(start))

    def due(self, now: datetime) -> list[Line]:
        """The injected lines whose time has come, once."""
        found = [each for each in self._lines if each.at <= now]
        del self._lines[: len(found)]
        return found

    def hear(self) -> None:
        """Take what the chat was told since the last time."""
        while not self._heard.empty():
            message = self._heard.get()
            if message.service != "webhook" or not message.accepted or message.repeat:
                continue
            data = message.body["data"]
            key = (data["detector"], data["subject"])
            since = None
            if key in self._injected:
                at = datetime.fromisoformat(message.at)
                since = (at - self._begins[data["detector"]]).total_seconds()
            alert = Alert(data["kind"], *key, data["severity"], data["title"], message.at,
                          message.seconds - self._began, since)  # fmt: skip
            self.alerts.append(alert)
            self._told(alert)


def prepare(folder: Path, chat: str, secret: str, now: datetime) -> tuple[Settings, ZoneInfo]:
    """Write config and policy. Raises ConfigError for a folder that is in use."""
    folder.mkdir(parents=True, exist_ok=True)
    used = sorted(each.name for each in folder.iterdir() if each.name != "chat.ndjson")
    if used:
        raise ConfigError(f"{folder}: holds {used[0]!r}; the demo wants an empty folder.")
    (folder / "logs").mkdir()
    zone = night_zone(now)
    service, dashboard = free_ports(2)
    config = folder / "gatewatch.toml"
    config.write_text(
        CONFIG.format(service=service, dashboard=dashboard, chat=chat, secret=secret),
        encoding="utf-8",
    )
    (folder / "policy.json").write_text(json.dumps(rules(zone.key), indent=2), encoding="utf-8")
    return read_settings(config), zone


def night_zone(now: datetime) -> ZoneInfo:
    """A zone in which it is night now, so that an approval surge can be shown at any hour."""
    east = NIGHT_HOUR - now.hour
    east += 24 if east < -11 else 0
    return ZoneInfo(f"Etc/GMT{-east:+d}")  # POSIX counts westwards: GMT-5 is five hours east


def free_ports(count: int) -> list[int]:
    """Ports of this machine that nobody listens on."""
    found: set[int] = set()
    while len(found) < count:
        port = secrets.choice(PORTS)
        with socket.socket() as tried, suppress(OSError):
            tried.bind(("127.0.0.1", port))
            found.add(port)
    return sorted(found)
