"""What the group robots of DingTalk, Feishu and WeCom share: an answer of HTTP 200 whose code says
yes or no, and a signature that fails where our clock is wrong.

Reads: nothing. Writes: nothing. Next: detectors/receivers/__init__.py.
"""

from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timedelta

import httpx

from detectors.receivers import (
    Delivered,
    Flow,
    Outcome,
    Refused,
    Retry,
    body,
    http_date,
    judge,
    quoted,
)
from detectors.shorten import plain

SKEW = timedelta(minutes=5)  # a clock so far off, or less, is not why a signature was refused


def by_its_clock(
    outcome: Outcome, response: httpx.Response, now: datetime,
    request: Callable[[datetime], httpx.Request],
    read: Callable[[httpx.Response, datetime], Outcome],
) -> Flow:  # fmt: skip
    """Once more, signed at the service's own time, if that is far from ours; what came of it says
    by how much. Where the clocks agree, or the service names no time, `outcome` stands."""
    theirs = http_date(response.headers.get("date", "")) or now
    if abs(theirs - now) <= SKEW:
        return outcome
    hint = f"clock_skew: own clock is {(now - theirs).total_seconds():+.0f} s off"
    response = yield request(theirs)
    outcome = read(response, theirs)
    if isinstance(outcome, Delivered):
        return Delivered(hint)
    if isinstance(outcome, Refused):
        return Refused(f"{outcome.reason}; {hint}", outcome.label, "clock_skew")
    return outcome


def code_in(answer: Mapping[str, object], *names: str) -> str | None:
    """The first of these keys that is there, as text; None where it is no code."""
    code = next((answer[name] for name in names if name in answer), None)
    if not isinstance(code, int | str) or isinstance(code, bool):
        return None
    return plain(str(code))[:20]


def by_errcode(
    response: httpx.Response, now: datetime, busy: Mapping[str, float | None],
    too_long: Collection[str], no_access: Mapping[str, str],
) -> Outcome:  # fmt: skip
    """What DingTalk and WeCom answered. `busy`: seconds to wait, by code; `no_access`: what the
    operator must look at, by code."""
    if outcome := judge(response, now):
        return outcome
    answer = body(response)
    code = code_in(answer, "errcode")
    if code is None:  # a proxy's page, or nothing
        return Retry(f"answered {quoted(response)}", "other")
    if code == "0":
        return Delivered()
    reason = f"errcode {code}: {plain(str(answer.get('errmsg', 'no errmsg')))[:200]}"
    if code in busy:
        return Retry(reason, "serverError" if code == "-1" else "rateLimited", busy[code])
    if code in too_long:
        return Refused(reason, "clientError", "too_long")
    if code in no_access:
        return Refused(reason, "authError", no_access[code])
    return Refused(reason, "clientError")
