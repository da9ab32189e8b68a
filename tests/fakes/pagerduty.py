"""PagerDuty's Events API v2, as https://developer.pagerduty.com/docs/send-alert-event has it.

What it answers 202 to need not have an effect: an acknowledgement of what is not open is dropped.
"""

from typing import Any

import httpx

from tests import fakes

LARGEST = 512 * 1024  # bytes of an event
FLAT = {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}}
LINK = fakes.table({"href": {"type": "string", "pattern": r"^https?://\S+$"}}, text=fakes.text())
PAYLOAD = fakes.table(
    {
        "summary": fakes.text(1_024),
        "severity": {"enum": ["critical", "error", "warning", "info"]},
        "source": fakes.text(),
    },
    timestamp={"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d"},
    component={"type": "string"},
    group={"type": "string"},
    custom_details=FLAT,
    **{"class": {"type": "string"}},
)
EVENT = fakes.table(
    {
        "routing_key": {"type": "string", "minLength": 32, "maxLength": 32},
        "event_action": {"enum": ["trigger", "acknowledge", "resolve"]},
    },
    dedup_key=fakes.text(255),
    client=fakes.text(),
    client_url={"type": "string", "pattern": r"^https?://\S+$"},
    links={"type": "array", "items": LINK},
    images={"type": "array"},
    payload=PAYLOAD,
)


class Fake(fakes.Fake):
    """One service with one integration. `incidents`: what is open, by key, and who rings for it."""

    limits = ((120, 60.0),)

    def __init__(self, options: Any = None) -> None:
        super().__init__(options)
        self.incidents: dict[str, str] = {}  # dedup_key -> triggered | acknowledged
        self.history: list[tuple[str, str]] = []  # what had an effect: action and key
        self.rang = 0

    def take(self, request: httpx.Request) -> fakes.Seen:
        if (request.method, str(request.url)) != ("POST", self.options.address):
            raise fakes.NoError("no such page", httpx.Response(404))
        if self.crowded():
            raise fakes.NoError("too many", httpx.Response(429))
        if len(request.content) > LARGEST:
            raise _invalid("Event is larger than 512 KB")
        try:
            event = fakes.json_of(request)
            fakes.check(event, EVENT)
        except ValueError as error:
            raise _invalid(str(error)) from error
        if event["routing_key"] != self.options.routing_key.reveal:
            raise _invalid("'routing_key' is not that of an integration")
        return self._apply(event)

    def yes(self, seen: fakes.Seen) -> httpx.Response:
        said = {"status": "success", "message": "Event processed", "dedup_key": seen.handle}
        return httpx.Response(202, json=said)

    def _apply(self, event: Any) -> fakes.Seen:
        action, key = event["event_action"], event.get("dedup_key")
        if action == "trigger":
            if "payload" not in event:
                raise _invalid("'payload' is missing or blank")
            self.rang += key not in self.incidents
            self.incidents.setdefault(key, "triggered")
        elif key is None:
            raise _invalid("'dedup_key' is missing or blank")
        elif key not in self.incidents:  # dropped, and nobody is told
            return fakes.Seen(at=self.now, text=f"{key} (dropped)", handle=key)
        elif action == "acknowledge":
            self.incidents[key] = "acknowledged"
        else:
            del self.incidents[key]
        self.history.append((action, key))
        payload = event.get("payload", {})
        details = payload.get("custom_details", {})
        own = {name: value for name, value in payload.items() if isinstance(value, str)}
        shown = [f"{name}: {value}" for name, value in (own | details).items()]
        links = [each["href"] for each in event.get("links", [])]
        return fakes.Seen(
            at=self.now,
            text="\n".join([key, *shown]),
            links=(event.get("client_url", ""), *links),
            handle=key,
        )


def _invalid(why: str) -> fakes.NoError:
    said = {"status": "invalid event", "message": "Event object is invalid", "errors": [why]}
    return fakes.NoError(why, httpx.Response(400, json=said))
