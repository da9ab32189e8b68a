"""Half-open ranges of time, [since, until): the small algebra that judging rests on."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

Range = tuple[datetime, datetime]
INSTANT = timedelta(microseconds=1)  # the finest step of a TIMESTAMPTZ: makes an end inclusive


def union(ranges: Iterable[Range], gap: timedelta = timedelta(0)) -> list[Range]:
    """Sorted, disjoint; those that touch, or lie no further apart than `gap`, are one."""
    done: list[Range] = []
    for since, until in sorted(ranges):
        if since >= until:
            continue
        if done and since <= done[-1][1] + gap:
            done[-1] = (done[-1][0], max(done[-1][1], until))
        else:
            done.append((since, until))
    return done


def split(ranges: Iterable[Range], at: datetime) -> tuple[list[Range], list[Range]]:
    """What lies before `at`, and what lies from `at` on."""
    before = [(since, min(until, at)) for since, until in ranges if since < at]
    after = [(max(since, at), until) for since, until in ranges if until > at]
    return before, after


def minus(ranges: Iterable[Range], taken: Iterable[Range]) -> list[Range]:
    """The parts of `ranges` that no range of `taken` covers."""
    left = list(ranges)
    for low, high in taken:
        cut: list[Range] = []
        for since, until in left:
            cut += [(since, min(until, low)), (max(since, high), until)]
        left = [each for each in cut if each[0] < each[1]]
    return left


def slices(each: Range, width: timedelta) -> Iterator[Range]:
    """One range in steps of `width`, the last one shorter."""
    since, until = each
    while since < until:
        yield since, min(since + width, until)
        since += width
