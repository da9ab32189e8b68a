"""What one-shot commands leave on a Pushgateway, held against one that refuses as the real one.

A real one is asked in tests/real/test_pushgateway.py.
"""

import base64
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_fd_to_metric_families

from detectors.receivers import Delivered
from gatewatch import pushing
from gatewatch.parts import settings_of
from gatewatch.pushing import Pushgateway, text
from ingest.config import ConfigError, Settings
from tests.kit import CASES
from tests.kit_command import run
from tests.kit_sockets import answering
from tests.world import denied

Group = tuple[tuple[str, str], ...]


class Fake:
    """Keeps groups as https://github.com/prometheus/pushgateway#api says, and who asked."""

    def __init__(self) -> None:
        self.groups: dict[Group, dict[str, float]] = {}
        self.asked: list[tuple[str, str, str | None]] = []
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_PUT(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                self._answer(fake.put(self.path, body.decode()))

            def do_DELETE(self) -> None:
                fake.groups.pop(fake.group(self.path), None)
                self._answer(202)

            def _answer(self, status: int) -> None:
                fake.asked.append((self.command, self.path, self.headers.get("authorization")))
                self.send_response(status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *args: object) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def put(self, path: str, body: str) -> int:
        if not body.endswith("\n") or "\r" in body:
            return 400
        samples = [each for family in text_fd_to_metric_families(StringIO(body))
                   for each in family.samples]  # fmt: skip
        if any(each.timestamp is not None for each in samples):
            return 400
        self.groups[self.group(path)] = {
            each.name + str(each.labels.get("what", "")): each.value for each in samples
        }
        return 200

    @staticmethod
    def group(path: str) -> Group:
        """The grouping key that a path spells."""
        top, *steps = path.removeprefix("/").split("/")
        assert top == "metrics", path
        found = []
        for name, value in zip(steps[::2], steps[1::2], strict=True):
            if name.endswith("@base64"):
                name = name.removesuffix("@base64")
                padded = value.rstrip("=") + "=" * (-len(value.rstrip("=")) % 4)
                value = base64.urlsafe_b64decode(padded).decode()
            found.append((name, value))
        assert found[0][0] == "job", path
        return tuple(found)


@pytest.fixture
def fake() -> Iterator[Fake]:
    made = Fake()
    with answering(made.server):
        yield made


def configured(folder: Path, url: str, more: str = "") -> None:
    (folder / "gatewatch.toml").write_text(
        f'data = "."\n[pushgateway]\nurl = "{url}"\nallow_http = true\nallow_private = true\n{more}'
    )


def landed(folder: Path, *lines: bytes) -> None:
    (folder / "gate.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
    done = run("ingest", "gate.jsonl", "--adapter", "native", "--json", folder=folder)
    assert done.returncode == 0, done.stderr


def fixture(case: str) -> dict[str, Any]:
    [path] = (CASES / "fixtures").glob(f"{case}-*.json")
    return dict(json.loads(path.read_text(encoding="utf-8")))


def test_b143_a_gauge_of_a_run_that_was_killed_is_replaced_by_the_next(
    fake: Fake, tmp_path: Path
) -> None:
    configured(tmp_path, fake.url)
    landed(tmp_path, *(denied(minute, event_id=str(minute)) for minute in range(3)))
    job = (("job", "gatewatch_detect"),)

    first = run("detect", "--dry-run", "--only", "deny_retry", "--json", folder=tmp_path)
    assert fake.groups[job]["gatewatch_command_resultalerts"] == 1
    gateway = pushing.read(settings_of(tmp_path / "gatewatch.toml"))
    assert gateway is not None
    pushing.put(gateway, "gatewatch_detect", text({"running": 1.0}, {}))  # as far as it came
    at_start = dict(fake.groups[job])
    again = run("detect", "--dry-run", "--only", "deny_retry", "--set", "denials=4", "--json",
                folder=tmp_path)  # fmt: skip

    assert (first.returncode, again.returncode) == (0, 0)
    assert at_start == {"gatewatch_command_running": 1}
    after = fake.groups[job]
    assert after["gatewatch_command_resultalerts"] == fixture("B143")["expect"]["gauge_after"]
    assert after["gatewatch_command_success"] == 1
    assert after["gatewatch_command_running"] == 0


@pytest.mark.parametrize("value", fixture("B145")["grouping"])
def test_b145_whatever_a_grouping_value_holds_the_request_stays_under_its_job(
    fake: Fake, value: str
) -> None:
    gateway = Pushgateway(url=fake.url, instance=value, allow_http=True, allow_private=True)

    assert pushing.put(gateway, "gatewatch_verify", text({"running": 1.0}, {})) == Delivered()
    assert list(fake.groups) == [(("job", "gatewatch_verify"), ("instance", value))]
    assert pushing.delete(gateway, "gatewatch_verify") == Delivered()

    assert fake.groups == {}
    assert all(path.startswith("/metrics/job/gatewatch_verify/") for _, path, _ in fake.asked)


def test_a_command_tells_how_it_ended(fake: Fake, tmp_path: Path) -> None:
    configured(tmp_path, fake.url, 'instance = "crm"\ntoken = "push-token"')
    landed(tmp_path, denied(0))

    good = run("verify", folder=tmp_path)
    [segment] = list((tmp_path / "gatewatch.ledger").rglob("*.ndjson"))
    group = (("job", "gatewatch_verify"), ("instance", "crm"))
    found = dict(fake.groups[group])
    segment.write_bytes(segment.read_bytes().replace(b"a1", b"a2", 1))
    bad = run("verify", folder=tmp_path)

    assert (good.returncode, bad.returncode) == (0, 1)
    assert found["gatewatch_command_success"] == 1
    assert found["gatewatch_command_resultlines"] == 1
    assert found["gatewatch_command_last_run_timestamp_seconds"] > 1.7e9
    assert fake.groups[group]["gatewatch_command_success"] == 0
    assert fake.groups[group]["gatewatch_command_resultproblems"] == 1
    assert {secret for _, _, secret in fake.asked} == {"Bearer push-token"}


def test_a_pushgateway_that_is_away_changes_no_exit_code_and_is_named_on_stderr(
    tmp_path: Path,
) -> None:
    configured(tmp_path, "http://127.0.0.1:1")
    landed(tmp_path, denied(0))

    done = run("verify", "--json", folder=tmp_path)

    assert done.returncode == 0
    assert json.loads(done.stdout)["ok"]
    assert done.stderr.count("pushgateway: the Pushgateway was not told: ConnectError") == 2


def test_unpush_takes_a_group_away(fake: Fake, tmp_path: Path) -> None:
    configured(tmp_path, fake.url)
    landed(tmp_path, denied(0))
    run("verify", folder=tmp_path)
    assert len(fake.groups) == 1

    done = run("unpush", "verify", folder=tmp_path)
    wrong = run("unpush", "verfy", folder=tmp_path)

    assert (done.returncode, wrong.returncode) == (0, 2)
    assert fake.groups == {}
    assert "Did you mean 'verify'?" in wrong.stderr


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"url": "http://push.example"}, "address 1 must begin with https://"),
        ({"url": "https://127.0.0.1"}, "inside this network"),
        ({"url": "https://push.example", "user": "u"}, "`user` and `password` go together"),
        ({"url": "https://push.example", "instanze": "x"}, "Did you mean 'instance'?"),
        ({"url": "https://push.example", "user": "u", "password": "p", "token": "t"}, "not both"),
    ],
)
def test_a_wrong_table_is_named(table: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says.replace("?", r"\?")) as error:
        pushing.read(Settings(pushgateway=table))

    assert str(error.value).startswith("gatewatch.toml: pushgateway")
