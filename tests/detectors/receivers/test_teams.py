import json
from dataclasses import replace
from typing import Any

import httpx
import pytest

from detectors.receivers import Delivered, Message, Outcome, Refused, Retry, teams
from ingest.config import ConfigError, Secret, convert
from tests import fakes
from tests.fakes.teams import Fake
from tests.kit_receivers import MESSAGE, ROOT, exchange, yes

HOOK = Secret("https://prod-01.westeurope.logic.azure.com/workflows/x?sig=FAKE")
CONNECTOR = teams.Options(HOOK, flavour="connector")
FIXTURES = ROOT.parent / "shared/cases/fixtures"


def case(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(next(FIXTURES.glob(f"{name}-*")).read_text())
    return found


def card(message: Message = MESSAGE, options: teams.Options | None = None) -> Any:
    _, sent = exchange("teams", yes("teams"), message=message, options=options)
    return json.loads(sent[0].content)["attachments"][0]["content"]


def test_what_a_flow_takes_is_accepted_and_not_more() -> None:
    assert exchange("teams", httpx.Response(202))[0] == Delivered(accepted=True)


def test_case_b112_no_card_is_dropped_after_the_202() -> None:
    found = case("B112")
    text = found["incident"]["text"]
    message = replace(MESSAGE, title=text, respond=text, evidence=(text,) * 60)
    fake = Fake()

    outcome = fakes.tell(fake, "teams", message)

    assert outcome == Delivered(accepted=True)
    assert len(fake.dropped) == found["expect"]["dropped"]
    sent = fake.requests[0].content
    assert len(sent) <= 20_000
    assert 25_000 < len(json.dumps(json.dumps(json.loads(sent)))) <= 28_672


def test_case_b110_what_the_connector_finds_too_long_is_shortened_once() -> None:
    found = case("B110")
    answers = [httpx.Response(each["status"], text=each["body"]) for each in found["responses"]]

    outcome, sent = exchange("teams", *answers, options=CONNECTOR)

    assert (outcome, found["expect"]["state"]) == (Delivered(), "delivered")
    assert len(sent[1].content) < 11_000 < len(sent[0].content)
    again, sent = exchange("teams", answers[0], options=CONNECTOR)
    assert isinstance(again, Refused)
    assert (again.hint, len(sent)) == ("too_long", 2)


@pytest.mark.parametrize("text", ["x" * 400, "案" * 150, '"\\' * 120, 'a案"' * 70])
def test_no_number_of_lines_breaks_either_measure(text: str) -> None:
    for count in range(1, 60, 3):
        _, sent = exchange(
            "teams", yes("teams"), message=replace(MESSAGE, evidence=(text,) * count)
        )
        body = sent[0].content
        assert len(body) <= 20_000
        assert len(json.dumps(json.dumps(json.loads(body)))) <= 28_672


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("1", Delivered()),
        ("1\n", Delivered()),
        ("Microsoft Teams endpoint returned HTTP error 429 with ContextId x",
         Retry("answered 'Microsoft Teams endpoint returned HTTP error 429 with ContextId x'",
               "rateLimited")),
        ("Connector configuration not found",
         Refused("answered 'Connector configuration not found'", "clientError")),
        ("<html>login</html>", Retry("answered '<html>login</html>'", "other")),
        ("", Retry("answered nothing", "other")),
    ],
)  # fmt: skip
def test_the_connector_says_yes_and_no_with_status_200(text: str, outcome: Outcome) -> None:
    assert exchange("teams", httpx.Response(200, text=text), options=CONNECTOR)[0] == outcome


@pytest.mark.parametrize(
    ("said", "outcome"),
    [("posted", Delivered()), ("something else", None), ("1", None), ("", None)],
)
def test_a_flow_with_a_response_of_its_own_says_what_the_config_names(
    said: str, outcome: Outcome | None
) -> None:
    options = teams.Options(HOOK, answer="posted")

    found = exchange("teams", httpx.Response(200, text=said), options=options)[0]

    shown = repr(said) if said else "nothing"
    assert found == (outcome or Retry(f"answered HTTP 200 and {shown}", "other"))


def test_the_flavour_is_never_guessed_from_the_host() -> None:
    for flavour in ("workflow", "connector"):
        options = convert({"webhook": HOOK.reveal, "flavour": flavour}, teams.Options, "x")
        assert options.flavour == flavour
    with pytest.raises(ConfigError, match="flavour"):
        convert({"webhook": HOOK.reveal, "flavour": "bot"}, teams.Options, "x")


def test_a_refusal_of_a_flow_names_its_code() -> None:
    no = httpx.Response(400, json={"error": {"code": "TriggerInputSchemaMismatch", "message": "x"}})

    outcome, sent = exchange("teams", no)

    assert outcome == Refused("HTTP 400: TriggerInputSchemaMismatch", "clientError")
    assert len(sent) == 1


def test_a_card_has_the_style_of_the_severity_a_table_of_facts_and_links() -> None:
    buttons = (("ack", "https://gatewatch.example/links/x.y"),)

    found = card(replace(MESSAGE, buttons=buttons))

    top = found["body"][0]
    assert (top["style"], top["items"][0]["text"]) == ("attention", "HIGH · Opened")
    [facts] = [each["facts"] for each in found["body"] if each["type"] == "FactSet"]
    assert facts[0] == {"title": "denials", "value": "3"}
    assert facts[3]["value"] == "crm.export\\_contacts"
    assert [(each["title"], each["url"]) for each in found["actions"]] == [
        ("Open al_7f3a", MESSAGE.link),
        ("Acknowledge", buttons[0][1]),
    ]
    assert card(replace(MESSAGE, kind="resolved"))["body"][0]["style"] == "good"
    assert card(replace(MESSAGE, severity="low"))["body"][0]["style"] == "accent"


def test_text_of_a_log_stands_where_no_markdown_is_read_and_dates_are_not_worked_out() -> None:
    evil = "**bold** [x](https://evil.example) {{DATE(2026-01-01T00:00:00Z)}} ${secret}"

    found = card(replace(MESSAGE, title=evil, evidence=(evil,)))

    blocks = [each for each in found["body"] if each["type"] == "TextBlock"]
    assert blocks == []
    runs = [run["text"] for each in found["body"] for run in each.get("inlines", ())]
    assert any("**bold** [x]" in run for run in runs)
    assert not [run for run in runs if "{{" in run or "${" in run or "https://evil" in run]


def test_the_connector_takes_no_text_runs_so_its_markdown_is_escaped() -> None:
    fake = Fake(CONNECTOR)

    outcome = fakes.tell(fake, "teams", replace(MESSAGE, evidence=("- **x** 1. `y`",)))

    assert (outcome, fake.refused) == (Delivered(), [])
    assert "TextRun" not in fake.requests[0].content.decode()
    assert "- **x** 1. `y`" in fake.accepted[0].text
    assert "x" not in fake.accepted[0].marks


def test_what_a_flow_cannot_show_is_dropped_by_the_fake_after_its_202() -> None:
    fake = Fake()
    body = {"type": "message", "attachments": []}

    answer = fake(httpx.Request("POST", fake.options.address, json=body))

    assert (answer.status_code, len(fake.dropped), fake.accepted) == (202, 1, [])
