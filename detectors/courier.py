"""The process in which Apprise sends one message: an Order on stdin, a Report on stdout.

Python reports each connection before it is made (PEP 578), so that every address the library would
go to is judged at that moment: what a name resolved to before, or a redirect names, opens no way
inside. Programs are not started at all.
Reads: nothing. Writes: nothing. Next: detectors/addresses.py.
"""

import ipaddress
import logging
import os
import sys
from typing import Any

import msgspec

from detectors.addresses import refused
from detectors.handing import Order, Report

GOING = ("socket.connect", "socket.sendto", "socket.sendmsg")
STARTING = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "pty.spawn")


class Ear:
    """Hears what services answer, below the library: it tells yes or no, and logs the rest."""

    def __init__(self) -> None:
        self.status = 0
        self.doubt = False  # a request was sent, and nothing came back

    def listen(self) -> None:
        """From now on, in this whole process."""
        import requests
        import urllib3

        send = requests.adapters.HTTPAdapter.send

        def heard(adapter: Any, request: Any, **more: Any) -> Any:
            try:
                response = send(adapter, request, **more)
            except requests.RequestException as error:
                broken = error.args and isinstance(error.args[0], urllib3.exceptions.ProtocolError)
                self.doubt = bool(broken) or isinstance(error, requests.ReadTimeout)
                raise
            self.status, self.doubt = response.status_code, False
            return response

        requests.adapters.HTTPAdapter.send = heard  # type: ignore[assignment,method-assign]


class Watch:
    """Keeps this process from going where none may go; remembers where it wanted to."""

    def __init__(self, allow_private: bool) -> None:
        self._allow_private = allow_private
        self.forbidden = ""

    def __call__(self, event: str, args: tuple[Any, ...]) -> None:
        if event in STARTING:
            self._stop("the library wanted to start a program")
        if event in GOING and (address := args[1]) is not None:
            host = address[0] if isinstance(address, tuple) else None
            self._judge(host)

    def _judge(self, host: object) -> None:
        try:
            found = ipaddress.ip_address(str(host).partition("%")[0])
        except ValueError:  # a socket file, or a name that would be looked up out of sight
            self._stop("the library wanted to connect without an address")
            return
        if why := refused(found, self._allow_private):
            self._stop(f"the address {why}")

    def _stop(self, why: str) -> None:
        self.forbidden = self.forbidden or why
        raise PermissionError(why)


def send(order: Order) -> Report:
    """Send one message. Raises nothing that a message or a service can cause."""
    try:
        import apprise
    except ImportError:
        return Report(why="the library is not installed: pip install 'gatewatch[apprise]'")
    ear, watch = Ear(), Watch(order.allow_private)
    ear.listen()
    sys.addaudithook(watch)
    logging.disable()  # it logs URLs
    service = apprise.Apprise.instantiate(order.url)
    if service is None:
        return Report(why="the library knows no such URL, or something in it is missing")
    service.verify_certificate, service.redirects = True, False  # whatever the URL says
    if "overflow" not in order.url:  # a service that takes less is sent it in parts, all of it
        service.overflow_mode = apprise.OverflowMode.SPLIT
    scheme = order.url.partition("://")[0].lower()
    if not order.allow_http and scheme in _words(service.protocol):
        return Report(forbidden=f"the address says {scheme}, which is sent without TLS")
    watch.forbidden = ""  # what it wanted while it loaded its plug-ins is of no interest
    taken = bool(
        service.notify(
            body=order.body, title=order.title, notify_type=order.tone, body_format="text"
        )
    )
    return Report(taken, ear.status, ear.doubt, "", "" if taken else watch.forbidden)


def _words(protocol: object) -> tuple[object, ...]:
    """A plug-in names its schemes as one text, or as several, or not at all."""
    return tuple(protocol) if isinstance(protocol, tuple | list | set) else (protocol,)


def main() -> None:
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=Order)
    with os.fdopen(os.dup(1), "wb") as out:
        sys.stdout = sys.stderr  # whatever the library prints is no part of the report
        os.dup2(2, 1)
        out.write(msgspec.json.encode(send(order)))


if __name__ == "__main__":
    main()
