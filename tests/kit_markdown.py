"""What a chat client makes of Markdown: the text that people read, and what a click would open.

No client's parser is the same as another's, so this one takes whatever any of them might: a link,
a picture, a tag, a mention, a heading or emphasis that text from a log smuggled in is found here.
"""

import re
from dataclasses import dataclass

LINK = re.compile(r"(?<!\\)(!?)(?<!\\)\[((?:\\.|[^\[\]\\])*)\]\(((?:\\.|[^()\\\s])*)[^)]*\)")
TAG = re.compile(r"(?<!\\)<(?=[a-zA-Z/!@])[^<>]*>")
MENTION = re.compile(r"(?<!\\)(?<![\w.])@(\w+)")
HEADING = re.compile(r"^\s{0,3}(?<!\\)#{1,6}\s+(.*)$", re.MULTILINE)
STRONG = re.compile(r"(?<!\\)(\*\*|__|~~)(?=\S)(.+?)(?<=[^\s\\])\1")
FENCE = re.compile(r"^```[^\n`]*\n(.*?)\n```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"(?<![\\`])`([^`\n]+)`(?!`)")
QUOTE = re.compile(r"^\s{0,3}>+ ?", re.MULTILINE)
ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")


@dataclass(frozen=True)
class Drawn:
    """A Markdown text as a client shows it."""

    text: str
    links: tuple[str, ...] = ()  # pictures too: a client fetches them unasked
    tags: tuple[str, ...] = ()
    mentions: tuple[str, ...] = ()
    headings: tuple[str, ...] = ()
    strong: tuple[str, ...] = ()
    code: tuple[str, ...] = ()


def draw(source: str, escapes: bool = True, fences: bool = False) -> Drawn:
    """`escapes`: the client knows the backslash; `fences`: it knows blocks of code."""
    code: list[str] = []

    def keep(match: re.Match[str]) -> str:
        code.append(match.group(1))
        return f"\0{len(code) - 1}\0"

    text = FENCE.sub(keep, source) if fences else source
    text = CODE.sub(keep, text)
    links = tuple(ESCAPE.sub(r"\1", found[2]) for found in LINK.findall(text))
    text = LINK.sub(r"\2", text)
    tags, mentions = tuple(TAG.findall(text)), tuple(MENTION.findall(text))
    headings, strong = tuple(HEADING.findall(text)), tuple(each[1] for each in STRONG.findall(text))
    text = QUOTE.sub("", STRONG.sub(r"\2", HEADING.sub(r"\1", TAG.sub("", text))))
    text = ESCAPE.sub(r"\1", text) if escapes else text
    for place, each in enumerate(code):
        text = text.replace(f"\0{place}\0", each)
    return Drawn(text, links, tags, mentions, headings, strong, tuple(code))
