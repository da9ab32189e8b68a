"""Text from logs, made safe to show and short enough to send, without breaking a character.

Reads: nothing. Writes: nothing. Next: detectors/phrases.py.
"""

import json
import re
import unicodedata
from collections.abc import Callable, Sequence

ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])")
BIDI = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
JOINERS = "\u200c\u200d"
ADDRESS = re.compile(r"(?<=\w)(?=://)|(?<=\bwww)(?=\.)", re.IGNORECASE)
MARK = "…"  # of what has been cut
NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def plain(text: str) -> str:
    """One line: no colour codes, no line ends, no reversed text; what is invisible is named."""
    text = ANSI.sub("", text)
    if text.isascii() and text.isprintable():
        return text
    return "".join(_seen(text, place, " ") for place in range(len(text)))


def visible(text: str) -> str:
    """One line in which every control shows as its escape: nothing of a value is hidden."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_seen(text, place, None) for place in range(len(text)))


def cut(text: str, room: int, size: Callable[[str], int] = len) -> str:
    """The longest beginning that takes `room` by `size`, mark included, in whole graphemes.

    `size` must grow with the text. No room for the mark gives an empty text.
    """
    if size(text) <= room:
        return text
    if size(MARK) > room:
        return ""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if size(text[:middle] + MARK) <= room else (low, middle - 1)
    return text[: whole(text, low)] + MARK


def escaped(
    text: str, safe: Callable[[str], str], room: int, size: Callable[[str], int] = len
) -> str:
    """One line, made `safe`, that takes `room` then. Cut before: no escape is left in half."""
    return safe(cut(plain(text), room, lambda begun: size(safe(begun))))


def unlinked(text: str) -> str:
    """An invisible blank in each address: no service makes a link of what a log says."""
    return ADDRESS.sub("\u200b", text)


def wire(value: object) -> bytes:
    """JSON as it is sent, so that it can be measured."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def squeeze(text: str, room: int) -> str:
    """At most `room` code points: the middle goes, since both ends of a value tell something."""
    if len(text) <= room:
        return text
    head = whole(text, room * 2 // 3)
    tail = len(text) - (room - head - 1)
    while tail < len(text) and not boundary(text, tail):
        tail += 1
    return f"{text[:head]}…{text[tail:]}"


def whole(text: str, end: int) -> int:
    """The last place at or before `end` where no grapheme is cut."""
    while 0 < end < len(text) and not boundary(text, end):
        end -= 1
    return end


def boundary(text: str, at: int) -> bool:
    """May text be cut before position `at`? The rules of UAX 29 that chat text meets."""
    before, after = text[at - 1], text[at]
    if (before, after) == ("\r", "\n") or before == "\u200d" or _extends(after):
        return False
    if _flag(before) and _flag(after):  # flags are pairs: an even number of letters before
        start = at
        while start > 0 and _flag(text[start - 1]):
            start -= 1
        return (at - start) % 2 == 0
    jamo = "\u1100" <= before <= "\u11ff" or "\uac00" <= before <= "\ud7a3"
    return not (jamo and "\u1160" <= after <= "\u11ff")


def fit(
    lines: Sequence[str],
    total: int,
    room: int,
    size: Callable[[str], int],
    rest: Callable[[int, int], str],
) -> list[str]:
    """The first of `lines`, of `total` that there are, that `room` holds by `size` of each.

    `rest(shown, total)` is the line that ends a list from which some are missing.
    """
    sizes = list(map(size, lines))
    if len(lines) == total and sum(sizes) <= room:
        return list(lines)
    room -= size(rest(total, total))
    shown = 0
    while shown < len(lines) and sizes[shown] <= room:
        room -= sizes[shown]
        shown += 1
    return [*lines[:shown], rest(shown, total)]


def utf16(text: str) -> int:
    """UTF-16 units: how chat services written in JavaScript count characters."""
    return len(text) + sum(char > "\uffff" for char in text)


def _seen(text: str, place: int, control: str | None) -> str:
    """One character as it may be shown. `control` stands for a control; None: its escape."""
    char = text[place]
    if char.isprintable():
        return char
    if char in JOINERS and 0 < place < len(text) - 1 and text[place + 1] > "\x7f":
        return char  # part of an emoji or of a word; beside ASCII it only hides
    category = unicodedata.category(char)
    if control is None:
        code = ord(char)
        return NAMED.get(char) or (f"\\x{code:02x}" if code < 256 else f"<U+{code:04X}>")
    if category in ("Cc", "Zl", "Zp", "Zs"):
        return control
    return "" if char in BIDI else f"<U+{ord(char):04X}>"


def _extends(char: str) -> bool:
    """Does it belong to the character before: accent, joiner, variant, skin tone, tag?"""
    return (
        unicodedata.category(char) in ("Mn", "Me", "Mc")
        or char in JOINERS
        or "\U0001f3fb" <= char <= "\U0001f3ff"
        or "\U000e0020" <= char <= "\U000e007f"
    )


def _flag(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"
