"""HTTP: who would be told of an alert, and why. Role viewer.

`GET /v1/alerts/{alert}/route`, and `GET /v1/route?detector=NAME` of one that is only supposed; each
takes `detector`, `severity`, `agent`, `subject`, `tenant` and `at` to suppose something else.
Reads: requests. Writes: nothing. Next: detectors/whom.py.
"""

from datetime import UTC
from typing import Any

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from detectors.hushed import Office
from detectors.whom import Supposed, whom
from gatewatch.access import allowed
from gatewatch.parts import Parts, utc_now


def office(parts: Parts) -> Office:
    """All that decides in this service who is told."""
    return Office(parts.store, parts.desk, parts.detectors, parts.settings.telling, parts.windows)


class RoutingAnswers:
    """Answers over one set of parts."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def routes(self) -> list[Route]:
        return [
            Route("/v1/alerts/{alert}/route", self.route, methods=["GET"]),
            Route("/v1/route", self.route, methods=["GET"]),
        ]

    async def route(self, request: Request) -> Response:
        allowed(request, self._parts.settings.tokens, "viewer")
        try:
            asked = msgspec.convert(dict(request.query_params), Supposed)
        except msgspec.ValidationError as error:
            raise HTTPException(400, f"{error}.") from None
        if asked.at and asked.at.tzinfo is None:
            asked = msgspec.structs.replace(asked, at=asked.at.replace(tzinfo=UTC))
        found = await run_in_threadpool(self._found, request.path_params.get("alert"), asked)
        return Response(msgspec.json.encode(found), media_type="application/json")

    def _found(self, alert: str | None, asked: Supposed) -> dict[str, Any]:
        try:
            return whom(office(self._parts), alert, asked, utc_now())
        except (OverflowError, UnicodeError):
            raise HTTPException(400, "a time, or a text, that nothing can have.") from None
