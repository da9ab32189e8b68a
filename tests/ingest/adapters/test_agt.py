"""The agent-governance-toolkit: what its approvals say of who answered."""

from tests.ingest.adapters import kit


def test_an_approval_that_nobody_answered_has_expired_and_no_approver() -> None:
    said = {
        ("ops-1", None, "rejected"): ("ops-1", "deny", "rejected"),
        ("ops-1", None, "approved"): ("ops-1", "allow", "approved"),
        ("system:timeout", None, "rejected"): (None, "deny", "expired"),
        (None, "approval_expired", "rejected"): (None, "deny", "expired"),
        ("system:error", None, "rejected"): (None, "deny", "rejected"),
    }

    rows = kit.read("agt", [
        {
            "entry_id": f"audit_{n}", "event_type": "approval_decision", "action": "pay",
            "agent_did": "a1", "timestamp": "2026-03-10T09:00:00+00:00", "outcome": outcome,
            "data": {"approver": approver, "reason_code": code},
        }
        for n, (approver, code, outcome) in enumerate(said)
    ])  # fmt: skip

    assert [(row["approver"], row["decision"], row["reason_code"]) for row in rows] == list(
        said.values()
    )


def test_a_refused_approval_is_one_denial_by_either_road() -> None:
    for reason in ("Approval rejected by ops-1: no", "Approval denied (expired) for request ar-1"):
        refusal = {
            "event_type": "policy_evaluation", "action": "pay", "agent_did": "a1",
            "timestamp": "2026-03-10T09:00:00+00:00", "outcome": "denied",
            "policy_decision": "deny", "data": {"reason": reason},
        }  # fmt: skip

        [row] = kit.read("agt", [refusal])

        assert (row["kind"], row["decision"]) == ("other", None)
