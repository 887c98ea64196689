"""Where a request goes: a URL, read once and strictly, so that nobody can read it otherwise."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from ipaddress import IPv6Address
from urllib.parse import quote

from checkrail.actions.addresses import Address, parse_address
from checkrail.actions.errors import OutboundRefused
from checkrail.extras import needs

LONGEST = 8192
PORTS = {"http": 80, "https": 443}
WHOLE = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([^#]*)(?:#.*)?")
AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:]+)(?::([0-9]{0,5}))?")
LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
NAME = re.compile(rf"{LABEL}(?:\.{LABEL})*")
NUMBER = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)")
"""A host that some take for an IPv4 address: its last part is a number, be it octal or hex."""

LITERAL = "/?:@!$&'()*+,;=%-._~"
"""What stays as it is in a path and query; the rest is escaped."""


@dataclass(frozen=True, slots=True)
class Destination:
    """Where a request goes; `host` is a name in ASCII or an address without brackets."""

    scheme: str
    host: str
    port: int
    target: str = field(default="/", repr=False)

    @property
    def address(self) -> Address | None:
        """The address that the URL names, if it names no host."""
        return parse_address(self.host)

    @property
    def is_plain(self) -> bool:
        """Whether anybody on the way can read it."""
        return self.scheme == "http"

    @property
    def is_local(self) -> bool:
        """Whether the name is this machine's, whatever DNS says."""
        return self.host == "localhost" or self.host.endswith(".localhost")

    @property
    def authority(self) -> str:
        """Host and port as in the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}"


def parse_destination(url: str) -> Destination:
    """Parse a URL, or refuse it without repeating it."""
    if len(url) > LONGEST:
        raise OutboundRefused(f"the URL is longer than {LONGEST} characters", "Shorten it")
    if any(sign.isspace() or not sign.isprintable() or sign == "\\" for sign in url):
        problem = "the URL has a space, a backslash or a character that cannot be seen"
        raise OutboundRefused(problem, "Percent-encode it, or remove it")
    found = WHOLE.fullmatch(url)
    if found is None:
        raise OutboundRefused("the URL is not a whole one", "Write it as https://host/path")
    scheme, authority, target = found[1].lower(), found[2], found[3]
    if scheme not in PORTS:
        raise OutboundRefused(f"the URL's scheme is {scheme}", "Use https")
    host, port = _parse_authority(scheme, authority)
    return Destination(scheme, host, port, _quote_target(target))


def _parse_authority(scheme: str, text: str) -> tuple[str, int]:
    if "@" in text:
        problem = "the URL has a user name or password in front of its host"
        raise OutboundRefused(problem, "Send credentials in a header")
    found = AUTHORITY.fullmatch(text)
    if found is None:
        raise OutboundRefused("the URL has no proper host and port", "Write host or host:port")
    return host_name(found[1]), port_number(found[2] or PORTS[scheme])


def port_number(text: str | int) -> int:
    """Read a port that something can listen on."""
    port = int(text)
    if not 0 < port < 1 << 16:
        raise OutboundRefused(f"the URL's port is {port}", "Ports are from 1 to 65535")
    return port


def host_name(text: str) -> str:
    """Return a host in the one spelling that is compared, resolved and connected to."""
    if text.startswith("["):
        return _parse_ipv6(text[1:-1])
    name = _to_ascii(text.lower()).removesuffix(".")
    if NUMBER.fullmatch(name) and parse_address(name) is None:
        problem = "the URL's host is a number in an unusual spelling"
        raise OutboundRefused(problem, "Write an IPv4 address as four decimal numbers")
    if len(name) > 253 or not NAME.fullmatch(name):
        raise OutboundRefused("the URL's host is no host name", "Check its spelling")
    return name


def _parse_ipv6(text: str) -> str:
    try:
        return str(IPv6Address(text))
    except ValueError:
        problem = "the URL's host is in brackets, but is no IPv6 address"
        raise OutboundRefused(problem, "Check its spelling") from None


def _to_ascii(name: str) -> str:
    """Encode an international name; letters that are look-alikes of others are refused."""
    if name.isascii():
        return name
    with needs("httpx2", "an international host name", "server"):
        import idna
    try:
        return idna.encode(name).decode("ascii")
    except UnicodeError:
        problem = "the URL's host has letters that no host name has"
        raise OutboundRefused(problem, "Write it in its ASCII form") from None


def _quote_target(text: str) -> str:
    return quote(text if text.startswith("/") else f"/{text}", safe=LITERAL)
