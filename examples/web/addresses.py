"""Decides which URLs and addresses may be fetched: a URL comes from a user, and must not lead into the own network."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import SplitResult, quote, urlsplit

PORTS = frozenset({80, 443})
LONGEST = 2_000
_UNSAFE = re.compile(r"[\x00-\x20\x7f\\]")
_NUMERIC = re.compile(r"(0x[0-9a-f]*|[0-9]+)", re.IGNORECASE)
_INSIDE = tuple(
    ipaddress.ip_network(network)
    for network in (
        "0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.88.99.0/24", "198.18.0.0/15", "240.0.0.0/4",
        # IPv6 that carries an IPv4 address, which could be any: compatible, mapped, translated, Teredo, 6to4.
        "::/96", "::ffff:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "2001::/32", "2002::/16",
        "2001:db8::/32", "3fff::/20", "5f00::/16", "fec0::/10",
    )
)  # fmt: skip


class RefusedError(Exception):
    """The page is not fetched, and will not be at a further attempt."""


@dataclass(frozen=True, slots=True)
class Target:
    """The parts of a URL that a request needs."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        """Host and port, as an operator writes them in a list."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        usual = {"http": 80, "https": 443}[self.scheme]
        authority = self.authority.removesuffix(f":{self.port}") if self.port == usual else self.authority
        return f"{self.scheme}://{authority}{self.path}"


def target(
    url: str, *, ports: frozenset[int] | None = PORTS, allowed: frozenset[str] = frozenset()
) -> Target:
    """The target of a URL, or ``RefusedError``. No name is resolved here. ``allowed`` has authorities whose port is not checked."""
    if len(url) > LONGEST:
        raise RefusedError(f"the URL is longer than {LONGEST} characters")
    if _UNSAFE.search(url):
        raise RefusedError("the URL contains a space, a control character or a backslash")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise RefusedError(f"the URL cannot be read: {error}") from error
    if parts.scheme not in ("http", "https"):
        raise RefusedError(f"the scheme is {parts.scheme or 'missing'}; only http and https are fetched")
    if "@" in parts.netloc:
        raise RefusedError("the URL contains a user or a password")
    if port is None:
        port = 443 if parts.scheme == "https" else 80
    found = Target(parts.scheme, _host(parts), port, _path(parts))
    if ports is not None and port not in ports and found.authority not in allowed:
        raise RefusedError(f"port {port} is not one of {', '.join(map(str, sorted(ports)))}")
    if _is_address(found.host) and found.authority not in allowed:
        check_address(found.host)
    return found


def check_address(address: str) -> None:
    """Raise ``RefusedError`` unless an address is one of the public internet."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError as error:
        raise RefusedError(f"{address} is not an address") from error
    is_inside = any(ip in network for network in _INSIDE if network.version == ip.version)
    if is_inside or not ip.is_global or ip.is_multicast or ip.is_reserved or ip.is_unspecified:
        raise RefusedError(f"{address} is not an address of the public internet")


def _is_address(host: str) -> bool:
    return ":" in host or host.rpartition(".")[2].isdecimal()


def _host(parts: SplitResult) -> str:
    host = (parts.hostname or "").rstrip(".")
    if not host:
        raise RefusedError("the URL has no host")
    if "%" in host:
        raise RefusedError("the host contains a percent sign")
    if ":" in host:
        return host  # IPv6; check_address decides
    if not host.isascii():
        try:
            host = host.encode("idna").decode("ascii").rstrip(".")
        except UnicodeError as error:
            raise RefusedError("the host is not a valid name") from error
    if _NUMERIC.fullmatch(host.rpartition(".")[2]):
        try:
            ipaddress.IPv4Address(host)
        except (
            ValueError
        ) as error:  # 127.1, 0x7f000001, 2130706433, 0177.0.0.1: the resolver would read them as addresses
            raise RefusedError(f"{host} is a number, and not an address in the usual form") from error
    elif not re.fullmatch(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*", host):
        raise RefusedError("the host is not a valid name")
    return host


def _path(parts: SplitResult) -> str:
    path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._")
    return f"{path}?{quote(parts.query, safe='/%:@!$&()*+,;=~-._?[]')}" if parts.query else path
