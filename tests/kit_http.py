"""What tests over HTTP are written with: an application in this process, and a real service."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
from starlette.applications import Starlette

from gatewatch.api import Api
from gatewatch.demo import free_ports
from gatewatch.disk import Disk
from gatewatch.parts import Parts, open_parts, utc_now
from ingest.config import read_settings

ROOT = Path(__file__).parents[1]
CASES = ROOT.parent / "shared" / "cases" / "fixtures"
PATIENCE = 30.0  # seconds that a real process may take for anything


class Caller:
    """Speaks to an application in this process."""

    def __init__(self, app: Starlette) -> None:
        self._transport = httpx.ASGITransport(app=app)

    def request(self, method: str, path: str, **more: Any) -> httpx.Response:
        async def ask() -> httpx.Response:
            base = "http://localhost"
            async with httpx.AsyncClient(transport=self._transport, base_url=base) as client:
                return await client.request(method, path, **more)

        return asyncio.run(ask())

    def post(self, path: str, **more: Any) -> httpx.Response:
        return self.request("POST", path, **more)

    def get(self, path: str) -> httpx.Response:
        return self.request("GET", path)


class Asked:
    """A client of one small installation."""

    def __init__(self, folder: Path, config: str) -> None:
        path = folder / "gatewatch.toml"
        path.write_text(f'redact_key = "redact.key"\n{config}')
        self.parts: Parts = open_parts(read_settings(path))
        self.health = {"judge": "ok"}
        self.disk = Disk(self.parts.ledger.folder, 0, self.parts.lander.recover)
        self.again()

    def again(self) -> None:
        """The application anew, as after a restart: what it counts it counts from zero."""
        api = Api(self.parts, lambda: self.health, lambda: None, self.disk)
        self.intake, self.http = api.intake, Caller(api.app())

    def rows(self, sql: str, token: str = "", **params: Any) -> Any:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        answer = self.http.post("/v1/sql", json={"sql": sql, "params": params}, headers=headers)
        if answer.status_code != 200:
            return answer.status_code, answer.json()["error"]
        with pa.ipc.open_stream(answer.content) as stream:
            return stream.read_all().to_pylist()


def lines(*numbers: int, **more: Any) -> bytes:
    stamp = utc_now().isoformat()
    docs = [
        {"ts": stamp, "kind": "tool_call", "agent": "a1", "tool": "crm.export_contacts",
         "decision": "deny", "event_id": f"e{number}", **more}
        for number in numbers
    ]  # fmt: skip
    return b"".join(json.dumps(doc).encode() + b"\n" for doc in docs)


class Running:
    """A service in a process of its own. `folder` holds its gatewatch.toml and its data."""

    def __init__(self, folder: Path, process: subprocess.Popen[bytes], url: str) -> None:
        self.folder, self.process, self.url = folder, process, url
        self.http = httpx.Client(base_url=url, trust_env=False, timeout=PATIENCE)

    @property
    def port(self) -> int:
        return httpx.URL(self.url).port or 0

    def rows(self, sql: str) -> Any:
        answer = self.http.post("/v1/sql", json={"sql": sql})
        assert answer.status_code == 200, answer.text
        with pa.ipc.open_stream(answer.content) as stream:
            return stream.read_all().to_pylist()

    def memory(self, key: str = "VmRSS") -> float:
        """MiB that the process holds; with VmHWM, that it held at most."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        [line] = [each for each in status.splitlines() if each.startswith(f"{key}:")]
        return int(line.split()[1]) / 1024

    def stopped(self) -> None:
        self.http.close()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(PATIENCE)


@contextmanager
def running(folder: Path, config: str = "", service: str = "") -> Iterator[Running]:
    """A real service on a free port; `service` are more keys of its table."""
    [port] = free_ports(1)
    text = f'redact_key = "redact.key"\n{config}\n[service]\nport = {port}\n{service}\n'
    (folder / "gatewatch.toml").write_text(text)
    command = [sys.executable, "-m", "gatewatch", "serve", "--config"]
    with (folder / "serve.err").open("wb") as errors:
        process = subprocess.Popen(
            [*command, str(folder / "gatewatch.toml")], cwd=ROOT, stderr=errors,
            env=os.environ | {"XDG_CONFIG_HOME": str(folder)},
        )  # fmt: skip
        found = Running(folder, process, f"http://127.0.0.1:{port}")
        try:
            until(lambda: _answers(found) or process.poll() is not None)
            assert process.poll() is None, (folder / "serve.err").read_text()
            yield found
        finally:
            found.stopped()


def _answers(found: Running) -> bool:
    try:
        return found.http.get("/healthz").status_code == 200
    except httpx.TransportError:
        return False


def until(true: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Wait for what another process does."""
    limit = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < limit, f"not within {seconds} s"
        threading.Event().wait(0.05)
