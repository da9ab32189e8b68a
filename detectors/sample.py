"""One alert as it might be told: `gatewatch test-send` sends it, and the receivers' pages show it.

Reads: nothing. Writes: nothing. Next: detectors/worker.py.
"""

import json
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from detectors import detector, wording
from detectors.receivers import Language, Message

DETECTOR = "deny_retry"
TEST: dict[Language, str] = {"en": "This is a test message", "zh": "这是一条测试消息"}


def sample(
    language: Language,
    public_url: str,
    now: datetime,
    zone: str = "UTC",
    buttons: tuple[tuple[str, str], ...] = (),
) -> Message:
    """Agent a1 was denied three times, worded as every alert is."""
    header = detector.declared(detector.files()[DETECTOR])
    respond = header.respond_zh if language == "zh" else header.respond
    events = [_event(now - timedelta(minutes=ago), page) for page, ago in enumerate((0, 2, 3))]
    alert = {
        "alert_id": "al_7f3a",
        "detector": DETECTOR,
        "tenant": "",
        "subject": "a1",
        "severity": header.severity,
        "title": "a1: 3 denials in a row for crm.export_contacts",
        "title_zh": "a1：crm.export_contacts 连续被拒 3 次",
        "started_at": events[-1]["ts"],
        "ended_at": events[0]["ts"],
        "facts": {"denials": 3, "baseline": 0.2, "threshold": 3},
        "event_ids": ["e1", "e2", "e3"],
    }
    return wording.message(
        alert, events, respond, "open", "dl_0001", language, public_url, now, zone, buttons
    )


def trial(
    language: Language, receiver: str, delivery: str, public_url: str, now: datetime
) -> Message:
    """The sample as a test: its title says so, its severity wakes nobody, its link leads home."""
    told = sample(language, public_url, now)
    return replace(
        told,
        alert="al_test",
        delivery=delivery,
        severity="low",
        subject=receiver,
        title=f"{TEST[language]} ({told.title})",
        link=public_url,
        buttons=(),
    )


def _event(at: datetime, page: int) -> dict[str, Any]:
    """A call that was denied, as a row of `events`."""
    params = {"filter": {"region": "EU"}, "export_all": True, "limit": 5_000, "page": 3 - page}
    return {
        "ts": at,
        "kind": "tool_decided",
        "agent": "a1",
        "principal": "svc-sales",
        "tool": "crm.export_contacts",
        "host": "crm.example",
        "params": json.dumps(params),
        "decision": "deny",
        "status": None,
        "error": None,
        "rule_ids": ["rule-17"],
        "reason": "export_all is not on the list",
        "trace_id": "t-1",
        "config_object": None,
        "config_before": None,
        "config_after": None,
    }
