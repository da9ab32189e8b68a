"""What a secret looks like: names of keys, and shapes of tokens inside any text.

Reads: nothing. Writes: nothing. Next: ingest/redact.py.
"""

import re
from collections.abc import Callable
from functools import lru_cache

Mask = Callable[[str], str]  # a secret -> what stands in its place

_WORDS = (
    r"[a-z]{0,20}pass(?:word|wd|phrase)s?|pwd|[a-z]{0,20}secrets?|api[-_ ]?keys?"
    r"|(?:secret[-_ ]?)?access[-_ ]?keys?|(?:private|secret|account)[-_ ]?keys?"
    r"|authorization|cookies?|credentials?"
    r"|(?:auth|access|refresh|session|id|api|bearer|bot|csrf|xsrf)?token"
)
_SECRET_KEY = re.compile(rf"(?:^|_)(?:{_WORDS})$", re.ASCII | re.I)
_CARD_KEY = re.compile(r"(?:^|_)(?:card|pan|card_?number|card_?no|cc)$", re.I)
_ID_KEY = re.compile(
    r"(?:^|_)(?:u?u?ids?|seq|ts|time(?:stamp)?|nano|hash|digest|sha\d+|fingerprint|etag)$", re.I
)
_OPEN_KEY = re.compile(r"(?:status|state|(?:create|creation|expir)[a-z_]*)", re.I)
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
# Marks that other programs leave in the place of a secret, placeholders, and words that are none.
_NOTHING = re.compile(
    r"[\[<(*]{0,4}\s?(?:redacted|removed|masked|filtered|hidden_due)\b.{0,60}|redacted-by.{0,60}"
    r"|none|null|nil|true|false|undefined|yes|no|[-*.xX?]{3,}|[{}<>$(\[]{1,3}|-?"
    r"|\$\{?[A-Z_][A-Z0-9_]*\}?|\{\{?\s?[\w.]+\s?\}?\}|<[\w .-]+>|%\(\w+\)s",
    re.I | re.DOTALL,
)
MARKER = re.compile(r"\[redacted:[0-9a-f]{12}\]")
_SCHEME = re.compile(r"((?:Bearer|Basic|Token|Negotiate|ApiKey|Digest)\s+)(\S.*)", re.I | re.DOTALL)

# Hints, one of which stands in any text that the pattern can match, in lower case; the pattern,
# whose one group is the secret. Sources: the vendors' own pages on the format of their tokens.
_SHAPES: list[tuple[tuple[str, ...], re.Pattern[str]]] = [
    (tuple(hints.split()), re.compile(pattern, flags | re.ASCII))
    for hints, pattern, flags in (
        (
            "-----begin",
            r"(-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z0-9 ]*-----|\Z))",
            0,
        ),
        ("akia asia abia acca", r"\b((?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{16})\b", 0),  # AWS
        ("aiza", r"\b(AIza[0-9A-Za-z_-]{35})", 0),  # Google
        ("ghp_ gho_ ghu_ ghs_ ghr_", r"\b(gh[pousr]_[A-Za-z0-9]{16,})", 0),
        ("github_pat_ glpat-", r"\b(github_pat_[A-Za-z0-9_]{20,}|glpat-[\w-]{16,})", 0),
        ("xox xapp-", r"\b(xox[a-z]-[A-Za-z0-9-]{8,}|xapp-[A-Za-z0-9-]{8,})", 0),  # Slack
        # Addresses of chat robots, which are their own password
        ("hooks.slack", r"hooks\.slack\.com/(?:services|workflows)/([\w/-]{8,})", 0),
        ("/webhooks/", r"discord(?:app)?\.com/api/(?:v\d+/)?webhooks/\d+/([\w-]{20,})", re.I),
        ("/hook/", r"open-apis/bot/v2/hook/([\w-]{8,})", 0),
        ("send?key=", r"webhook/send\?key=([\w-]{8,})", 0),
        (":aa", r"(?<!\d)(\d{8,10}:AA[\w-]{33})(?![\w-])", 0),  # Telegram
        ("ya29. gocspx-", r"\b(ya29\.[\w-]{20,}|GOCSPX-[\w-]{20,})", 0),  # Google OAuth
        (
            "ltai akid",
            r"\b(LTAI[0-9A-Za-z]{12,26}|AKID[0-9A-Za-z]{28,34})\b",
            0,
        ),  # Alibaba, Tencent
        ("sg.", r"\b(SG\.[\w-]{16,32}\.[\w-]{16,64})", 0),  # SendGrid
        ("sk", r"\b(SK[0-9a-f]{32})\b", 0),  # Twilio
        ("dapi", r"\b(dapi[0-9a-f]{32})", 0),  # Databricks
        ("hvs. hvb.", r"\b(hv[sb]\.[\w-]{20,})", 0),  # Vault
        # DigitalOcean, Shopify, Docker, Grafana, Supabase
        (
            "_v1_ shp dckr_ gl sbp_",
            r"\b(do[opr]_v1_[0-9a-f]{32,}|shp(?:at|ss|ca|pa)_[0-9a-fA-F]{32}|dckr_[op]at_[\w-]{20,}"
            r"|gl(?:sa|c)_[\w=+/]{30,}|sbp_[0-9a-f]{40})",
            0,
        ),
        # PyPI, Atlassian, Linear, Notion, Postman, New Relic, age
        (
            "pypi-a atatt3 lin_api_ ntn_ pmak- nrak- age-secret",
            r"\b(pypi-AgEI[\w-]{50,}|ATATT3[\w=-]{50,}|lin_api_[A-Za-z0-9]{32,}|ntn_[A-Za-z0-9]{40,}"
            r"|PMAK-[0-9a-f-]{50,}|NRAK-[A-Z0-9]{27}|AGE-SECRET-KEY-1[A-Z0-9]{50,})",
            0,
        ),
        ("putty-user-key", r"(PuTTY-User-Key-File-\d:(?s:.*))", 0),
        # OpenAI, Anthropic, Stripe
        ("sk- sk_ rk- rk_", r"(?<![\w-])((?:sk|rk)[-_][A-Za-z0-9][A-Za-z0-9_-]{15,})", 0),
        ("hf_ npm_", r"\b(hf_[A-Za-z0-9]{20,}|npm_[A-Za-z0-9]{30,})", 0),
        ("eyj", r"(?<![\w-])(eyJ[\w-]{6,}\.[\w-]{4,}\.[\w-]{4,})", 0),  # JSON Web Token
        ("bearer", r"\bBearer\s+(?=[^\s\"']{0,80}\d|[^\s\"']{20})([\w.~+/=-]{8,})", re.I),
        ("basic", r"\bBasic\s+([A-Za-z0-9+/]{8,}={1,2})(?![\w=])", re.I),
        # user:password@
        ("://", r"[a-z][a-z0-9+.-]{0,30}://[^\s/?#:@\"'<>]*:([^\s/?#\"'<>]+)@", re.I),
        ("sig", r"[?&;](?:X-Amz-Signature|signature|sig)=([^&\s\"'#]{8,})", re.I),
        ("cookie", r"\bcookie\s*[:=]\s*([^\s=;\"'\\]+=[^\r\n\"'\\]+)", re.I),
        (
            "pass token secret api",
            r"(?<![\w-])--?[\w-]{0,30}(?:password|passwd|token|secret|api-?key)[ \t]+"
            r"([^\s\"'-][^\s\"']*)",
            re.I,
        ),
        # A name of a secret, then its value: in quotes after = or :, bare after =, and bare after
        # : when it is no word (has digits). Quotes that never close run to the end of the text.
        # Not in an ARN, arn:aws:secretsmanager:us-east-1:123456789012:secret:NAME.
        (
            "pass pwd secret key authorization cookie credential token",
            rf"(?:(?<![A-Za-z])(?<!\d:)|(?<=[a-z])(?=[A-Z]))(?i:{_WORDS})\\{{0,8}}[\"']?\s*(?:"
            r"[:=]\s*\\{0,8}(?P<mark>[\"'])(?:(?:Bearer|Basic|Token)\s+)?"
            r"(?P<quoted>(?:(?!\\{0,8}(?P=mark)).)+)"
            r"|=\s*(?P<bare>(?!\\{0,8}[\"'])[^\s\"'&;,<>\\)]+)"
            r"|:\s*(?:(?:Bearer|Basic|Token)\s+)?"
            r"(?P<word>(?=[^\s\"'&;,]{0,80}\d)[^\s\"'&;,<>{}\[\]\\]{6,}))",
            re.DOTALL,
        ),
    )
]
# The first bytes of whatever a shape can match, for the look at a whole line.
_HINTS = sorted({hint.encode() for hints, _ in _SHAPES for hint in hints})
_HINTS = [hint for hint in _HINTS if not any(hint != other and other in hint for other in _HINTS)]
# An escape may hide a hint.
_MORE = re.compile(rb"[2-6][0-9]{3}[ -]?[0-9]{4}|3[47][0-9]{2} [0-9]{6}|\\[u/]")
_DIGITS = re.compile(r"\d{4}[ -]?\d{4}|\d{4} \d{6}", re.ASCII)
_CARD = re.compile(
    r"(?<![\w.-])((?:4\d{12}|4\d{15}|4\d{18}|5[1-5]\d{14}|2[2-7]\d{14}|3[47]\d{13}|3[0689]\d{12}"
    r"|35\d{14}|6\d{15,18})|(?:[2-6]\d{3})([ -])\d{4}\2\d{4}\2\d{4}|3[47]\d{2}([ -])\d{6}\3\d{5})"
    r"(?![\w-]|\.\d)",
    re.ASCII,
)

# Whether a line may hold any of the above, in the syntax of Rust's regex: one pass, no look-around.
# An escaped printable ASCII character, which no usual writer produces, could hide a name.
SUSPECT = (
    r"(?i)passw|passphrase|pwd|secret|(?:api|access|account|private)[-_ ]?key|authorization"
    r"""|cookie|credential|token(?:[^a-z0-9_]|$)|--[a-z-]*token|bearer\s|basic\s+[a-z0-9+/]{8}"""
    r"|(?:akia|asia|abia|acca)[0-9a-z]{16}|aiza[0-9a-z_-]{30}|gh[pousr]_|github_pat|glpat-|xox[a-z]-"
    r"|xapp-|hooks\.slack|(?:^|[^a-z0-9])[sr]k[-_]|hf_[a-z0-9]{20}|npm_[a-z0-9]{30}"
    r"""|eyj[a-z0-9_-]{6,}\.|:\\*/\\*/[^\s/?#@"']*:[^\s/?#"']*@|[?&;](?:x-amz-)?sig"""
    r"|discord(?:app)?\.com/api/|/bot/v2/hook/|send\?key=|[0-9]{8}:aa[a-z0-9_-]{33}|ya29\.|gocspx-"
    r"|ltai[0-9a-z]{12}|akid[0-9a-z]{28}|sg\.[a-z0-9_-]{16}|sk[0-9a-f]{32}|dapi[0-9a-f]{32}|hv[sb]\."
    r"|do[opr]_v1_|shp[a-z]{2}_[0-9a-f]{32}|dckr_[op]at|gl(?:sa|c)_[a-z0-9]|sbp_[0-9a-f]{40}|pypi-agei"
    r"|atatt3|lin_api_|ntn_[a-z0-9]{40}|pmak-|nrak-|age-secret-key|putty-user-key"
    r"|\\u00(?:2[0-57-9a-f]|3[0-9abdf]|[4-7])"
    r"|(?:^|[^a-z0-9.-])(?:[2-6][0-9]{12,18}|[2-6][0-9]{3}[ -][0-9]{4}[ -][0-9]{4}[ -][0-9]{4}"
    r"|3[47][0-9]{2}[ -][0-9]{6}[ -][0-9]{5})(?:[^0-9]|$)"
)


@lru_cache(maxsize=4096)
def words(key: str) -> str:
    """A key as words with underscores: X-Api-Key and xApiKey are both X_Api_Key."""
    return re.sub(r"[^A-Za-z0-9]+", "_", _HUMP.sub("_", key)).strip("_")


@lru_cache(maxsize=4096)
def is_secret(name: str) -> bool:
    """Whether a key's last words (from words()) name a secret: access_token, not token_count."""
    return _SECRET_KEY.search(name) is not None


def is_count(name: str) -> bool:
    """A number under such a key is a count or a duration, not a secret."""
    return name.lower().endswith(("token", "cookies", "credentials", "secrets", "keys"))


def is_open(name: str) -> bool:
    """Of an object under a secret's key, what is none: when it was made and ends, and its state."""
    return _OPEN_KEY.fullmatch(name) is not None


def is_card(name: str) -> bool:
    return _CARD_KEY.search(name) is not None


def is_nothing(text: str) -> bool:
    """Whether what stands under a secret's key is no secret: empty, a placeholder, a marker."""
    bare = text.strip()
    return len(bare) < 100 and bool(_NOTHING.fullmatch(bare) or MARKER.fullmatch(bare))


def spots(raw: bytes) -> list[int]:
    """Where in a line, as it stands, something begins that a secret could be part of; sorted."""
    lower = raw.lower()
    found = [match.start() for match in _MORE.finditer(raw)]
    for hint in _HINTS:
        at = lower.find(hint)
        while at >= 0:
            found.append(at)
            at = lower.find(hint, at + 1)
    return sorted(found)


def whole(text: str, mask: Mask) -> str:
    """The value of a secret's key; of `Bearer X` only X is replaced."""
    if is_nothing(text):
        return text
    if (found := _SCHEME.fullmatch(text)) is not None:
        return text if is_nothing(found[2]) else found[1] + mask(found[2])
    return mask(text)


def inside(text: str, name: str, mask: Mask) -> str:
    """Any text with the secrets in it replaced. `name`: the words of its key, "" for none."""
    lower = text.lower()
    for hints, shape in _SHAPES:
        for hint in hints:
            if hint in lower:
                text = shape.sub(lambda found: _put(found, mask), text)
                break
    if _DIGITS.search(text) and not _ID_KEY.search(name):
        text = _CARD.sub(lambda found: mask(found[0]) if luhn(found[0]) else found[0], text)
    return text


def _put(found: re.Match[str], mask: Mask) -> str:
    group = found.lastgroup or 1
    secret = found[group]
    if is_nothing(secret) or (secret[0] == "/" and "pwd" in found[0][:40].lower()):
        return found[0]  # PWD=/home/... is where a shell stands
    start, end = found.start(group) - found.start(), found.end(group) - found.start()
    return found[0][:start] + mask(secret) + found[0][end:]


def luhn(number: str) -> bool:
    """The check digit of payment cards."""
    digits = [int(digit) for digit in number if digit.isdigit()][::-1]
    odd, even = digits[::2], (2 * digit for digit in digits[1::2])
    return (sum(odd) + sum(digit - 9 if digit > 9 else digit for digit in even)) % 10 == 0
