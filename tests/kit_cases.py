"""What the cases of receivers are run with: their fixtures through the real outbox and worker; and
which test holds a case."""

import json
import re
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import httpx

from tests.kit import CASES
from tests.kit_receivers import NOW, Answer
from tests.kit_telling import DING, HOOK, SLACK, House

TESTS = Path(__file__).parent
CHANNELS = {  # of the fixtures: our receivers
    "slack": SLACK,
    "slack_api": SLACK,
    "dingtalk": DING,
    "webhook": HOOK,
    "feishu": {
        "type": "feishu",
        "webhook": "https://open.feishu.cn/open-apis/bot/v2/hook/FAKE0001",
    },
    "pagerduty": {"type": "pagerduty", "routing_key": "FAKE0001FAKE0001FAKE0001FAKE0001"},
}
STATES = {  # of the fixtures: our states, see docs/delivery.md
    "delivered": {"delivered"},
    "failed": {"pending", "dead"},
    "failed_permanent": {"dead"},
}


def fixture(case: str) -> Any:
    [path] = (CASES / "fixtures").glob(f"{case}-*.json")
    return json.loads(path.read_text(encoding="utf-8"))


def owe(house: House, number: int, incident: Any) -> None:
    """Owe one message about the fixture's incident."""
    house.owe(
        house.alert(
            f"al_{number}",
            severity=incident["severity"],
            subject=incident["group"],
            title=incident["title"],
        )
    )


def scripted(responses: list[Any], clock: Callable[[], datetime]) -> Iterator[Answer]:
    """What the fixture's receiver answers, the last again and again. One that stalls for longer
    than anybody waits has taken the message, and its answer never comes."""
    for each in responses + responses[-1:] * 1_000:
        if each.get("delay_s", 0) > 15:
            yield httpx.ReadTimeout("nothing came")
            continue
        headers = {
            name: re.sub(r"@HTTPDATE([+-]\d+)", lambda found: _date(clock(), found[1]), value)
            for name, value in each["headers"].items()
        }
        yield httpx.Response(each["status"], text=each["body"], headers=headers)


def _date(now: datetime, seconds: str) -> str:
    return format_datetime(now + timedelta(seconds=int(seconds)), usegmt=True)


def answer(house: House, responses: list[Any]) -> None:
    script = scripted(responses, lambda: house.now)
    house.answer = lambda _: next(script)


def state(house: House, number: int) -> str:
    [row] = house.rows("SELECT state FROM deliveries WHERE alert_id = $id", id=f"al_{number}")
    return str(row["state"])


def requests(house: House, name: str) -> list[tuple[float, str]]:
    """Seconds after the beginning, and text, of what one receiver was sent."""
    host = httpx.URL(next(each for each in house.routes if each.name == name).options.address).host
    return [
        ((at - NOW).total_seconds(), request.content.decode())
        for at, request in house.sent
        if request.url.host == host
    ]


def of_kinds(*kinds: str) -> set[str]:
    """Every case of these kinds that the manifest names."""
    manifest = json.loads((CASES / "manifest.json").read_text(encoding="utf-8"))
    return {each["id"] for each in manifest if each["kind"] in kinds}


def held(case: str, file: str, after: str = "") -> bool:
    """Does a file of the tests hold it: in a string that a test reads, or in a test's own name? A
    remark holds nothing, and what stands before `after` does not count."""
    text = (TESTS / file).read_text(encoding="utf-8")
    return re.search(rf'"{case}\b|_{case.lower()}_', text[text.index(after) :]) is not None
