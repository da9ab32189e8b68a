"""HTTP, lines in: a body becomes a batch, and is answered when it is durable, not before.

The paths come from the headers of the adapters; `/v1/ingest/{source}` takes what has none. The
answer is the one that the senders of a format expect: see docs/sources/http.md.
Reads: requests. Writes: through ingest/land.py. Next: gatewatch/access.py, gatewatch/body.py.
"""

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from gatewatch import access
from gatewatch.answers import Answers, answers_of
from gatewatch.body import Room, Share, read_body
from gatewatch.disk import REFUSALS, Disk
from gatewatch.parts import Parts, utc_now
from ingest import adapter
from ingest.adapter import Header
from ingest.apply import Landed
from ingest.batch import Batch
from ingest.config import ConfigError, Token, convert, header, nearest

WAITING = 64  # batches that may wait for the writer; then senders are asked to come back
LANDING = 32  # threads that read, parse and land them
AGAIN = {"Retry-After": "5"}  # seconds, when lines cannot be kept at all
ANY = "/v1/ingest/"


@dataclass(frozen=True)
class Target:
    """Where the lines of one request go, and who sent them."""

    source: str
    adapter: str
    zone: str
    agent: str | None


class Intake:
    """The routes that take lines. `landed` is called when some have come."""

    def __init__(self, parts: Parts, landed: Callable[[], None], disk: Disk) -> None:
        self._parts, self._landed, self._disk = parts, landed, disk
        self._headers = _headers(parts)
        limits = parts.settings.limits
        self._room = Room(max(limits.waiting_bytes, 2 * limits.body_bytes))
        self._waiting = 0
        self._threads = ThreadPoolExecutor(LANDING, "landing")

    def routes(self) -> list[Route]:
        paths = _paths(self._headers)
        pushed = [
            Route(path, self._pushed(name), methods=["POST"])
            for path, name in paths.items()
            if not path.startswith(ANY)
        ]
        return [*pushed, Route(f"{ANY}{{source}}", self.ingest, methods=["POST"])]

    async def ingest(self, request: Request) -> Response:
        """Lines of any configured source by its adapter, or of any adapter."""
        token = self._token(request)
        name, known = request.path_params["source"], self._parts.settings.sources
        if name in known:
            if token and token.source not in (None, name):
                raise HTTPException(403, f"this token writes to {token.source!r} only.")
            return await self._answer(request, self._target(name, known[name].adapter, token))
        if name not in self._headers:
            if token and token.source:
                raise HTTPException(403, f"this token writes to {token.source!r} only.")
            raise HTTPException(404, f"no source {name!r}.{nearest(name, known)}")
        return await self._answer(request, self._by_format(name, token))

    def _pushed(self, name: str) -> Callable[[Request], object]:
        async def take(request: Request) -> Response:
            return await self._answer(request, self._by_format(name, self._token(request)))

        return take

    def _token(self, request: Request) -> Token | None:
        return access.allowed(request, self._parts.settings.tokens, "writer")

    def _by_format(self, name: str, token: Token | None) -> Target:
        """The token's own source, else the only one with that adapter, else the adapter's name."""
        if token and token.source:
            return self._target(token.source, name, token)
        sources = self._parts.settings.sources
        having = [source for source, each in sources.items() if each.adapter == name]
        return self._target(having[0] if len(having) == 1 else name, name, token)

    def _target(self, source: str, name: str, token: Token | None) -> Target:
        known = self._parts.settings.sources.get(source)
        return Target(source, name, known.zone if known else "UTC", token.agent if token else None)

    async def _answer(self, request: Request, target: Target) -> Response:
        """What became of the lines, or why they were not kept, in the words of their format."""
        answers = answers_of(target.adapter)
        try:
            work = asyncio.ensure_future(self._land(request, target, answers))
            done, _ = await asyncio.wait({work}, timeout=answers.patience)
            if not done:  # it goes on, but nobody is told that it was kept
                work.add_done_callback(_forgotten)
                raise HTTPException(503, "not kept in time.", AGAIN)
            landed = work.result()
        except HTTPException as error:
            return answers.refused(request, error.status_code, error.detail, error.headers)
        except ClientDisconnect:
            return Response(status_code=400)  # nobody hears it
        except ConfigError as error:
            return answers.refused(request, 400, str(error), None)
        except REFUSALS:  # a writer is not told why: it reads nothing
            return answers.refused(request, 503, "lines cannot be kept now.", AGAIN)
        return answers.kept(request, landed)

    async def _land(self, request: Request, target: Target, answers: Answers) -> Landed:
        self._disk.refuse()
        if self._waiting >= WAITING:
            raise HTTPException(429, "the writer is behind.", {"Retry-After": "1"})
        share = Share(self._room)
        self._waiting += 1
        try:
            body = await read_body(request, self._parts.settings.limits.body_bytes, share)
            sent = Sent(body, request.headers, f"http:{_peer(request)}")
            loop = asyncio.get_running_loop()
            landed = await loop.run_in_executor(self._threads, self._keep, sent, target, answers)
        finally:
            self._waiting -= 1
            share.give()
        self._landed()
        return landed

    def _keep(self, sent: "Sent", target: Target, answers: Answers) -> Landed:
        format = self._headers[target.adapter]
        lines = answers.lines(sent.body, sent.headers, format, self._parts.settings.limits)
        key = sent.headers.get("idempotency-key") or answers.key
        if key is not None:  # one that is used again for other lines must not lose them, nor must
            # the lines that another adapter could not read
            key += f":{target.adapter}:{hashlib.sha256(sent.body).hexdigest()}{target.agent or ''}"
        batch = Batch(
            target.source, target.adapter, lines, key, sent.pos, zone=target.zone,
            agent=target.agent,
        )  # fmt: skip
        try:
            return self._parts.lander.land(batch, utc_now())
        except REFUSALS as error:
            self._disk.failed(error)
            raise


@dataclass(frozen=True)
class Sent:
    """A request whose body has come whole."""

    body: bytes
    headers: Mapping[str, str]
    pos: str


def _headers(parts: Parts) -> dict[str, Header]:
    """What every adapter says of itself. Raises ConfigError."""
    folder, found = parts.settings.adapters, dict[str, Header]()
    for name in adapter.names(folder):
        path = adapter.find(name, "adapters_folder", folder)
        if path.suffix == ".sql":
            found[name] = convert(header(path)[0], Header, str(path))
        else:
            with parts.store.writing() as db:
                found[name] = adapter.load(name, db, str(path), folder).header
    return found


def _paths(headers: Mapping[str, Header]) -> dict[str, str]:
    """Path to adapter. Raises ConfigError when two claim one path."""
    found: dict[str, str] = {}
    for name, each in headers.items():
        for path in each.paths:
            if not path.startswith("/") or "{" in path:
                raise ConfigError(f"adapter {name}: paths: {path!r} is no plain path.")
            if found.setdefault(path, name) != name:
                raise ConfigError(f"adapter {name}: paths: {path} is {found[path]}'s already.")
    return found


def _peer(request: Request) -> str:
    return request.client.host if request.client else "unknown"


def _forgotten(work: asyncio.Future[Landed]) -> None:
    """Nobody waits for it any more: look at its error, so that none is reported as lost."""
    if not work.cancelled():
        work.exception()
