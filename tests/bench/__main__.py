"""How fast gatewatch is on this machine: `make bench`, or `python -m tests.bench --only landing`.

Ratios are taken within one run. The table goes to stdout, progress to stderr.
"""

import argparse
import os
import platform
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.bench import (
    accuracy,
    adapters,
    backtest,
    intake,
    landing,
    latency,
    memory,
    standing,
    tick,
)
from tests.bench.measure import Figure

ALL = ("landing", "adapters", "memory", "intake", "latency", "tick", "open", "backtest", "accuracy")


def main() -> None:
    chosen = _options()
    only = chosen.only.split(",")
    err = Console(stderr=True)
    figures: list[Figure] = []
    for name in ALL:
        if name not in only:
            continue
        err.print(f"{name} ...")
        with tempfile.TemporaryDirectory(prefix=f"bench-{name}-", dir=chosen.dir) as folder:
            match name:
                case "landing":
                    figures += landing.measure(Path(folder), chosen.lines)
                case "adapters":
                    figures += adapters.measure(chosen.each)
                case "memory":
                    figures += memory.measure(Path(folder), chosen.gigabytes)
                case "intake":
                    figures += intake.measure(Path(folder), chosen.pushed, chosen.minute)
                case "latency":
                    for rate in chosen.rates.split(","):
                        place = Path(folder, rate)
                        figures += latency.measure(place, int(rate), chosen.seconds)
                case "tick":
                    figures += tick.measure(Path(folder), chosen.stored, chosen.times)
                case "open":
                    figures += standing.measure(Path(folder), chosen.alerts, chosen.attempts)
                case "backtest":
                    figures += backtest.measure(Path(folder), chosen.events)
                case _:
                    seeds = [int(each) for each in chosen.seeds.split(",")]
                    only = chosen.detectors.split(",") if chosen.detectors else ()
                    figures += accuracy.measure(
                        Path(folder), seeds, chosen.agents, chosen.days, only, chosen.accept
                    )
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("what", "measured", "how"):
        shown.add_column(column, overflow="fold")
    for each in figures:
        shown.add_row(each.what, each.value, each.how)
    out = Console(width=140)
    out.print(shown)
    load = os.getloadavg()[0]
    out.print(f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()},"
              f" load {load:.1f} at the end")  # fmt: skip


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--only", default=",".join(ALL), help="some of: " + ",".join(ALL))
    parser.add_argument("--lines", type=int, default=200_000, help="lines to land")
    parser.add_argument("--each", type=int, default=20_000, help="lines of each adapter")
    parser.add_argument(
        "--gigabytes", type=float, default=2, help="of a file whose landing is watched"
    )
    parser.add_argument("--pushed", type=int, default=10_000, help="lines a second over HTTP")
    parser.add_argument("--minute", type=float, default=60, help="how long those are sent, seconds")
    parser.add_argument("--rates", default="1000,5000", help="lines a second beside the probes")
    parser.add_argument("--seconds", type=float, default=20, help="how long they are sent")
    parser.add_argument("--stored", type=int, default=1_000_000, help="events under the tick")
    parser.add_argument("--times", type=int, default=10, help="and so many times as many")
    parser.add_argument("--alerts", type=int, default=10_000, help="that are open")
    parser.add_argument("--attempts", type=int, default=1_000_000, help="to tell of them")
    parser.add_argument("--events", type=int, default=10_000_000, help="of the backtest")
    parser.add_argument(
        "--seeds", default="101,102,103", help="of the fleets; below 100 to look at"
    )
    parser.add_argument("--agents", type=int, default=200, help="of those fleets")
    parser.add_argument("--days", type=int, default=30, help="that they are watched")
    parser.add_argument("--detectors", default="", help="only these are held against them")
    parser.add_argument("--accept", action="store_true", help="write docs/detectors.json")
    parser.add_argument("--dir", default=None, help="the disk to work on; default: the system's")
    return parser.parse_args()


if __name__ == "__main__":
    main()
