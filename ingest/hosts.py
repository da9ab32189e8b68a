"""One spelling for each host, whatever an agent wrote: the same rules as a browser's.

Reads: nothing. Writes: nothing. Next: ingest/policy.py.
"""

import ipaddress
import re
from functools import lru_cache
from urllib.parse import unquote_to_bytes

import idna

LONGEST_HOST = 1_000  # characters as written: a name has at most 253, each escaped at worst
# Any number of slashes, like a browser.
SPECIAL = re.compile(r"(?:https?|wss?|ftp):[/\\]*", re.IGNORECASE)
SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://|//", re.IGNORECASE)
AUTHORITY_END = re.compile(r"[/?#\\]")
CONTROL_OR_SPACE = "".join(map(chr, range(0x21)))
IGNORED = str.maketrans("", "", "\t\r\n")  # a browser drops them anywhere in an address
LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
NUMBER = re.compile(r"0[xX][0-9a-fA-F]*|[0-9]+")


def canonical_host(text: str) -> str | None:
    """The host in a host, a host with a port, or a URL. None: there is none, or no reader can tell.

    Lower case, punycode, no port, user or final dot; an IP address in its one spelling.
    Never raises.
    """
    host = _authority(text.strip(CONTROL_OR_SPACE).translate(IGNORED))
    return None if host is None or len(host) > LONGEST_HOST else _canonical(host)


@lru_cache(maxsize=4096)  # a fleet talks to few hosts in many addresses
def _canonical(host: str) -> str | None:
    if host.startswith("["):
        inside, closed, port = host[1:].partition("]")
        return _v6(inside) if closed and _port(port) else None
    if host.count(":") > 1:
        return _v6(host)
    name, colon, port = host.partition(":")
    if not _port(colon + port):
        return None
    try:
        name = unquote_to_bytes(name).decode() if "%" in name else name
        return _name(name if name.isascii() else idna.uts46_remap(name, std3_rules=False))
    except ValueError:  # UnicodeError and every idna error are ValueErrors
        return None


def _authority(text: str) -> str | None:
    """What stands between the scheme and the path, without the user."""
    start = SPECIAL.match(text) or SCHEME.match(text)
    rest = text[start.end() :] if start else text
    end = AUTHORITY_END.search(rest)
    found = rest[: end.start()] if end else rest
    if end and end[0] == "\\" and "@" in re.split(r"[/?#]", rest, maxsplit=1)[0][end.start() :]:
        return None  # http://a.example\@b.example: half of the world's readers go to each
    return found.rpartition("@")[2]


def _port(text: str) -> bool:
    """Nothing, or a colon with at most a number behind it."""
    return not text or (
        text[0] == ":" and (not text[1:] or (text[1:].isascii() and text[1:].isdigit()))
    )


def _v6(text: str) -> str | None:
    try:
        found = ipaddress.IPv6Address(text.partition("%")[0])
    except ValueError:
        return None
    return str(found.ipv4_mapped or found)


def _name(host: str) -> str | None:
    labels = host.removesuffix(".").lower().split(".")
    if NUMBER.fullmatch(labels[-1]):
        return _v4(labels)
    ascii_labels = [label if label.isascii() else _punycode(label) for label in labels]
    name = ".".join(ascii_labels)
    if len(name) > 253 or not all(LABEL.fullmatch(label) for label in ascii_labels):
        return None
    return name


def _punycode(label: str) -> str:
    """What IDNA 2008 forbids but browsers look up, emoji above all, is encoded as it is."""
    try:
        return idna.alabel(label).decode()
    except idna.IDNAError:
        return "xn--" + label.encode("punycode").decode()


def _v4(parts: list[str]) -> str | None:
    """1 to 4 numbers, each decimal, octal or hexadecimal; the last one fills what is left."""
    if len(parts) > 4 or not all(NUMBER.fullmatch(part) for part in parts):
        return None
    if any(len(part) > 40 for part in parts):  # int() of endless digits is slow, and too large
        return None
    try:
        numbers = [_number(part) for part in parts]
    except ValueError:  # 08 is no octal number
        return None
    if any(number > 255 for number in numbers[:-1]) or numbers[-1] >= 256 ** (5 - len(parts)):
        return None
    total = numbers[-1] + sum(n << (8 * (3 - i)) for i, n in enumerate(numbers[:-1]))
    return str(ipaddress.IPv4Address(total))


def _number(text: str) -> int:
    if text[:2] in ("0x", "0X"):
        return int(text[2:] or "0", 16)
    return int(text, 8) if len(text) > 1 and text[0] == "0" else int(text)
