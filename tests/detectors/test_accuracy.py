"""A small fleet for four days with one trouble of each kind that needs no long history. The large
ones are measured by `python -m tests.bench --only accuracy`; see docs/performance.md."""

from pathlib import Path

from tests.bench import accuracy


def test_planted_troubles_are_found_and_nothing_else(tmp_path: Path) -> None:
    report = accuracy.run(tmp_path, seed=5, agents=75, days=4, small=True)

    whole = report.whole()
    assert whole.planted > 40
    assert report.missed == []
    assert report.false == []
