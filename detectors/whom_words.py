"""The answer to "who would be told?" as text for a terminal, in which no log text can do harm.

Reads: nothing. Writes: nothing. Next: gatewatch/commands/route.py.
"""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from detectors.shorten import visible
from detectors.spelling import spelled


def render(found: Mapping[str, Any]) -> str:
    """What detectors/whom.py answers."""
    return "\n".join(map(visible, _lines(found))) + "\n"


def _lines(found: Mapping[str, Any]) -> Iterator[str]:
    alert = found["alert"]
    names = " ".join(filter(None, (alert["alert_id"], alert["severity"], alert["detector"])))
    yield f"{names}: {alert['subject'] or 'any subject'}{_details(alert)}"
    yield f"At {found['at']}: {found['clock']}"
    yield f"Told now: {', '.join(found['told']) or 'nobody'}"
    for each in found["quiet"]:
        yield f"  kept quiet ({each['what']}): {each['says']}"
    for each in found["state"]:
        yield f"  {each['what']}: {each['says']}"
    yield ""
    yield from _routes(found["routes"])
    yield "Receivers:" if found["receivers"] else "Receivers: none is configured."
    for each in found["receivers"]:
        yield f"  {each['receiver']} ({each['type']}): {_receiver(each)}"
    yield from _later(found)
    if found["sent"]:
        yield "Sent so far:"
    for each in found["sent"]:
        error = f": {each['error']}" if each["error"] else ""
        yield f"  {each['at']}  {each['receiver']}  {each['kind']}  {each['state']}{error}"


def _details(alert: Mapping[str, Any]) -> str:
    said = [f"agents {', '.join(alert['agents'])}"] if alert["agents"] else []
    said += [f"tenant {alert['tenant']}"] if alert["tenant"] else []
    said += [f"tags {', '.join(alert['tags'])}"] if alert["tags"] else []
    return f" ({'; '.join(said)})" if said else ""


def _routes(routes: list[dict[str, Any]]) -> Iterator[str]:
    if not routes:
        yield "Routes: there is no [routing], so each receiver's own filter decides."
        return
    yield "Routes:"
    for each in routes:
        name = f" {each['name']!r}" if each["name"] else ""
        decides = f", and decides: {', '.join(each['to'])}" if each["decides"] else ""
        goes_on = ", then on" if each["continue"] and each["state"] == "takes it" else ""
        why = f" ({'; '.join(each['why'])})" if each["why"] else ""
        route = f"{'  ' * each['depth']}{each['route']}{name}"
        yield f"  {route}: {each['state']}{decides}{goes_on}{why}"


def _receiver(each: Mapping[str, Any]) -> str:
    failing = f"; fails since {each['failing_since']}" if each["failing_since"] else ""
    if not each["named_by"]:
        return f"no route names it for this{failing}"
    takes = "" if each["wants"] else f"; its own filter refuses: it takes {each['filter']}"
    return f"named by {', '.join(each['named_by'])}{takes}{failing}"


def _later(found: Mapping[str, Any]) -> Iterator[str]:
    if found["escalate"]:
        yield "If nobody acknowledges it:"
    for each in found["escalate"]:
        after = spelled(timedelta(seconds=each["after_seconds"]))
        left_out = [name for name in each["to"] if name not in each["willing"]]
        refuse = f" (the own filter of {', '.join(left_out)} refuses)" if left_out else ""
        done = f", told at {each['told_at']}" if each["told_at"] else ""
        yield f"  after {after}, at {each['at']}: {', '.join(each['to'])}{refuse}{done}"
    if (last := found["fallback"]) is not None:
        refuse = "" if last["wants"] else f", whose own filter refuses: it takes {last['filter']}"
        yield f"If none of them can be reached: {last['receiver']}{refuse}"
