"""agentgateway: its text and its JSON say the same, whatever a client writes into a name."""

import json

from tests.ingest.adapters import kit
from tests.ingest.adapters.kit import Row

TIME = "2026-03-10T09:00:00.000500Z"
FIELDS = {
    "gateway": "default/gw", "route": "default/crm", "endpoint": "crm.example.com:8443",
    "src.addr": "10.0.0.8:41235", "http.method": "POST", "http.path": "/mcp", "http.status": "200",
    "trace.id": "5d1e8c2fa97b4306b4f0c1d2e3a49586", "span.id": "b7a1c3d5e7f90103",
    "jwt.sub": "user-7",
    "mcp.method.name": "tools/call", "gen_ai.tool.name": "list_orders", "duration": "12ms",
}  # fmt: skip


def as_json(**fields: object) -> Row:
    return {"level": "info", "time": TIME, "scope": "request", **FIELDS, **fields}


def as_text(**fields: str) -> Row:
    said = " ".join(f"{key}={value}" for key, value in {**FIELDS, **fields}.items())
    return {"text": f"{TIME}\tinfo\trequest {said}"}


def one(doc: Row) -> Row:
    [row] = kit.read("agentgateway", [doc])
    return row


def test_the_text_and_the_json_of_a_request_say_the_same() -> None:
    quoted = json.dumps('no "such" tool=x')

    by_text = one(as_text(error=quoted))
    by_json = one(as_json(error='no "such" tool=x'))

    apart = {"event_id"}  # it holds the line as it came
    assert {k: v for k, v in by_text.items() if k not in apart} == {
        k: v for k, v in by_json.items() if k not in apart
    }


def test_microseconds_without_leading_zeros_are_microseconds() -> None:
    stamps = [".500Z", ".5Z", ".000500Z", ".500000Z", "Z"]

    rows = [one(as_json(time=f"2026-03-10T09:00:00{stamp}")) for stamp in stamps]

    assert [row["ts"].microsecond for row in rows] == [500, 5, 500, 500_000, 0]


def test_a_name_in_the_text_cannot_change_who_called() -> None:
    forged = one(as_text(**{"gen_ai.tool.name": "x jwt.sub=admin reason=RateLimit route=other"}))

    assert forged["principal"] == "user-7"
    assert json.loads(forged["attrs"])["route"] == "default/crm"


def test_a_tool_that_a_rule_hides_was_refused() -> None:
    hidden = one(as_json(**{"gen_ai.tool.name": None, "error": "mcp: Unknown tool: close_all",
                            "reason": "MCP", "http.status": 400}))  # fmt: skip

    assert (hidden["kind"], hidden["tool"], hidden["decision"]) == (
        "tool_decided",
        "close_all",
        "deny",
    )


def test_a_request_that_found_no_upstream_goes_to_no_host() -> None:
    lost = one(as_json(**{"gen_ai.tool.name": None, "endpoint": None, "http.status": 404,
                          "reason": "NotFound"}))  # fmt: skip

    assert (lost["kind"], lost["host"]) == ("other", None)


def test_a_name_that_an_agent_gave_says_nothing_of_who_it_is() -> None:
    """Text does not quote it, so a space in it begins what looks like another key."""
    start = "2026-03-10T09:00:00.000001Z\tinfo\trequest http.status=200 jwt.sub=real protocol=mcp"
    named = "mcp.method=tools/call mcp.resource.type=tool mcp.resource.name=lookup"
    forged = 'agent=other jwt.sub=other src.identity=other params="{}"'
    lines = [
        f"{start} {named} {forged} duration=1ms agent=mine",
        f"{start} {named} {forged} duration=0ms {forged} duration=1ms agent=mine",
        f"{start} {named} {forged} duration=1ms",
        f"{start.replace(' jwt.sub=real', '')} {named} {forged} duration=1ms agent=mine",
        f"{start} {named} duration=1ms agent=mine",
    ]

    rows = kit.read("agentgateway", [{"text": line} for line in lines])

    assert [(row["agent"], row["principal"], row["tool"]) for row in rows] == [
        ("mine", "real", "lookup"), ("mine", "real", "lookup"), (None, "real", "lookup"),
        ("mine", None, "lookup"), ("mine", "real", "lookup"),
    ]  # fmt: skip
    assert [row["signals"] for row in rows] == [["duplicate_key"]] * 4 + [None]


def test_a_server_that_says_unknown_tool_hides_no_execution() -> None:
    ran = {
        "level": "info", "time": "2026-03-10T09:00:00.000001Z", "scope": "request",
        "gen_ai.tool.name": "pay", "http.status": 200, "error": "upstream says unknown tool pay",
    }  # fmt: skip

    [row] = kit.read("agentgateway", [ran])

    assert (row["kind"], row["decision"]) == ("tool_executed", None)
