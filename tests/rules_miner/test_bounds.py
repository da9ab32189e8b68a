"""The vectors are those of an independent statistics library, not our own output."""

import pytest

from rules_miner.bounds import clustered, critical, lower, spent, tail, upper


@pytest.mark.parametrize(
    ("total", "positive", "drawn", "hits", "expected"),
    [
        (133, 38, 13, 11, 1.578e-05),
        (1578, 195, 60, 59, 2.382e-56),
        (500, 50, 20, 14, 4.052e-11),
        (10, 3, 4, 0, 1.0),
    ],
)
def test_the_tail_is_fishers(
    total: int, positive: int, drawn: int, hits: int, expected: float
) -> None:
    assert tail(total, positive, drawn, hits) == pytest.approx(expected, rel=5e-4)


@pytest.mark.parametrize(
    ("hits", "drawn", "expected"),
    [(11, 13, 0.5899), (12, 15, 0.5602), (59, 60, 0.9234), (14, 14, 0.8074), (30, 60, 0.3874)],
)
def test_the_lower_bound_is_clopper_pearsons(hits: int, drawn: int, expected: float) -> None:
    assert lower(hits, drawn) == pytest.approx(expected, abs=5e-5)


@pytest.mark.parametrize(("drawn", "expected"), [(1383, 0.00217), (95, 0.0311), (500, 0.00598)])
def test_no_harm_seen_is_not_no_harm(drawn: int, expected: float) -> None:
    assert upper(0, drawn) == pytest.approx(expected, rel=4e-3)


def test_bounds_at_the_edges_are_the_edges() -> None:
    assert lower(0, 10) == 0
    assert upper(10, 10) == 1


@pytest.mark.parametrize(
    ("families", "outcomes", "bound", "effect"),
    [
        ([0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2], [1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 1], 0.4182, 2.0),
        ([0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2], [1] * 12, 0.5357, 2.5),
        (list(range(12)), [1] * 12, 0.7791, 1.0),
        ([0, 0, 0, 1, 1, 2, 2, 2, 3, 4, 5, 6, 6], [1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 0],
         0.5899, 1.0),
    ],
)  # fmt: skip
def test_runs_that_resemble_each_other_count_for_less(
    families: list[int], outcomes: list[int], bound: float, effect: float
) -> None:
    groups = [
        [bool(y) for family, y in zip(families, outcomes, strict=True) if family == each]
        for each in sorted(set(families))
    ]

    assert list(clustered(groups)) == pytest.approx([bound, effect], abs=5e-5)


def test_one_family_proves_nothing() -> None:
    assert clustered([[True] * 40])[0] == 0


def test_limits_shrink_with_the_tests_and_the_weeks() -> None:
    assert critical(0.05, [80, 1409, 10840]) == pytest.approx([2.08e-4, 1.18e-5, 1.54e-6], rel=5e-3)
    assert [round(spent(0.05, week), 5) for week in (1, 2, 4, 12, 52)] == [
        0.0304, 0.0076, 0.0019, 0.00021, 0.00001,
    ]  # fmt: skip
