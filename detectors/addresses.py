"""Which addresses a receiver may have: no way from a config line into the inside of a network.

Reads: nothing. Writes: nothing. Next: detectors/delivery.py.
"""

import ipaddress

import httpx

from ingest.hosts import canonical_host

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
NAT64 = tuple(  # and its elder, SIIT of RFC 2765
    map(ipaddress.ip_network, ("64:ff9b::/96", "64:ff9b:1::/48", "::ffff:0:0:0/96"))
)
SIX_TO_FOUR, SITE_LOCAL = ipaddress.ip_network("2002::/16"), ipaddress.ip_network("fec0::/10")
METADATA = {  # and other services of a cloud's own host: Alibaba, AWS, Google, Azure, Oracle
    ipaddress.ip_address(text)
    for text in ("100.100.100.200", "fd00:ec2::254", "fd20:ce::254", "168.63.129.16", "192.0.0.192")
}
INSIDE = {"localhost", "local", "internal", "home.arpa"}  # last labels that no public name has


def refused_url(url: str, allow_http: bool, allow_private: bool) -> str | None:
    """Why this address may not be told, as the end of a sentence; None when it may.

    `smtps` is a mail server spoken to over TLS, `smtp` one without; `apprise` stands for whatever
    scheme that library uses. What a name resolves to is a question for the moment of sending: see
    `refused`.
    """
    try:
        parsed = httpx.URL(url)
        name = parsed.host  # decodes what begins with xn--
    except (httpx.InvalidURL, UnicodeError):
        return "is not a URL"
    if parsed.scheme not in ("https", "http", "smtps", "smtp", "apprise"):
        return "must begin with https://"
    if parsed.scheme == "http" and not allow_http:
        return "must begin with https:// (or the receiver says allow_http = true)"
    if parsed.scheme == "smtp" and not (allow_http and allow_private):
        return (
            "is spoken to without TLS, which goes only inside your own network"
            " (allow_http = true with allow_private = true permits that)"
        )
    if parsed.port is not None and not 0 < parsed.port < 65_536:
        return f"names port {parsed.port}, and there are 1 to 65535"
    if parsed.userinfo:
        return "holds a user name or password, which is not supported"
    host = canonical_host(name)
    if not host:  # in a URL of Apprise a token may stand there
        return None if parsed.scheme == "apprise" else "names no host"
    try:
        return refused(ipaddress.ip_address(host.strip("[]")), allow_private)
    except ValueError:
        pass
    if not allow_private and any(host == each or host.endswith(f".{each}") for each in INSIDE):
        return "is inside this network (allow_private = true permits that)"
    return None


def refused(address: Address, allow_private: bool) -> str | None:
    """Why no request may go to this address, as the end of a sentence; None when one may.

    Addresses that are never a receiver, such as cloud metadata, stay refused in any case.
    """
    inner = _inner(address)
    never = inner.is_link_local or inner.is_multicast or inner.is_unspecified or inner in METADATA
    if never or str(inner) == "255.255.255.255":
        return f"is {address}, which no receiver has"
    inside = not inner.is_global or inner.is_private or inner in SITE_LOCAL
    if inside and not allow_private:
        return f"is {address}, inside this network (allow_private = true permits that)"
    return None


def _inner(address: Address) -> Address:
    """The IPv4 address that an IPv6 spelling hides: mapped, compatible, NAT64, 6to4."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    number = int(address)
    if address.ipv4_mapped:
        return address.ipv4_mapped
    if any(address in network for network in NAT64) or 1 < number < 1 << 32:
        return ipaddress.IPv4Address(number & 0xFFFFFFFF)
    if address in SIX_TO_FOUR:
        return ipaddress.IPv4Address((number >> 80) & 0xFFFFFFFF)
    return address
