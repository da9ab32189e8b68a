"""A real browser for tests: headless Chromium, driven over its own debugging protocol."""

import base64
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import ClientConnection, connect

FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-port=0",
)  # fmt: skip
PATIENCE = 60.0  # seconds until a page that does not come is a failure; a slow machine needs them


class Tab:
    """One page of the browser."""

    def __init__(self, wire: ClientConnection) -> None:
        self._wire, self._last = wire, 0

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        self._last += 1
        self._wire.send(json.dumps({"id": self._last, "method": method, "params": params}))
        while True:
            answer: dict[str, Any] = json.loads(self._wire.recv(PATIENCE))
            if answer.get("id") == self._last:
                assert "error" not in answer, answer
                return dict(answer["result"])

    def run(self, script: str) -> Any:
        """What a JavaScript expression gives."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        return answer["result"].get("value")

    def open(self, url: str, *words: str) -> str:
        """Go there and wait until all words are on the page. The page's text."""
        self.call("Page.navigate", url=url)
        return self.wait(*words)

    def wait(self, *words: str, gone: str = "") -> str:
        """Wait until all words are there, and one is gone. The page's text, hidden one included."""
        until = time.monotonic() + PATIENCE
        text = ""
        while time.monotonic() < until:
            text = self.run("document.body ? document.body.textContent : ''") or ""
            busy = self.run("!!document.querySelector('[data-testid=stStatusWidget]')")
            if not busy and all(word in text for word in words) and not (gone and gone in text):
                return text
            time.sleep(0.1)  # a browser says nothing when text has come
        missing = [word for word in words if word not in text]
        pytest.fail(f"not on the page: {missing}; still there: {gone!r}; the page says: {text!r}")

    def click(self, label: str) -> None:
        """Press the button that carries this label, once it is there."""
        button = (
            f"[...document.querySelectorAll('button')].find(b => b.innerText.trim() === {label!r})"
        )
        until = time.monotonic() + PATIENCE
        while not self.run(f"{button} ? ({button}.click(), true) : false"):
            assert time.monotonic() < until, f"no button {label}"
            time.sleep(0.1)  # a browser says nothing when a button has come

    def press(self, x: float, y: float) -> None:
        """Press the mouse at a place of the page."""
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def type(self, label: str, words: str) -> None:
        """Fill in the box that carries this label, once it is there and can be written in."""
        box = f"document.querySelector('[aria-label={json.dumps(label)}]')"
        until = time.monotonic() + PATIENCE
        while not self.run(f"!!{box} && ({box}.focus(), document.activeElement === {box})"):
            assert time.monotonic() < until, f"no box {label}"
            time.sleep(0.1)  # a browser says nothing when a box has come
        self.call("Input.insertText", text=words)

    def picture(self, path: Path) -> None:
        """Save what the whole page looks like."""
        shot = self.call("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(shot["data"]))


@contextmanager
def browser(folder: Path, width: int = 1400, height: int = 1600) -> Iterator[Tab]:
    """A browser whose profile lives in `folder`, with one tab."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    assert program, "this test needs a browser: apt-get install chromium"
    size = f"--window-size={width},{height}"
    command = [program, *FLAGS, size, f"--user-data-dir={folder}", "about:blank"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            with connect(_address(folder), max_size=None) as wire:
                tab = Tab(wire)
                tab.call("Page.enable")
                yield tab
        finally:
            process.terminate()


def _address(folder: Path) -> str:
    """Where the one tab listens: Chromium writes its port into its profile."""
    import httpx

    note = folder / "DevToolsActivePort"
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        if note.exists() and len(lines := note.read_text().splitlines()) == 2:
            tabs = httpx.get(f"http://127.0.0.1:{lines[0]}/json", trust_env=False).json()
            pages = [each for each in tabs if each["type"] == "page"]
            if pages:
                return str(pages[0]["webSocketDebuggerUrl"])
        time.sleep(0.1)  # Chromium says nothing when it is ready
    pytest.fail("Chromium did not start")
