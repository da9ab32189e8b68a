"""Who is let in: the token of a request, in whichever header its sender can write it.

Roles by token: writer (push), viewer (read), operator (act, and read). A writer reads nothing.
Without tokens everything is allowed, and then only from programs on this machine.
Reads: requests, `[[tokens]]`. Writes: nothing. Next: gatewatch/intake.py.
"""

import base64
import binascii
import hmac
import re
from collections.abc import Sequence

from starlette.exceptions import HTTPException
from starlette.requests import Request

from ingest.config import Token

LOCAL = {"127.0.0.1", "localhost", "[::1]"}
RANK = {"viewer": 1, "operator": 2}


def allowed(request: Request, tokens: Sequence[Token], role: str) -> Token | None:
    """The token that lets this request in; None where no tokens are set.

    Raises HTTPException: 401 without a known token, 403 for one of another role.
    """
    if not tokens:  # then a browser page of another origin must not get in either
        host = re.sub(r":\d*$", "", request.headers.get("host", "").lower())
        if host not in LOCAL or "origin" in request.headers:
            raise HTTPException(403, "without tokens only programs on this machine may ask.")
        return None
    shown = given(request)
    for token in tokens:
        if hmac.compare_digest(token.token.reveal.encode(), shown):
            if token.role == role or RANK.get(token.role, 0) >= RANK.get(role, 9):
                return token
            raise HTTPException(403, f"the token {token.name!r} is a {token.role}'s.")
    raise HTTPException(401, "no such token.", {"WWW-Authenticate": "Bearer"})


def given(request: Request) -> bytes:
    """The token as it was sent: as a bearer, as the password of a URL, or as an API key."""
    scheme, _, value = request.headers.get("authorization", "").strip().partition(" ")
    if scheme.lower() == "bearer":
        return value.strip().encode()
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(value, validate=True).partition(b":")[2]
        except (binascii.Error, ValueError):
            return b""
    return request.headers.get("x-api-key", "").strip().encode()
