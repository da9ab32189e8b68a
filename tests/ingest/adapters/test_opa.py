"""OPA's decision log: every shape that a result has in practice, and decisions sent twice."""

from tests.ingest.adapters import kit
from tests.ingest.adapters.kit import Row

ASKED = {"agent": {"id": "a1"}, "tool": {"name": "crm.export_contacts"}, "params": {"page": 1}}


def read(*docs: Row) -> list[Row]:
    return kit.read("opa", docs)


def decision(number: int = 1, /, **fields: object) -> Row:
    """A decision as it is uploaded. A `result` that is not given is undefined."""
    at = f"2026-03-10T09:00:{number:02d}.123456789Z"
    return {"decision_id": f"d-{number}", "timestamp": at, "input": ASKED, **fields}


def one(**fields: object) -> Row:
    [row] = read(decision(**fields))
    return row


RESULTS = [
    (True, "allow"), (False, "deny"), ("allow", "allow"), ("DENY", "deny"),
    ("ask", "require_approval"), ("perhaps", None), (7, None), ([True], None),
    ({"allow": True}, "allow"), ({"allowed": False}, "deny"), ({"allow": "true"}, "allow"),
    ({"allow": True, "deny": ["no ticket"]}, "deny"), ({"deny": []}, "allow"),
    ({"deny": True}, "deny"), ({"deny": {"reason": "no ticket"}}, "deny"),
    ({"allow": False, "require_approval": True}, "require_approval"),
    ({"allow": True, "require_approval": False}, "allow"),
    ({"decision": "deny", "allow": True}, "deny"), ({"decision": "perhaps", "allow": True}, None),
    ({"decision": {"allow": False}, "allow": True}, "deny"), ({"result": {"allow": True}}, "allow"),
    ({"headers": {}}, None), ({}, None),
]  # fmt: skip


def test_a_result_of_any_shape_is_read_by_a_written_rule() -> None:
    rows = read(*(decision(path="agents/tools/decision", result=result) for result, _ in RESULTS))

    found = [(result, row["decision"]) for (result, _), row in zip(RESULTS, rows, strict=True)]
    assert found == RESULTS


def test_a_rule_that_is_called_deny_says_no_when_it_holds() -> None:
    results: list[object] = [True, False, ["no ticket", "unattended"], []]

    rows = read(*(decision(path="agents/tools/deny", result=result) for result in results))

    assert [row["decision"] for row in rows] == ["deny", "allow", "deny", "allow"]
    assert rows[2]["reason"] == "no ticket; unattended"


def test_an_undefined_result_is_no_decision_and_an_error_is_a_denial() -> None:
    undefined = one()
    failed = one(error={"code": "eval_conflict_error", "message": "two outputs"}, result=True)

    assert (undefined["decision"], undefined["signals"]) == (None, ["undefined_result"])
    assert (failed["decision"], failed["signals"]) == ("deny", ["evaluation_error"])
    assert (failed["status"], failed["error"]) == ("error", "eval_conflict_error: two outputs")


def test_a_decision_that_is_uploaded_again_is_one_event_even_when_it_was_masked_since() -> None:
    first = decision(result=True)
    again = first | {"masked": ["/input/params"], "input": {"agent": {"id": "a1"}}}

    assert len({row["event_id"] for row in read(first, again)}) == 1


def test_the_decisions_of_one_batch_are_told_apart() -> None:
    batch = [decision(result=True, batch_decision_id=f"b-{n}") for n in (1, 2)]

    assert len({row["event_id"] for row in read(*batch)}) == 2


def test_what_was_erased_or_masked_is_named_and_the_cache_of_calls_is_kept() -> None:
    cache = {"http.send": {"[]": {"status_code": 200}}}

    row = one(erased=["/input/card"], masked=["/input/key"], nd_builtin_cache=cache, result=True)

    assert row["redacted"] == ["/input/card", "/input/key"]
    assert kit.attrs(row)["nd_builtin_cache"] == cache
    assert kit.attrs(row)["ts_ns"] == "1773133201123456789"


def test_an_input_that_follows_no_convention_is_still_a_decision() -> None:
    asked = [None, 7, "a1", ["a1"], {"agent": 7, "tool": [], "params": "{"}]

    rows = read(*(decision(input=each, result=False) for each in asked))

    assert [row["decision"] for row in rows] == ["deny"] * 5
    assert {row["tool"] for row in rows} == {None}
