"""Logs that name no agent: whoever asked is counted for, not everybody who asks there."""

import json
from pathlib import Path
from typing import Any

from tests.world import World, at


def kubernetes(
    minutes: float, user: str, code: int = 403, verb: str = "delete", **more: Any
) -> bytes:
    doc = {
        "kind": "Event", "auditID": f"au-{user}-{minutes}", "stage": "ResponseComplete",
        "verb": verb, "user": {"username": user}, "stageTimestamp": at(minutes).isoformat(),
        "responseStatus": {"code": code}, "requestURI": "/x",
        "objectRef": {"resource": "roles", "namespace": "agents", "name": "r"}, **more,
    }  # fmt: skip
    return json.dumps(doc).encode()


def aws(minutes: float, user: str) -> bytes:
    doc = {
        "eventTime": at(minutes).isoformat(), "eventSource": "iam.amazonaws.com",
        "eventName": "CreateUser", "eventID": f"e-{user}-{minutes}", "readOnly": False,
        "errorCode": "AccessDenied", "userIdentity": {"arn": user},
    }  # fmt: skip
    return json.dumps(doc).encode()


def gateway(minutes: float, user: str) -> bytes:
    """Each request has a trace of its own."""
    doc = {
        "level": "info", "time": at(minutes).strftime("%Y-%m-%dT%H:%M:%S.%fZ"), "scope": "request",
        "jwt.sub": user, "http.status": 403, "gen_ai.tool.name": "pay", "reason": "Authorization",
        "trace.id": f"{int(minutes) + 1:032x}", "span.id": f"{int(minutes) + 1:016x}",
    }  # fmt: skip
    return json.dumps(doc).encode()


def subjects(folder: Path, adapter: str, lines: list[bytes]) -> list[tuple[str, str]]:
    world = World(folder)
    world.land(lines, adapter=adapter)
    world.tick(at(24 * 60 + 1))
    rows = world.rows("SELECT detector, subject FROM alerts WHERE detector <> 'silent_source'")
    world.close()
    return sorted((row["detector"], row["subject"]) for row in rows)


def test_three_denials_of_one_caller_are_told_and_one_of_each_of_three_callers_is_not(
    tmp_path: Path,
) -> None:
    for adapter, line in {
        "kubernetes_audit": kubernetes, "cloudtrail": aws, "agentgateway": gateway
    }.items():  # fmt: skip
        same = [line(minutes, "bot-1") for minutes in (0, 2, 4)]
        others = [line(minutes + 0.5, f"bot-{minutes + 2}") for minutes in (0, 2, 4)]

        found = subjects(tmp_path / adapter, adapter, [*same, *others])

        assert found == [("deny_retry", "principal bot-1")], adapter


def test_an_object_that_is_written_and_then_changed_four_times_in_a_day_is_told_of(
    tmp_path: Path,
) -> None:
    lines = [
        kubernetes(
            minutes, "bot-1", 200, "patch",
            requestObject=[{"op": "replace", "path": "/data/mode", "value": str(minutes)}],
        )
        for minutes in (0, 5, 10, 15, 20)
    ]  # fmt: skip

    assert subjects(tmp_path, "kubernetes_audit", lines) == [("config_churn", "roles/agents/r")]
