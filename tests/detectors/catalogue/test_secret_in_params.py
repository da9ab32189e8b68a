import random
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.kit import (
    CASES,
    Event,
    agreed,
    allowed,
    at,
    denied,
    events,
    executed,
    judge,
    landed,
    loaded,
)

NAME = "secret_in_params"
ONE, TWO = "[redacted:0123456789ab]", "[redacted:ba9876543210]"


def call(clock: str, secret: str = ONE, **columns: Any) -> list[Event]:
    return executed(clock, **{"tool": "http.post", "params": {"api_key": secret}} | columns)


def columns(dice: random.Random) -> dict[str, Any]:
    return {"params": dice.choice([None, {"key": ONE}, {"a": {"b": [TWO, 3]}}, {"x": "y"}])}


def test_a_secret_fires_and_names_where_it_stood_and_not_what_it_was() -> None:
    [found] = judge(NAME, call("09:00", params={"a": {"b": [1, f"Bearer {ONE}"]}, "c": TWO}))

    assert (found["subject"], found["severity"]) == ("a1 -> http.post", "medium")
    assert found["paths"] == ["a.b[1]", "c"]
    assert found["digests"] == ["0123456789ab", "ba9876543210"]


def test_one_that_was_sent_to_a_host_fires_high_and_a_denied_one_medium() -> None:
    [sent] = judge(NAME, call("09:00", host="evil.example"))
    [held] = judge(NAME, denied("09:00", host="evil.example", params={"k": ONE}))
    [out] = judge(NAME, events("egress", "09:00", host="evil.example", params={"k": ONE}))

    assert [sent["severity"], held["severity"], out["severity"]] == ["high", "medium", "high"]


def test_the_same_secret_is_counted_whatever_tool_it_went_to() -> None:
    again = call("09:30", tool="mail.send") + call("10:00") + call("10:00:01", TWO)

    rows = judge(NAME, call("09:00") + again)

    assert [(row["tool"], row["calls"]) for row in rows] == [
        ("http.post", 1), ("mail.send", 2), ("http.post", 3), ("http.post", 1),
    ]  # fmt: skip
    assert [row["calls"] for row in judge(NAME, call("09:00") + call("10:00:01"))] == [1, 1]


def test_two_agents_and_two_tenants_do_not_add_up_but_each_fires() -> None:
    rows = judge(NAME, call("09:00") + call("09:01", agent="a2") + call("09:02", tenant="acme"))

    assert [row["calls"] for row in rows] == [1, 1, 1]
    assert {row["subject"] for row in rows} == {"a1 -> http.post", "a2 -> http.post"}


def test_the_parts_of_a_call_fire_once() -> None:
    one = {"call_id": "call-0123456789abc", "params": {"k": ONE}, "tool": "http.post"}

    [found] = judge(NAME, allowed("09:00", **one) + executed("09:01", **one))

    assert (found["event_ids"], found["calls"]) == (["e00000", "e00001"], 1)


@pytest.mark.parametrize(
    "params", [None, {}, {"k": "plain"}, {"k": "[redacted]"}, {"k": "redacted:0123456789ab"}]
)
def test_without_a_secret_it_is_quiet(params: dict[str, Any] | None) -> None:
    assert judge(NAME, call("09:00", params=params)) == []


def test_a_tool_that_takes_a_token_is_quiet_when_it_is_allowed() -> None:
    login = call("09:00", tool="auth.login", params={"token": ONE})

    assert judge(NAME, login) == []  # a login takes a secret by design
    assert judge(NAME, login, allowed="")
    assert judge(NAME, login, allowed="vault.*, auth.login") == []
    assert judge(NAME, login, allowed="auth.*:token") == []
    assert judge(NAME, login, allowed="auth.*:password")


def test_each_planted_secret_that_landing_found_fires_b172(tmp_path: Path) -> None:
    [path] = (CASES / "fixtures").glob("B172-*")
    lines = path.read_bytes().splitlines()
    db, back = landed(tmp_path / "a", lines), landed(tmp_path / "b", lines[::-1])

    rows = agreed(loaded(NAME, db), db, back, at("09:00"), at("09:00") + timedelta(minutes=5))

    marked = db.execute("SELECT count(*) FROM events WHERE len(redacted) > 0").fetchall()
    assert len(rows) == marked[0][0] >= 5
    assert {each for row in rows for each in row["paths"]} >= {"api_key", "a.b.password"}
    assert not any("FAKE" in repr(row) for row in rows)
