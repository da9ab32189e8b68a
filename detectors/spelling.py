"""One value as people read it in a title, a table or an option.

Reads: nothing. Writes: nothing. Next: detectors/detector.py.
"""

from datetime import timedelta

LONGEST = 200  # characters of one value


def many(count: float, word: str) -> str:
    """`1 minute`, `2 minutes`."""
    return f"{count:g} {word}" if count == 1 else f"{count:g} {word}s"


def spelled(value: object, zh: bool = False) -> str:
    """One value as people read it, on one line."""
    match value:
        case None:
            text = "?"
        case timedelta():
            minutes, rest = divmod(value.total_seconds(), 60)
            text = f"{value.total_seconds():g} 秒" if rest else f"{minutes:g} 分钟"
            if not zh:
                text = many(value.total_seconds(), "second") if rest else many(minutes, "minute")
        case float():
            text = f"{value:g}"
        case list() | tuple():
            text = ("、" if zh else ", ").join(spelled(each, zh) for each in value)
        case _:
            text = str(value)
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"
