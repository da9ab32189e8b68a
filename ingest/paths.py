"""The JSON paths of a mapping: checked, then read out of a line all at once.

Reads: nothing. Writes: nothing. Next: ingest/mapping.py.
"""

import re

from ingest.config import ConfigError

Scalar = str | int | float | bool
# A path: from the element, `$`, or, below an envelope, from the whole line, `^`.
PATH = re.compile(r'[$^](?:\.[\w@:/-]+|\."[^"\\*]+"|\[\d+\])*')
STEP = re.compile(r'\.([\w@:/-]+)|\."([^"]+)"|(\[\d+\])')
WRITE = 'Write $.name, $.outer.inner, $.list[0] or $."a name with spaces".'


class Paths:
    """The paths that a mapping reads, and where in the lists of values each will be."""

    def __init__(self, enveloped: bool) -> None:
        self.enveloped = enveloped
        self.of: dict[str, list[str]] = {"$": [], "^": []}

    def text(self, path: str, where: str) -> str:
        return self._at("text", path, where)

    def json(self, path: str, where: str) -> str:
        return self._at("json", path, where)

    def _at(self, kind: str, path: str, where: str) -> str:
        normal = checked(path, where)
        if normal[0] == "^" and not self.enveloped:
            raise ConfigError(f"{where}: {path!r} reads the whole line, and there is no envelope.")
        known = self.of[normal[0]]
        if normal not in known:
            known.append(normal)
        part = "item" if normal[0] == "$" else "line"
        return f"{part}_{kind}[{known.index(normal) + 1}]"

    def items(self, envelope: str | None) -> str:
        """The SELECT from `lines` to records: a line is one, or an array in it holds them."""
        at = "ledger_seq, source, received_at"
        if envelope is None:
            return f"SELECT {at}, 1 AS item, {self._lists('$', 'doc')} FROM lines"  # noqa: S608 - literals
        where = literal("$" + envelope[1:], "envelope")
        return (
            f"SELECT {at}, item, line_text, line_json, {self._lists('$', 'element')} FROM ("  # noqa: S608 - literals
            f"SELECT {at}, {self._lists('^', 'doc')}, unnest(arr(doc -> {where})) AS element,"
            f" generate_subscripts(arr(doc -> {where}), 1) AS item FROM lines)"
        )

    def _lists(self, root: str, doc: str) -> str:
        """The SQL that takes all paths below `root` out of `doc`: two passes, however many."""
        part = "item" if root == "$" else "line"
        paths = ", ".join(literal("$" + path[1:], "") for path in self.of[root] or [root])
        return (
            f"json_extract_string({doc}, [{paths}]) AS {part}_text,"
            f" json_extract({doc}, [{paths}]) AS {part}_json"
        )


def checked(path: str, where: str) -> str:
    """A path with every name in quotes. Raises ConfigError for what is none."""
    if not PATH.fullmatch(path) or not path.isprintable():
        better = f"$.{path.strip('$^. ')}"
        hint = f" Did you mean {better!r}?" if PATH.fullmatch(better) else f" {WRITE}"
        raise ConfigError(f"{where}: {path!r} is no path.{hint}")
    steps = STEP.findall(path)
    return path[0] + "".join(index or f'."{bare or quoted}"' for bare, quoted, index in steps)


def literal(value: Scalar, where: str) -> str:
    """A value as a SQL literal."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if not text.isprintable():
        raise ConfigError(f"{where}: {text!r} holds characters that cannot be printed.")
    return "'" + text.replace("'", "''") + "'"
