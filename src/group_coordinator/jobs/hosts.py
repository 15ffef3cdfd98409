"""Addresses that people write: hosts with and without brackets, and what a server binds for them."""

from __future__ import annotations

import ipaddress
import socket

_ALL_IPV6 = "::"


def host_of(text: str) -> str:
    """Return a name or an address without the brackets that IPv6 has in front of a port.

    Raises ValueError for brackets around something else, and for what has a port.
    """
    inner = text[1:-1] if text.startswith("[") and text.endswith("]") else None
    host = text if inner is None else inner
    if inner is not None or ":" in host:
        try:
            # A scope such as %eth0 is a part of an address.
            ipaddress.IPv6Address(host)
        except ValueError:
            raise ValueError(f"{text!r} is no host: write a name or an address, without a port") from None
    elif "[" in host or "]" in host:
        raise ValueError(f"{text!r} is no host: brackets go around an address of IPv6")
    return host


def listening_host(host: str) -> str:
    """Return what a server binds for `host`: a name, or an address, or all of this machine's if it is empty.

    All are those of IPv6 and IPv4, where the system can do both with one socket.
    """
    return host_of(host) or (_ALL_IPV6 if socket.has_dualstack_ipv6() else "")


def written(host: str) -> str:
    """Return a host as it stands before a port."""
    return f"[{host}]" if ":" in host else host
