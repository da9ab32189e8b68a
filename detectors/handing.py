"""Hand a message to the library Apprise, in a process of its own: detectors/courier.py.

The library opens its own connections and knows no deadline that could be relied on. There it can
be watched, and ended, without this process being touched; it sees neither our environment nor
what it is told in its command line.
Reads: nothing. Writes: nothing. Next: detectors/courier.py.
"""

import os
import subprocess
import sys
import time

import httpx
import msgspec

from detectors.guard import ForbiddenError
from detectors.receivers import Handed, Passed

COMMAND = [sys.executable, "-P", "-m", "detectors.courier"]
KEPT = ("PATH", "PYTHONPATH", "LANG", "LC_ALL", "TMPDIR", "SYSTEMROOT")  # no proxy, no password


class Order(msgspec.Struct, frozen=True):
    """What the courier is to do, and where it may go."""

    url: str
    title: str
    body: str
    tone: str
    allow_http: bool
    allow_private: bool
    seconds: float


class Report(msgspec.Struct, frozen=True):
    """What the courier did. `forbidden`: a connection that it was kept from."""

    taken: bool = False
    status: int = 0
    doubt: bool = False
    why: str = ""
    forbidden: str = ""


class Library(httpx.BaseTransport):
    """Takes requests that carry a `Handed`; the response carries a `Passed`."""

    def __init__(
        self, total: float, allow_http: bool, allow_private: bool, ca_file: str | None
    ) -> None:
        self._total, self._ca_file = total, ca_file
        self._allow_http, self._allow_private = allow_http, allow_private

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        handed: Handed = request.extensions["asked"]
        until = time.monotonic() + self._total
        seconds = min(until, request.extensions.get("deadline", until)) - time.monotonic()
        order = Order(
            handed.url.reveal, handed.title, handed.body, handed.tone,
            self._allow_http, self._allow_private, seconds,
        )  # fmt: skip
        report = self._send(order, seconds)
        if report.forbidden:
            raise ForbiddenError(report.forbidden)
        if report.doubt and not report.taken:
            raise httpx.ReadTimeout("ReadTimeout")
        answer = Passed(report.taken, report.status, report.why)
        return httpx.Response(200, extensions={"answer": answer}, request=request)

    def _send(self, order: Order, seconds: float) -> Report:
        try:
            done = subprocess.run(  # noqa: S603 - our own command line, no shell
                COMMAND,
                input=msgspec.json.encode(order),
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=max(seconds, 0.1),
                env=self._environment(),
                check=False,
            )
            return msgspec.json.decode(done.stdout, type=Report)
        except subprocess.TimeoutExpired:
            raise httpx.ReadTimeout("ReadTimeout") from None
        except msgspec.DecodeError:  # it died: nobody knows how far it had come
            raise httpx.ReadError("ReadError") from None

    def _environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in KEPT if name in os.environ}
        kept["NETRC"] = os.devnull  # requests would log in with what it finds there
        return kept | ({"REQUESTS_CA_BUNDLE": self._ca_file} if self._ca_file else {})
