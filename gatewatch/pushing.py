"""What one-shot commands leave on a Pushgateway: that they ran, how it ended, what they counted.

The service is scraped; only what has ended before anybody could scrape it is pushed. A group
stands for one command, and each run replaces it whole: at the start, so that nothing of an earlier
run is taken for this one, and at the end. What cannot be pushed is said on stderr and changes no
exit code.
Reads: gatewatch.toml. Writes: nothing. Next: docs/metrics.md.
"""

import base64
import functools
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import httpx
import typer
from prometheus_client import CollectorRegistry, Gauge, generate_latest

from detectors import delivery, peers
from detectors.receivers import Delivered, Flow, Outcome, Refused, judge, quoted
from gatewatch.commands.terminal import err, printable
from gatewatch.parts import DEFAULT, settings_of, utc_now
from ingest.config import ConfigError, Settings, convert

PLAIN = re.compile(r"[A-Za-z0-9_-]+")  # what goes into a path as it is
KIND = "text/plain; version=0.0.4; charset=utf-8"
METRICS = {
    "gatewatch_command_running": "1 while it runs; it stays 1 where it was killed.",
    "gatewatch_command_success": "1 where the last run ended well, 0 where it did not.",
    "gatewatch_command_duration_seconds": "How long the last run took.",
    "gatewatch_command_last_run_timestamp_seconds": "When the last run ended.",
    "gatewatch_command_result": "What the last run counted, by what.",
}
_counted: dict[str, float] = {}  # by the command that runs; a process runs one


class Pushgateway(peers.Access, frozen=True, kw_only=True):
    """`[pushgateway]`. `instance` tells machines apart whose commands share a Pushgateway."""

    url: str
    instance: str | None = None


def count(**numbers: float) -> None:
    """What a command counted; each name is a word of its own JSON."""
    _counted.update({name: float(number) for name, number in numbers.items()})


def told(command: Callable[..., None]) -> Callable[..., None]:
    """The command, which tells a Pushgateway of itself where one is configured."""

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        with _pushed(command.__name__, kwargs.get("config")):
            command(*args, **kwargs)

    return run


@contextmanager
def _pushed(command: str, config: Any) -> Iterator[None]:
    gateway = _configured(config)
    if gateway is None:
        yield
        return
    _counted.clear()
    began, good = time.monotonic(), False
    _say(gateway, command, {"running": 1.0})
    try:
        yield
        good = True
    except typer.Exit as end:
        good = end.exit_code == 0
        raise
    finally:
        found = {
            "running": 0.0, "success": float(good),
            "duration_seconds": time.monotonic() - began,
            "last_run_timestamp_seconds": utc_now().timestamp(),
        }  # fmt: skip
        _say(gateway, command, found, _counted)


def _configured(config: Any) -> Pushgateway | None:
    try:
        return read(settings_of(config))
    except ConfigError as error:  # the command says what is wrong with the file; of this, we do
        if "pushgateway" in str(error):
            _complain(str(error))
        return None


def read(settings: Settings) -> Pushgateway | None:
    """The `[pushgateway]` table, or None. Raises ConfigError."""
    if not settings.pushgateway:
        return None
    where = f"{DEFAULT}: pushgateway"
    found = convert(settings.pushgateway, Pushgateway, where)
    peers.check([found.url], found, where)
    return found


def _say(
    gateway: Pushgateway, command: str, values: Mapping[str, float],
    results: Mapping[str, float] | None = None,
) -> None:  # fmt: skip
    outcome = put(gateway, job(command), text(values, results or {}))
    if not isinstance(outcome, Delivered):
        _complain(f"the Pushgateway was not told: {outcome.reason}")


def _complain(why: str) -> None:
    err.print(printable(f"pushgateway: {why}"), markup=False, soft_wrap=True)
    sys.stderr.flush()


def job(command: str) -> str:
    return f"gatewatch_{command}"


def text(values: Mapping[str, float], results: Mapping[str, float]) -> bytes:
    """A group in the text format. It holds no times of its own: those are refused."""
    registry = CollectorRegistry()
    for name, value in values.items():
        full = f"gatewatch_command_{name}"
        Gauge(full, METRICS[full], registry=registry).set(value)
    if results:
        name = "gatewatch_command_result"
        gauge = Gauge(name, METRICS[name], ["what"], registry=registry)
        for what, number in results.items():
            gauge.labels(what).set(number)
    return generate_latest(registry)


def place(gateway: Pushgateway, name: str) -> str:
    """The URL of a group. Whatever a value holds, it stays one step of the path."""
    parts = [("job", name)]
    if gateway.instance is not None:
        parts.append(("instance", gateway.instance))
    return "/".join([gateway.url.rstrip("/"), "metrics", *(_step(*each) for each in parts)])


def _step(label: str, value: str) -> str:
    if PLAIN.fullmatch(value):
        return f"{label}/{quote(value, safe='')}"
    coded = base64.urlsafe_b64encode(value.encode()).decode().rstrip("=")
    return f"{label}@base64/{coded or '='}"


def put(gateway: Pushgateway, name: str, body: bytes) -> Outcome:
    """Replace a group."""
    return _ask(gateway, httpx.Request("PUT", place(gateway, name), content=body,
                                       headers={"content-type": KIND}))  # fmt: skip


def delete(gateway: Pushgateway, name: str) -> Outcome:
    """Take a group away."""
    return _ask(gateway, httpx.Request("DELETE", place(gateway, name)))


def _ask(gateway: Pushgateway, request: httpx.Request) -> Outcome:
    request.headers.update(peers.headers(gateway))
    with peers.client(gateway) as client:
        return delivery.attempt(_flow(request), client)


def _flow(request: httpx.Request) -> Flow:
    """https://github.com/prometheus/pushgateway#api: 200 for a push that was checked, 202 for one
    that was not and for every delete."""
    response = yield request
    if response.status_code == 400:
        return Refused(f"HTTP 400, it says {quoted(response)}", "clientError")
    return judge(response, utc_now()) or Delivered()
