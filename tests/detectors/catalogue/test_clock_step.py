import pytest

from detectors import detector
from tests.kit import agreed, at, judge, loaded, store

EVENTS = False  # it looks at what the service notes of itself


@pytest.mark.parametrize(
    ("seconds", "way", "shown"),
    [(-3600.4, "back", "60.0 minutes"), (90, "forward", "1.5 minutes"),
     (-7200, "back", "2.0 hours"), (86400, "forward", "24.0 hours")],
)  # fmt: skip
def test_a_step_either_way_fires_once(seconds: float, way: str, shown: str) -> None:
    stores = store(), store()
    for db in stores:
        db.execute("INSERT INTO clock_steps VALUES (?, ?)", [at("2026-03-10T09:05:00"), seconds])
    each = loaded("clock_step", stores[0])

    [row] = agreed(each, *stores, at("2026-03-10T09:00:00"), at("2026-03-10T10:00:00"))

    assert row["seconds"] == round(seconds)
    english, chinese = detector.word(each, row)
    assert english == f"The clock of the machine that runs gatewatch was set {way} by {shown}"
    assert "主机时钟" in chinese


def test_a_clock_that_nobody_set_is_quiet() -> None:
    assert judge("clock_step", []) == []
