"""Whatever somebody configures, the page stays small, and its sums stay right."""

from prometheus_client.core import Metric

from detectors.metrics.budget import CAP, NAMES, OTHER, SERIES, Family, Waits, fit


def counter(name: str, label: str, count: int) -> Family:
    rows = {(f"{label}-{number:04}",): 1.0 for number in range(count)}
    return Family(name, "counter", "Things.", (label,), rows)


def test_names_over_the_cap_are_summed_into_other_and_counted() -> None:
    fitting, lost = fit([counter("gatewatch_things", "source", CAP + 7)])

    assert len(fitting[0].rows) == CAP + 1
    assert fitting[0].rows[OTHER,] == 7.0
    assert ("source-0000",) in fitting[0].rows
    assert lost == {"source": 7, "detector": 0, "receiver": 0, "gateway": 0}


def test_a_thousand_of_everything_fit_on_the_page() -> None:
    waits = Waits((1.0, 2.0), 3.0, 4.0)
    many = [
        counter(f"gatewatch_{what}_{label}", label, 1_000)
        for label in NAMES for what in ("a", "b", "c")
    ]  # fmt: skip
    slow = Family(
        "gatewatch_ingest_lag_seconds", "histogram", "Lag.", ("source",),
        {(f"source-{number:04}",): waits for number in range(1_000)}, les=(1.0, 5.0),
    )  # fmt: skip

    fitting, lost = fit([*many, slow])

    assert sum(each.series for each in fitting) <= SERIES
    assert {
        sum(v for v in each.rows.values() if isinstance(v, float)) for each in fitting[:-1]
    } == {1_000.0}
    assert fitting[-1].rows[OTHER,] == Waits((1_000.0, 2_000.0), 3_000.0, 4_000.0)
    assert all(lost[label] > 900 for label in NAMES)


def test_a_family_that_is_missed_least_loses_its_names_first() -> None:
    runs = counter("gatewatch_detector_runs", "detector", 90)
    judged = counter("gatewatch_windows_evaluated", "detector", 90)
    others = [counter(f"gatewatch_{n}", "receiver", 90) for n in "abcd"]

    fitting, lost = fit([runs, judged, *others])

    assert len(fitting[0].rows) == 90
    assert fitting[1].rows == {(OTHER,): 90.0}
    assert set(lost.values()) == {0}


def test_what_has_never_happened_goes_before_anything_that_has() -> None:
    rows = {(f"detector-{number}", word): 0.0 for number in range(90) for word in "abcdef"}
    rows["detector-7", "c"] = 2.0
    fired = Family(
        "gatewatch_alerts_fired", "counter", "Fired.", ("detector", "severity"), rows,
        rare={key for key in rows if key[1] != "a"},
    )  # fmt: skip

    [fitting], _ = fit([fired])

    assert fitting.rows["detector-7", "c"] == 2.0
    assert len(fitting.rows) == 91


def test_a_time_that_is_shown_for_several_is_the_one_that_an_alert_waits_for() -> None:
    rows = {(f"source-{number:04}",): float(1_000 + number) for number in range(150)}
    last = Family("gatewatch_x_timestamp_seconds", "gauge", "Last.", ("source",), rows, fold=min)

    [fitting], _ = fit([last])

    assert fitting.rows[OTHER,] == 1_100.0


def test_a_histogram_is_written_with_every_bucket_and_nothing_else() -> None:
    family = Family(
        "gatewatch_x_seconds", "histogram", "X.", (), {(): Waits((1.0, 2.0), 3.0, 9.5)},
        les=(1.0, 5.0),
    )  # fmt: skip

    made: Metric = family.metric()

    assert [(each.name[19:], each.labels, each.value) for each in made.samples] == [
        ("_bucket", {"le": "1.0"}, 1.0),
        ("_bucket", {"le": "5.0"}, 2.0),
        ("_bucket", {"le": "+Inf"}, 3.0),
        ("_count", {}, 3.0),
        ("_sum", {}, 9.5),
    ]
    assert len(made.samples) == family.series
