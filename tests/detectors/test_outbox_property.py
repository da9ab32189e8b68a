"""Whatever a service answers and whenever the process starts anew: in order, and nothing lost."""

import json
import random
from collections import defaultdict
from datetime import timedelta
from typing import Any

import httpx
import pytest

from detectors.receivers import Kind
from tests.kit_receivers import Answer
from tests.kit_telling import HOOK, SLACK, Build, House

YES = httpx.Response(200, text="ok")
BAD: tuple[Answer, ...] = (
    httpx.Response(503), httpx.Response(429, headers={"retry-after": "20"}),
    httpx.ConnectError("x"), httpx.ReadTimeout("x"),
)  # fmt: skip
LIFE: tuple[Kind, ...] = ("open", "worse", "reminder", "resolved")


def lived(house: House, chance: random.Random, answers: tuple[Answer, ...]) -> None:
    """Six alerts begin, go on and end; the service answers as it likes, the process dies now and
    then; at last all is well."""
    said: dict[str, int] = defaultdict(int)
    house.answer = lambda _: chance.choice(answers)
    for _ in range(40):
        alert = f"al_{chance.randrange(6)}"
        if said[alert] < len(LIFE):
            row = _alert(house, alert) | {"tellings": said[alert] + 1}
            house.owe(row, LIFE[said[alert]])
            said[alert] += 1
        house.run(timedelta(seconds=chance.choice([0, 5, 90])))
        house.now += timedelta(seconds=chance.randrange(60))
        if chance.random() < 0.2:
            house.restart()
    house.answer = lambda _: YES
    house.run(timedelta(hours=2))


def _alert(house: House, alert: str) -> dict[str, Any]:
    known = house.rows("SELECT * FROM alerts WHERE alert_id = $id", id=alert)
    return known[0] if known else house.alert(alert)


@pytest.mark.parametrize("seed", range(8))
def test_a_program_is_told_everything_in_order(seed: int, build: Build) -> None:
    house = build(ops=HOOK)

    lived(house, random.Random(seed), (*BAD, YES, YES))  # noqa: S311 - a play, no secret

    assert set(house.states()) == {"delivered"}
    heard: dict[str, list[str]] = defaultdict(list)
    for _, request in house.sent:
        data = json.loads(request.content)["data"]
        heard[data["alert_id"]].append(data["kind"])
    owed = house.rows("SELECT alert_id, list(kind) AS kinds FROM deliveries GROUP BY 1")
    for row in owed:
        first = list(dict.fromkeys(heard[row["alert_id"]]))
        assert first == [kind for kind in LIFE if kind in row["kinds"]]


@pytest.mark.parametrize("seed", range(8))
def test_people_are_told_twice_at_most_and_the_second_says_so(seed: int, build: Build) -> None:
    house = build(ops=SLACK)
    sent: dict[str, list[str]] = defaultdict(list)

    chance = random.Random(seed)  # noqa: S311 - a play, no secret
    lived(house, chance, (httpx.ReadTimeout("x"), httpx.ReadTimeout("x"), YES))

    for _, request in house.sent:  # each may have arrived
        text = json.loads(request.content)["text"]
        if "alerts in one message" not in text:
            sent[text.split("\n")[0].split(" (")[0] + text.split("\n")[-1]].append(text)
    assert sent
    for texts in sent.values():
        assert len(texts) <= 2
        assert all("(repeat, " in text for text in texts[1:])
    assert set(house.states()) <= {"delivered", "dead"}
