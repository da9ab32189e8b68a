"""Text from logs inside Markdown: shown as it is, with no power over the message around it.

What opens emphasis, code, links, pictures or tables gets a backslash; what opens a tag, a mention,
an address or a block is broken by a character without width, since not every client knows the
backslash there. Letters, digits and the `_` inside a name stay as they are.
Reads: nothing. Writes: nothing. Next: detectors/receivers/__init__.py.
"""

import re

from detectors.shorten import plain, unlinked

BREAK = "\u200b"
BROKEN = {"<": f"<{BREAK}", "@": f"@{BREAK}"}
SIGNS = str.maketrans({char: f"\\{char}" for char in "\\`*[]~|"} | BROKEN)
FENCED = str.maketrans({"`": f"`{BREAK}"} | BROKEN)
EDGE = re.compile(r"(?<![^\W_])_|_(?![^\W_])")  # the one inside a name opens nothing
BLOCK = re.compile(r"#|>|[+-](?=\s)|[-=]{2}|\d+[.)](?=\s|$)")  # heading, quote, list, rule


def escape(text: str) -> str:
    """One line of text as Markdown that shows it."""
    shown = unlinked(EDGE.sub(r"\\_", plain(text).strip().translate(SIGNS)))
    return BREAK + shown if BLOCK.match(shown) else shown


def fenced(text: str) -> str:
    """One line of text for a block of code, where only the end of the block is markup."""
    return plain(text).translate(FENCED)
