"""Kubernetes: the last stage of a request counts, and a cluster's own pulse is no change."""

from pathlib import Path

from tests.ingest.adapters import kit
from tests.ingest.adapters.kit import Row
from tests.world import World


def event(
    verb: str, resource: str, code: int = 200, sub: str | None = None, **fields: object
) -> Row:
    return {
        "kind": "Event", "auditID": "au-1", "stage": "ResponseComplete", "verb": verb,
        "stageTimestamp": "2026-03-10T09:00:00.5Z", "responseStatus": {"code": code},
        "objectRef": {"resource": resource, "namespace": "agents", "name": "x", "subresource": sub},
        **fields,
    }  # fmt: skip


def kinds(*events: Row) -> list[str]:
    return [row["kind"] for row in kit.read("kubernetes_audit", events)]


def test_an_event_has_one_id_alone_and_in_a_list() -> None:
    one, two = event("patch", "configmaps"), event("patch", "configmaps", auditID="au-2")

    rows = kit.read("kubernetes_audit", [one, two, {"kind": "EventList", "items": [one, two]}])

    assert len(rows) == 4
    assert len({row["event_id"] for row in rows}) == 2


def test_what_a_cluster_writes_all_day_is_no_change() -> None:
    assert kinds(
        event("update", "leases"), event("patch", "deployments", sub="status"),
        event("create", "events"), event("create", "subjectaccessreviews"),
        event("create", "pods", sub="binding"),
        event("patch", "deployments", requestURI="/apis/apps/v1/x?dryRun=All&force=true"),
        event("get", "configmaps"), event("update", "configmaps", code=409),
        event("update", "configmaps", stage="RequestReceived"), event("update", "configmaps"),
    ) == ["other"] * 9 + ["config_changed"]  # fmt: skip


def test_a_command_in_a_container_was_carried_out() -> None:
    rows = kit.read("kubernetes_audit", [
        event("create", "pods", code=101, sub="exec"), event("get", "pods", code=101, sub="exec"),
        event("create", "pods", sub="eviction"), event("get", "pods", sub="log"),
    ])  # fmt: skip

    assert [(row["kind"], row["op"]) for row in rows] == [
        ("tool_executed", "commit"), ("tool_executed", "commit"), ("tool_executed", "commit"),
        ("other", "lookup"),
    ]  # fmt: skip


def test_a_refusal_is_known_whoever_refused() -> None:
    webhook = {"code": 400, "message": 'admission webhook "p.example" denied the request: no'}
    forbid = {"authorization.k8s.io/decision": "forbid"}

    assert kinds(
        event("delete", "roles", code=403), event("get", "pods", code=401),
        event("create", "pods", responseStatus=webhook), event("patch", "pods", annotations=forbid),
        event("create", "pods", code=422),
    ) == ["tool_decided"] * 4 + ["other"]  # fmt: skip


def test_who_chooses_the_audit_id_hides_nothing(tmp_path: Path) -> None:
    """The header Audit-ID is the caller's: the same id for a harmless and another request."""
    events = [
        event("get", "pods"), event("delete", "roles", code=403),
        event("create", "pods", code=101, sub="exec"), event("patch", "configmaps"),
    ]  # fmt: skip
    world = World(tmp_path)

    world.land([kit.encoded(each) for each in [*events, *events]], adapter="kubernetes_audit")
    rows = world.rows("SELECT kind FROM events ORDER BY ledger_seq")
    calls = world.rows("SELECT decision, executed_at IS NOT NULL AS ran FROM calls ORDER BY ts")
    world.close()

    assert [row["kind"] for row in rows] == [
        "other", "tool_decided", "tool_executed", "config_changed"
    ]  # fmt: skip
    assert sorted((row["decision"], row["ran"]) for row in calls if row["decision"]) == [
        ("deny", False)
    ]
    assert len(calls) == 2


def test_only_the_parameter_itself_makes_a_dry_run() -> None:
    dry = ["/x?dryRun=All", "/x?a=1&dryRun=All", "/x?dryRun=All&a=1"]
    real = ["/x?fieldManager=dryRun=All", "/x?a=?dryRun=All", "/x?adryRun=All", "/dryRun=All", "/x"]

    assert kinds(*(event("patch", "configmaps", requestURI=uri) for uri in dry + real)) == [
        "other"
    ] * len(dry) + ["config_changed"] * len(real)


def test_what_the_server_counts_is_no_change_of_an_object() -> None:
    written = [
        event("update", "configmaps", requestObject={
            "metadata": {"name": "x", "resourceVersion": str(n), "managedFields": [{"time": n}]},
            "data": {"mode": "strict"},
        })
        for n in (1, 2)
    ]  # fmt: skip

    rows = kit.read("kubernetes_audit", written)

    assert {row["config_after"] for row in rows} == {
        '{"data":{"mode":"strict"},"metadata":{"name":"x"}}'
    }
