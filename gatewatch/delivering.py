"""HTTP: messages that wait or were given up, and once more.

`GET /v1/deliveries?state=dead&receiver=ops&alert=al_7f3a&limit=200`: role viewer; `state` may come
several times. `POST /v1/deliveries/retry`: `{"actor", "ids": [...] | "receiver": "ops" | "all":
true}`, role operator.
Reads: requests. Writes: through detectors/letters.py. Next: gatewatch/api.py.
"""

from typing import Any, Literal

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from detectors import letters
from gatewatch.access import allowed
from gatewatch.body import read_object
from gatewatch.parts import Parts, utc_now

MOST = 10_000  # messages in one answer


class Retry(msgspec.Struct, forbid_unknown_fields=True):
    """What may be asked for once more: exactly one of the three."""

    actor: str
    ids: tuple[str, ...] = ()
    receiver: str | None = None
    all: Literal[True] | None = None


class Delivering:
    """The routes over one set of parts."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def routes(self) -> list[Route]:
        return [
            Route("/v1/deliveries", self.listed, methods=["GET"]),
            Route("/v1/deliveries/retry", self.retry, methods=["POST"]),
        ]

    async def listed(self, request: Request) -> Response:
        """Messages, those that were given up first; without their texts."""
        allowed(request, self._parts.settings.tokens, "viewer")
        query = request.query_params
        states = query.getlist("state") or ["pending", "dead"]
        limit = query.get("limit", "200")
        if unknown := [each for each in states if each not in letters.STATES]:
            raise HTTPException(400, f"{unknown[0]!r} is no state: {', '.join(letters.STATES)}.")
        if not limit.isdecimal() or not 1 <= int(limit[:9]) <= MOST:
            raise HTTPException(400, f"'limit' is a number from 1 to {MOST}.")
        found = await run_in_threadpool(
            letters.listed, self._parts.store, states, query.get("receiver"), query.get("alert"),
            int(limit),
        )  # fmt: skip
        return _json({"deliveries": found})

    async def retry(self, request: Request) -> Response:
        """Dead letters are owed again. Asked for twice, the second does nothing."""
        allowed(request, self._parts.settings.tokens, "operator")
        try:
            asked = msgspec.convert(await read_object(request), Retry)
        except msgspec.ValidationError as error:
            raise HTTPException(400, f"{error}.") from None
        if (bool(asked.ids), asked.receiver is not None, bool(asked.all)).count(True) != 1:
            raise HTTPException(400, "name 'ids', or a 'receiver', or say 'all'.")
        if not asked.actor.strip():
            raise HTTPException(400, "'actor' is missing.")
        return _json(await run_in_threadpool(again, self._parts, asked))


def again(parts: Parts, asked: Retry) -> dict[str, Any]:
    """Do it on the parts themselves. Raises ConfigError for an id that is no dead letter's."""
    return letters.retry(
        parts.store, parts.lander, parts.desk.names, asked.actor, utc_now(), asked.ids,
        asked.receiver,
    )  # fmt: skip


def _json(value: object) -> Response:
    return Response(msgspec.json.encode(value), media_type="application/json")
