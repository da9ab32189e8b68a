"""Messages about pauses: what people must know when a gate does not do what it was asked.

Reads: nothing. Writes: nothing. Next: detectors/containing.py.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from detectors.receivers import Language, Message
from detectors.routing import Desk, Route
from detectors.shorten import cut, visible
from detectors.wording import moment

NAMES: dict[Language, dict[str, str]] = {
    "en": {
        "agent": "agent", "trace": "trace", "gate": "gate", "answer": "answer", "until": "until",
        "asked": "asked by", "id": "pause", "silence": "none", "state": "elsewhere",
        "held": "another gate has confirmed it", "open": "no gate has confirmed it",
    },
    "zh": {
        "agent": "智能体", "trace": "调用链", "gate": "网关", "answer": "应答", "until": "截止",
        "asked": "发起人", "id": "暂停编号", "silence": "无", "state": "其他网关",
        "held": "另一网关已确认", "open": "没有网关确认",
    },
}  # fmt: skip
TROUBLE: dict[Language, dict[str, tuple[str, str]]] = {
    "en": {
        "unconfirmed": (
            "NOT PAUSED: gate {gate} has not confirmed the pause of {kind} {name} within a minute",
            "It may still be acting. Stop it at its source; gatewatch goes on asking. `gatewatch"
            " pauses` shows what the gate answers.",
        ),
        "refused": (
            "NOT PAUSED: gate {gate} refused the pause of {kind} {name}",
            "It may still be acting. Stop it at its source. The gate's answer is below and in"
            " `gatewatch pauses`; nothing is tried again.",
        ),
        "stuck": (
            "STILL PAUSED: gate {gate} refuses to let {kind} {name} go on",
            "Lift the pause at the gate itself, or ask again: `gatewatch resume {id}`.",
        ),
        "unresumed": (
            "STILL PAUSED: gate {gate} has not confirmed that {kind} {name} may go on",
            "gatewatch goes on asking. Look whether the gate can be reached: `gatewatch pauses`.",
        ),
    },
    "zh": {
        "unconfirmed": (
            "未暂停：网关 {gate} 一分钟内未确认暂停{kind} {name}",
            "它可能仍在运行，请从源头停止。gatewatch 会继续请求；"
            "用 `gatewatch pauses` 查看网关应答。",
        ),
        "refused": (
            "未暂停：网关 {gate} 拒绝暂停{kind} {name}",
            "它可能仍在运行，请从源头停止。网关应答见下文及 `gatewatch pauses`；不会再次请求。",
        ),
        "stuck": (
            "仍被暂停：网关 {gate} 拒绝恢复{kind} {name}",
            "请在网关上解除暂停，或再次请求：`gatewatch resume {id}`。",
        ),
        "unresumed": (
            "仍被暂停：网关 {gate} 未确认恢复{kind} {name}",
            "gatewatch 会继续请求。请检查网关是否可达：`gatewatch pauses`。",
        ),
    },
}
WITHHELD: dict[Language, tuple[str, str]] = {
    "en": (
        "NOT PAUSED automatically: {name}: {why}",
        "Decide yourself: `gatewatch pause AGENT`. Look first whether many alerts have one cause.",
    ),
    "zh": (
        "未自动暂停：{name}：{why}",
        "请自行判断：`gatewatch pause AGENT`。先看这些告警是否同一原因。",
    ),
}


def unheld(
    row: Mapping[str, Any], severity: str, delivery: str, route: Route, desk: Desk, now: datetime
) -> Message:
    """A pause (a row of `pauses` with its `trouble`) that a gate does not hold, or not end."""
    names = NAMES[route.language]
    title, respond = TROUBLE[route.language][row["trouble"]]
    said = {
        "gate": row["gate"], "kind": names[row["kind"]], "name": visible(row["name"]),
        "id": row["pause_id"],
    }  # fmt: skip
    status = f"HTTP {row['status']} " if row["status"] else ""
    facts = (
        (names["gate"], row["gate"]),
        (names["answer"], f"{status}{visible(row['answer'] or names['silence'])}"),
        (names["state"], names["held" if row["held"] else "open"]),
        (names["until"], moment(row["until"])),
        (names["asked"], visible(row["actor"])),
        (names["id"], row["pause_id"]),
    )
    alert = row["alert_id"] or row["pause_id"]
    return _message(alert, row["name"], row["tenant"], severity, delivery, title.format(**said),
                    respond.format(**said), facts, route, desk, now)  # fmt: skip


def withheld(
    alert: Mapping[str, Any], why: str, delivery: str, route: Route, desk: Desk, now: datetime
) -> Message:
    """An alert (its row) whose detector may pause by itself, and did not."""
    title, respond = WITHHELD[route.language]
    title = title.format(name=visible(alert["subject"]), why=visible(why))
    return _message(alert["alert_id"], alert["subject"], alert["tenant"], alert["severity"],
                    delivery, title, respond, (), route, desk, now)  # fmt: skip


def _message(
    alert: str, subject: str, tenant: str, severity: str, delivery: str, title: str, respond: str,
    facts: tuple[tuple[str, str], ...], route: Route, desk: Desk, now: datetime,
) -> Message:  # fmt: skip
    link = desk.public_url.rstrip("/")
    return Message(
        kind="open",
        alert=alert,
        delivery=delivery,
        at=moment(now),
        detector="containment",
        severity=severity,
        subject=cut(visible(subject), 200),
        title=cut(title, 200),
        facts=facts,
        evidence=(),
        respond=respond,
        link=f"{link}/alert?alert={alert}" if alert.startswith("al_") else f"{link}/alerts",
        language=route.language,
        tenant=tenant,
    )
