"""The cases of kind prometheus that the page itself is held against: B138, B140, B142, B147."""

import json
import re
import subprocess
import time
from io import StringIO
from pathlib import Path
from typing import Any

import httpx
from prometheus_client.openmetrics.parser import text_fd_to_metric_families as open_families
from prometheus_client.parser import text_fd_to_metric_families as plain_families

from detectors import metrics
from detectors.routing import Route
from tests.kit import CASES
from tests.kit_telling import HOOK, Build
from tests.world import World, at

OPEN = "application/openmetrics-text; version=1.0.0"


def fixture(case: str) -> dict[str, Any]:
    [path] = (CASES / "fixtures").glob(f"{case}-*.json")
    return dict(json.loads(path.read_text(encoding="utf-8")))


def generated(case: dict[str, Any]) -> list[bytes]:
    texts = [
        part["text"].replace("@i@", str(number))
        for part in case["parts"]
        for number in range(part.get("repeat", 1))
    ]
    return [line.encode() for line in "".join(texts).splitlines()]


def page(world: World, minute: float, routes: tuple[Route, ...] = ()) -> str:
    found = metrics.page(world.store, world.engine.detectors, routes, world.lander.head, at(minute))
    return found.decode()


def series(text: str) -> list[str]:
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def test_b138_names_that_agents_choose_are_no_labels(tmp_path: Path) -> None:
    case = fixture("B138")
    world = World(tmp_path)
    lines = generated(case)
    world.land(lines[:1], at(0))
    before = len(series(page(world, 1)))
    for first in range(1, len(lines), 20_000):
        world.land(lines[first : first + 20_000], at(0))

    began = time.monotonic()
    after = series(page(world, 1))

    assert time.monotonic() - began < case["expect"]["scrape_s_max"]
    assert len(lines) == 100_000
    assert len(after) == before <= case["expect"]["series_max"]
    assert not [line for line in after if "tool-" in line or "t-1" in line]
    world.close()


def test_b140_names_with_quotes_and_line_ends_come_through_both_formats(tmp_path: Path) -> None:
    [path] = (CASES / "fixtures").glob("B140-*.jsonl")
    lines = path.read_bytes().splitlines()
    names = [json.loads(line)["agent"] for line in lines]
    world = World(tmp_path, only=("deny_retry",))
    for name, line in zip(names, lines, strict=True):
        world.land([line], at(0), source=name)  # the worst place: sources are labels, agents not

    found = metrics.collected(world.store, world.engine.detectors, (), world.lander.head, at(1))
    plain, opened = (metrics.written(found, accept)[0].decode() for accept in ("", OPEN))

    read = open_families(StringIO(opened))  # type: ignore[no-untyped-call]
    for families in (plain_families(StringIO(plain)), read):
        told = {
            sample.labels["source"]
            for family in families for sample in family.samples
            if sample.name == "gatewatch_ingest_events_total"
        }  # fmt: skip
        assert told == set(names)
    checked = subprocess.run(["promtool", "check", "metrics"], input=plain.encode(), check=False)
    assert checked.returncode == 0
    world.close()


def test_b142_history_that_is_imported_moves_no_live_counter_and_tells_nobody(
    tmp_path: Path,
) -> None:
    case = fixture("B142")
    world = World(tmp_path, only=("deny_retry", "call_loop"))
    now = at(10 / 60)
    lines = generated(case)
    world.land(lines, now)
    world.tick(now)

    text = page(world, 1)
    told = world.rows("SELECT * FROM alerts WHERE told_at IS NOT NULL")

    assert _value(text, "gatewatch_ingest_events_total") == case["expect"]["live_counter"]
    assert _value(text, "gatewatch_ingest_backfill_events_total") == 10_000
    assert world.rows("SELECT * FROM alerts")  # history is judged, shown, and counted for nobody
    assert len(told) == case["expect"]["pages"]
    assert not re.findall(r"^gatewatch_alerts_fired_total\{.*\} [1-9]", text, re.MULTILINE)
    world.close()


def _value(text: str, name: str) -> float:
    [found] = re.findall(rf"^{name}\{{[^}}]*\}} (\S+)$", text, re.MULTILINE)
    return float(found)


def test_b147_failures_say_which_receiver(build: Build) -> None:
    case = fixture("B147")
    hooks = {name: HOOK | {"webhook": f"https://{name}.example/x"} for name in case["channels"]}
    house = build(**hooks)
    house.answer = lambda request: httpx.Response(
        500 if request.url.host.removesuffix(".example") in case["failing"] else 204
    )
    house.owe(house.alert())
    for name in case["channels"]:
        house.workers[name].step(house.now)

    text = metrics.page(house.store, {}, house.routes, (0, ""), house.now).decode()

    failed = dict.fromkeys(case["channels"], 0.0)
    found = re.findall(r'failed_total\{reason="(\w+)",receiver="([^"]+)"\} (\S+)', text)
    for _, receiver, count in found:
        failed[receiver] += float(count)
    assert failed == case["expect"]["failed_by_channel"]
    assert 'reason="serverError",receiver="hook-b"} 1.0' in text
    assert 'gatewatch_notifications_total{receiver="hook-a"} 1.0' in text
