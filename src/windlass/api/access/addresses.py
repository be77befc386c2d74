"""Which addresses lead to this machine only."""

from __future__ import annotations

import ipaddress


def is_loopback(host: str | None) -> bool:
    """Whether a host name or an address is this machine's own: ``localhost``, ``127.0.0.1``, ``[::1]``."""
    if not host:
        return False
    name = host.strip("[]").rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def host_of(header: str) -> str:
    """The host of a header Host, without its port."""
    if header.startswith("["):
        return header.partition("]")[0] + "]"
    return header.rpartition(":")[0] if header.count(":") == 1 else header
