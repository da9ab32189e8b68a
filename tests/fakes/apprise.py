"""A service behind the library Apprise, as far as the library lets it be seen: title and body.

What the library itself does with a message is tried in tests/detectors/test_handing.py, against a
server that behaves as https://docs.ntfy.sh/publish/ says.
"""

import re
from typing import Any

from detectors.receivers import Handed, Passed
from tests import fakes

LONGEST, TITLE = 4_096, 250  # bytes of a body that ntfy shows; characters of Pushover's title
TONES = ("failure", "warning", "info", "success")
MENTION = re.compile(r"<[!@a/]|@(?=[\w\[+/])")
LINK = re.compile(r"https?://[^\s<>\"]+")


class Fake(fakes.Fake):
    """The topic that the EXAMPLE names."""

    limits = ((20, 60.0),)

    def take(self, request: Handed) -> fakes.Seen:
        if request.url.reveal != self.options.url.reveal:
            raise fakes.NoError("another service", Passed(False, 404))
        if self.crowded():
            raise fakes.NoError("too many", Passed(False, 429))
        if request.tone not in TONES or "\n" in request.title or len(request.title) > TITLE:
            raise fakes.NoError("title or kind", Passed(False, 400))
        if len(request.body.encode()) > LONGEST:  # it would become a file there
            raise fakes.NoError("too long", Passed(False, 413))
        text = f"{request.title}\n{request.body}"
        pinged = tuple(MENTION.findall(text))
        return fakes.Seen(self.now, text, pinged, links=tuple(LINK.findall(text)))

    def yes(self, seen: fakes.Seen) -> Any:
        return Passed(True, 0)
