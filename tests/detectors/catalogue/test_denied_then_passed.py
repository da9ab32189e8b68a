import json
import random
from pathlib import Path
from typing import Any

import pytest

from tests.kit import Event, allowed, at, case, denied, executed, judge, store

LOW = {"common": 50, "within": "1 hour"}
FILE = {"path": "/srv/app/conf.ini"}


def columns(dice: random.Random) -> dict[str, Any]:
    name = f"/a/b{dice.randrange(6)}.c"
    return {
        "params": dice.choice([{"path": name}, {"path": name.replace("/b", "//B")}, {"url": name}]),
        "tool": dice.choice(["x", "y", "bash"]),
        "op": dice.choice([None, "commit", "lookup"]),
        "target": dice.choice([None, None, name]),
        "call_id": dice.choice([None, None, None, f"call-0123456789-{dice.randrange(20)}"]),
        "approval_id": None,
    }


def refused(clock: str = "09:00", **more: Any) -> list[Event]:
    return denied(clock, **{"tool": "file.write", "params": FILE, "reason": "no writes"} | more)


def passed(clock: str = "09:05", **more: Any) -> list[Event]:
    return executed(
        clock,
        **{"tool": "shell.run", "params": {"cmd": "tee /srv/app/conf.ini"}, "decision": "allow"}
        | more,
    )


def test_a_denied_write_that_comes_back_through_the_shell_fires() -> None:
    [found] = judge("denied_then_passed", refused() + passed())

    assert (found["subject"], found["denied_tool"], found["tool"]) == (
        "a1",
        "file.write",
        "shell.run",
    )
    assert (found["matched"], found["way"]) == (["/srv/app/conf.ini"], "another tool")
    assert (found["started_at"], found["ended_at"]) == (at("09:00"), at("09:05"))
    assert (found["event_ids"], found["reason"]) == (["e00000", "e00001"], "no writes")


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ("/srv/app/conf.ini", "/srv/app//conf.ini"),
        ("/srv/app/conf.ini", "/srv/app/./conf.ini"),
        ("/srv/app/conf.ini", "/srv/x/../app/conf.ini"),
        ("/srv/app/conf.ini", "/SRV/App/conf.ini"),
        ("/srv/app/conf.ini", "file:///srv/app/conf.ini"),
        ("/srv/app/conf.ini", "%2Fsrv%2Fapp%252Fconf.ini"),
        ("/home/bob/.ssh/id_rsa", "~/.ssh/id_rsa"),
        ("C:\\Data\\a.txt", "c:/data/a.txt"),
        ("https://evil.example/up", "http://EVIL.example.:80/up/"),
        ("https://evil.example/up", "https://user:pw@evil.example:443/up#x"),
        ("evil.example", "https://evil.example/"),
        ("evil.example", "ｅｖｉｌ．example"),
        ("a@evil.example", "mailto:A@evil.example"),
    ],
)
def test_another_spelling_of_the_same_target_fires(first: str, then: str) -> None:
    params = json.dumps({"to": then}, ensure_ascii=False)  # as it is stored
    call = refused(params={"to": first}) + passed(tool="file.write", params=params)

    if then != "https://evil.example/":  # "evil.example." is a host as well
        assert [row["way"] for row in judge("denied_then_passed", call)] == ["another spelling"]
    assert judge("denied_then_passed", refused(target=first, params=None) + passed(target=then))


def test_exactly_within_fires_and_a_second_more_is_quiet() -> None:
    assert judge("denied_then_passed", refused() + passed("09:30"))
    assert judge("denied_then_passed", refused() + passed("09:30:01")) == []
    assert judge("denied_then_passed", refused("08:59:59") + passed("09:00"))


def test_what_went_through_before_the_denial_is_quiet() -> None:
    assert judge("denied_then_passed", passed("08:59") + refused()) == []
    assert judge("denied_then_passed", passed("09:00") + refused()) == []


def test_the_same_call_allowed_later_is_quiet() -> None:
    later = allowed("09:05", tool="file.write", params=FILE)
    own = {"kind": "approval_decided", "approver": "user-1", "status": None}
    approved = [event | own for event in passed()]

    assert judge("denied_then_passed", refused() + later) == []
    assert judge("denied_then_passed", refused() + approved) == []


def test_the_refused_call_itself_allowed_before_the_other_is_quiet() -> None:
    call = "call-0123456789abc"
    overruled = allowed("09:03", tool="file.write", params=FILE, call_id=call)

    assert judge("denied_then_passed", refused(call_id=call) + overruled + passed()) == []


def test_a_corrected_call_is_quiet() -> None:
    first = denied("09:00", tool="pay.refund", params={"order": "ord-99181", "cents": 500000})
    then = allowed("09:01", tool="pay.refund", params={"order": "ord-99181", "cents": 5000})

    assert judge("denied_then_passed", first + then) == []


def test_another_payment_to_the_same_account_fires() -> None:
    first = denied("09:00", tool="pay.send", params={"to": "DE89370400440532013000"}, op="commit")
    then = allowed("09:01", tool="bank.wire", params={"iban": "de89370400440532013000"})

    [found] = judge("denied_then_passed", first + then)

    assert found["matched"] == ["de89370400440532013000"]


def test_a_look_a_ticket_and_a_hand_over_are_quiet() -> None:
    order: dict[str, Any] = {"params": {"order": "ord-99181"}}
    first = denied("09:00", tool="pay.refund", op="commit", **order)

    for tool, op in (
        ("order.get", "lookup"),
        ("ticket.create", "commit"),
        ("escalateToHuman", "commit"),
        ("order.add_note", None),
    ):
        assert judge("denied_then_passed", first + passed(tool=tool, op=op, **order)) == []
    assert judge("denied_then_passed", first + passed(tool="order.void", op="commit", **order))


def test_another_command_on_the_same_path_fires_and_a_look_at_it_is_quiet() -> None:
    first = denied("09:00", tool="bash", params={"command": "rm -rf /srv/data"})
    found = passed(tool="bash", params={"command": "find /srv/data -delete"})
    looked = passed(tool="bash", params={"command": "ls -l /srv/data"})

    assert [row["way"] for row in judge("denied_then_passed", first + found)] == ["another command"]
    assert judge("denied_then_passed", first + looked) == []


@pytest.mark.parametrize(
    "shared",
    [
        {"force": True},
        {"n": 12345},
        {"amount": "100.00"},
        {"day": "2026-03-10"},
        {"mode": "read-only"},
        {"type": "application/json"},
        {"tenant_id": "acme-000117"},
        {"cwd": "/srv/app"},
        {"text": "please export all customers of last year"},
        {},
    ],
)
def test_what_many_calls_share_is_no_target_so_it_is_quiet(shared: dict[str, Any]) -> None:
    first = denied("09:00", tool="crm.export", params=shared | {"q": "a"})

    assert judge("denied_then_passed", first + passed(tool="crm.send", params=shared)) == []


def test_a_value_that_went_through_three_times_before_is_quiet_and_twice_fires() -> None:
    usual = [
        event
        for i in range(3)
        for event in passed(f"08:1{i}", tool="file.list", params={"at": "/srv/app/conf.ini"})
    ]

    assert judge("denied_then_passed", usual + refused() + passed()) == []
    assert judge("denied_then_passed", usual[:2] + refused() + passed())
    assert judge("denied_then_passed", usual + refused("09:13") + passed("09:14"))


def test_another_agent_of_the_same_trace_or_of_its_parent_fires() -> None:
    for first, then in (
        ({"trace_id": "t-1"}, {"trace_id": "t-1"}),
        ({"trace_id": "t-0"}, {"trace_id": "t-1", "parent_trace_id": "t-0"}),
        ({"trace_id": "t-1", "parent_trace_id": "t-0"}, {"trace_id": "t-0"}),
        (
            {"trace_id": "t-1", "parent_trace_id": "t-0"},
            {"trace_id": "t-2", "parent_trace_id": "t-0"},
        ),
    ):
        [found] = judge("denied_then_passed", refused(**first) + passed(agent="a2", **then))
        assert (found["subject"], found["denied_to"]) == ("a2", "a1")


def test_strangers_and_other_tenants_are_quiet() -> None:
    assert judge("denied_then_passed", refused() + passed(agent="a2", trace_id="t-9")) == []
    assert judge("denied_then_passed", refused() + passed(tenant="acme")) == []


def test_what_was_refused_too_or_failed_or_waits_is_quiet() -> None:
    for more in (
        {"decision": "deny"},
        {"status": "denied", "decision": None},
        {"status": "error", "decision": None},
        {"status": "denied", "decision": "require_approval"},
    ):
        assert judge("denied_then_passed", refused() + passed(**more)) == []


@pytest.mark.parametrize("code", ["expired", "cancelled"])
def test_an_approval_that_nobody_answered_is_no_denial_so_it_is_quiet(code: str) -> None:
    assert judge("denied_then_passed", refused(reason_code=code) + passed()) == []


def test_the_last_of_many_denials_is_named_and_each_pass_fires_once() -> None:
    tries = refused() + refused("09:01", tool="file.edit") + passed("09:05")

    [found] = judge("denied_then_passed", tries)

    assert (found["denied_tool"], found["started_at"]) == ("file.edit", at("09:01"))


def test_an_allowance_whose_execution_comes_later_fires_once() -> None:
    call = "call-0123456789abc"
    own = {"kind": "tool_decided", "status": None}
    later = [event | own for event in passed("09:04", call_id=call)]
    later += executed("09:05", tool="shell.run", call_id=call)

    [found] = judge("denied_then_passed", refused() + later)

    assert found["ended_at"] == at("09:04")


def test_hostile_parameters_are_read_without_an_error_and_are_quiet() -> None:
    for params in ('"%zz%"', "[[[]]]", '{"": "\\\\"}', '{"a\\"b": "c:"}', "null", '["/"]'):
        assert judge("denied_then_passed", refused(params=params) + passed(params=params)) == []


def test_the_words_of_a_call_leave_out_the_names_of_its_parameters() -> None:
    params = '{"to_account.5": ["x@y.example", 7], "cmd": "dd of=/dev/sda"}'

    found = store().execute("SELECT words_asked($1::JSON, 'T')", [params]).fetchall()[0][0]

    assert found == ["t", "x@y.example", "7", "dd", "of", "/dev/sda"]


@pytest.mark.parametrize("which", ["B053", "B064", "B066", "B068", "B069", "B083"])
def test_denials_after_which_nothing_passes_are_quiet(tmp_path: Path, which: str) -> None:
    assert case("denied_then_passed", tmp_path, which) == []
