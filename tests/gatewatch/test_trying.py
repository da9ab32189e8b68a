"""What a viewer can ask of a running service about detectors, and what it can't do to it."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from gatewatch import trying
from tests.kit_http import Asked, lines

TOKENS = """
[[tokens]]
name = "view"
role = "viewer"
token = "a-token-for-viewers-0123456789"
[[tokens]]
name = "push"
role = "writer"
token = "a-token-for-writers-0123456789"
source = "gate"
"""
WHY = {"detector": "deny_retry", "subject": "a1", "ts": "2026-03-10T09:00:00Z"}
FOREVER = "SELECT sum(a.range * b.range) FROM range(10000000) a, range(10000000) b"


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    made = Asked(tmp_path_factory.mktemp("asked"), TOKENS)
    body, token = lines(1, 2), "a-token-for-writers-0123456789"
    made.http.post("/v1/events", content=body, headers={"Authorization": f"Bearer {token}"})
    yield made
    made.parts.close()


def ask(asked: Asked, path: str, question: dict[str, Any], who: str = "viewers") -> tuple[int, str]:
    headers = {"Authorization": f"Bearer a-token-for-{who}-0123456789"}
    answer = asked.http.post(path, json=question, headers=headers)
    return answer.status_code, answer.text


@pytest.mark.parametrize("path", trying.ROUTES)
def test_only_viewers_may_ask(asked: Asked, path: str) -> None:
    assert ask(asked, path, WHY, "writers")[0] == 403
    assert ask(asked, path, WHY, "nobody")[0] == 401


@pytest.mark.parametrize(
    ("path", "question"),
    [
        ("/v1/why-not", WHY | {"around_seconds": 1e300}),
        ("/v1/why-not", WHY | {"around_seconds": -5}),
        ("/v1/why-not", WHY | {"ts": "0001-01-01T00:00:00Z"}),
        ("/v1/why-not", WHY | {"ts": "9999-12-31T23:59:59Z"}),
        ("/v1/why-not", WHY | {"detector": "../../etc/passwd"}),
        ("/v1/backtest", {"sets": ["denials=1e99"]}),
        ("/v1/tune", {"detector": "deny_retry", "param": "within", "values": ["'; DROP TABLE x"]}),
        ("/v1/tune", {"detector": "deny_retry", "param": "denials", "values": ["9" * 400]}),
    ],
)
def test_what_cannot_be_answered_is_refused_in_a_sentence(
    asked: Asked, path: str, question: dict[str, Any]
) -> None:
    status, text = ask(asked, path, question)

    assert status == 400, text
    assert "Traceback" not in text


def test_the_end_of_time_is_no_later_than_that_of_the_last_window(asked: Asked) -> None:
    question = {"until": "9999-12-31T23:59:59Z", "only": ["deny_retry"]}
    assert ask(asked, "/v1/backtest", question)[0] == 200


def test_a_question_without_a_zone_is_one_in_utc(asked: Asked) -> None:
    assert ask(asked, "/v1/why-not", WHY | {"ts": "2026-03-10T09:00:00"})[0] == 200


def test_a_question_that_takes_too_long_is_ended_and_gives_its_place_back(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    def long(parts: Any, db: Any, question: Any) -> dict[str, Any]:
        return {"n": db.execute(FOREVER).fetchall()}

    monkeypatch.setattr(trying, "SECONDS", 0.1)
    monkeypatch.setitem(trying.ROUTES, "/v1/tune", (trying.Tune, long))
    for _ in range(trying.AT_ONCE + 1):
        status, text = ask(asked, "/v1/tune", {"detector": "deny_retry"})
        assert (status, "not answered within" in text) == (400, True)


def test_more_questions_than_there_is_room_for_take_nobody_else_s_place(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, release = threading.Semaphore(0), threading.Event()

    def wait(parts: Any, db: Any, question: Any) -> dict[str, Any]:
        began.release()
        release.wait(60)
        return {}

    monkeypatch.setitem(trying.ROUTES, "/v1/tune", (trying.Tune, wait))
    question = {"detector": "deny_retry"}
    with ThreadPoolExecutor(trying.AT_ONCE) as pool:
        first = [
            pool.submit(ask, asked, "/v1/tune", question) for _ in range(trying.AT_ONCE)
        ]  # fmt: skip
        try:
            assert all(began.acquire(timeout=20) for _ in first)
            assert ask(asked, "/v1/tune", question)[0] == 503
            assert asked.http.get("/healthz").status_code == 200
        finally:
            release.set()
        assert [each.result()[0] for each in first] == [200] * trying.AT_ONCE


def test_a_dry_run_of_a_viewer_leaves_nothing(asked: Asked) -> None:
    count = "SELECT count(*) AS n FROM {}"
    tables = ("policies", "alerts", "stretches", "judged", "judgements", "operator_log")
    before = [asked.parts.rows(count.format(name)) for name in tables]

    assert ask(asked, "/v1/backtest", {})[0] == 200
    assert ask(asked, "/v1/what-if", {"policy": {}})[0] == 200

    assert [asked.parts.rows(count.format(name)) for name in tables] == before
