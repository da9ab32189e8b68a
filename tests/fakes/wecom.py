"""WeCom's group bot, as https://developer.work.weixin.qq.com/document/path/99110 has it.

A text in `markdown` calls people by `<@userid>`; `markdown_v2` does not, but here both count: no
client is trusted to be the newest.
"""

import re
from typing import Any

import httpx

from tests import fakes
from tests.kit_markdown import draw

LARGEST = {"text": 2_048, "markdown": 4_096, "markdown_v2": 4_096}  # bytes of the content
NAMES = {"type": "array", "items": {"type": "string"}}
SCHEMAS = {
    "text": fakes.table(
        {"content": fakes.text()}, mentioned_list=NAMES, mentioned_mobile_list=NAMES
    ),
    "markdown": fakes.table({"content": fakes.text()}),
    "markdown_v2": fakes.table({"content": fakes.text()}),
}
CALLED = re.compile(r"<@[^>]*>")


class Fake(fakes.Fake):
    """A bot with one key."""

    limits = ((20, 60.0),)

    def take(self, request: httpx.Request) -> fakes.Seen:
        url, own = request.url, httpx.URL(self.options.address)
        if (request.method, url.host, url.path) != ("POST", own.host, "/cgi-bin/webhook/send"):
            raise fakes.NoError("no such page", httpx.Response(404, text="<html>404</html>"))
        if url.query != own.query:
            raise _no(93000, "invalid webhook url, hint: [1767225600_1], from ip: 203.0.113.7")
        if self.crowded():
            raise _no(45009, "api freq out of limit, hint: [1767225600_2]")
        try:
            return self._read(fakes.json_of(request))
        except ValueError as error:
            raise _no(40008, f"invalid message type: {error}") from error

    def yes(self, seen: fakes.Seen) -> httpx.Response:
        return httpx.Response(200, json={"errcode": 0, "errmsg": "ok"})

    def _read(self, body: Any) -> fakes.Seen:
        kind = body.get("msgtype") if isinstance(body, dict) else None
        if kind not in SCHEMAS:
            raise ValueError(f"msgtype {kind!r}")
        fakes.check(body, fakes.table({"msgtype": {}, kind: SCHEMAS[kind]}))
        content = body[kind]["content"]
        if len(content.encode()) > LARGEST[kind]:
            raise _no(40058, f"{kind}.content exceed max length {LARGEST[kind]}")
        named = (
            *body[kind].get("mentioned_list", ()),
            *body[kind].get("mentioned_mobile_list", ()),
        )
        if kind == "text":
            return fakes.Seen(self.now, content, (*named, *CALLED.findall(content)))
        drawn = draw(content, escapes=kind == "markdown_v2", fences=kind == "markdown_v2")
        return fakes.Seen(
            self.now,
            drawn.text,
            (*named, *CALLED.findall(content)),
            drawn.links,
            (*drawn.tags, *drawn.headings, *drawn.strong),
        )


def _no(code: int, text: str) -> fakes.NoError:
    answer = httpx.Response(200, json={"errcode": code, "errmsg": text})
    return fakes.NoError(f"{code}: {text}", answer)
