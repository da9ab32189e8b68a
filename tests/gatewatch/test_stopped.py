"""From a line to an agent that stands still: a real service, a receiver and a gate that listen."""

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit_http import lines, running, until
from tests.kit_listening import Listening, listening

LINKS = """
[links]
url = "https://gw.example"
key = "FAKE-link-key-0001-0123456789abcdef"
"""
LINK = re.compile(rb"https://gw\.example(/links/[\w.-]+)")


@pytest.fixture
def there() -> Iterator[Listening]:
    with listening() as made:
        yield made


def test_the_link_in_a_message_pauses_the_agent(there: Listening, tmp_path: Path) -> None:
    with running(tmp_path, there.config + there.receiver + LINKS) as service:
        service.http.post("/v1/events", content=lines(1, 2, 3))
        until(lambda: there.heard)
        [_, pause] = [each.decode() for each in LINK.findall(there.heard[0])]
        preview = service.http.get(pause)
        before = list(there.till.seen)
        done = service.http.post(pause, data={"name": "mei"})
        until(lambda: there.till.paused)
        until(lambda: service.rows("SELECT 1 FROM pauses WHERE state = 'confirmed'"))
        [row] = service.rows("SELECT * FROM pauses")

    assert (preview.status_code, done.status_code, before) == (200, 202, [])
    assert "till (webhook at 127.0.0.1)" in preview.text
    assert (row["name"], row["actor"], row["answer"]) == (
        "a1", "mei (link from soc)", '{"paused":true}',
    )  # fmt: skip


def test_a_named_detector_pauses_within_seconds_and_people_are_told_where_it_fails(
    there: Listening, tmp_path: Path
) -> None:
    automatic = there.config + 'automatic = ["deny_retry"]\n' + there.receiver
    there.status = 403
    with running(tmp_path, automatic) as service:
        began = time.monotonic()
        service.http.post("/v1/events", content=lines(1, 2, 3))
        until(lambda: any(b"NOT PAUSED" in each for each in there.heard))
        took = time.monotonic() - began
        [row] = service.rows("SELECT * FROM pauses")

    assert (row["state"], row["automatic"], row["status"]) == ("refused", True, 403)
    assert took < 15
    told = [each for each in there.heard if b"NOT PAUSED" in each]
    assert len(told) == 1
    assert b"gate till refused the pause of agent a1" in told[0]


def test_after_a_restart_nobody_is_asked_twice_and_the_end_still_comes(
    there: Listening, tmp_path: Path
) -> None:
    with running(tmp_path, there.config) as service:
        service.http.post("/v1/events", content=lines(1))
        until(lambda: service.rows("SELECT 1 FROM events"))
        asked = {"actor": "mei", "target": "a1", "for": "1m"}
        answer = service.http.post("/v1/pauses", json=asked)
        assert answer.status_code == 200, answer.text
        until(lambda: service.rows("SELECT 1 FROM pauses WHERE state = 'confirmed'"))
    with running(tmp_path, there.config) as service:
        until(lambda: service.rows("SELECT 1 FROM pauses WHERE state = 'expired'"), 90)
        until(lambda: not there.till.paused)
        expired = service.rows("SELECT owed, ended_by FROM pauses")

    kinds = [each["type"] for each in there.till.seen]
    assert kinds == ["gatewatch.pause", "gatewatch.resume"]
    assert expired[0]["ended_by"] == "gatewatch"
