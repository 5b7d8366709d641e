"""Which addresses may be dialed, judged on the resolved address of every single connection.

A check of the URL is not enough: a name can resolve to anything, differently each time, and a resolver is not asked
for literals. The socket factory of aiohttp's connector sees every dial, so the judgement sits there (S118). Servers
and issuers of tokens are dialed by the same rules, so this knows of neither.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, TypeAlias

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network
AddrInfo: TypeAlias = tuple[int | socket.AddressFamily, int | socket.SocketKind, int, str, tuple[object, ...]]

_NEVER: Final = tuple(
    (ip_network(text), why)
    for text, why in (
        ("0.0.0.0/8", "unspecified"),
        ("::/128", "unspecified"),
        ("169.254.0.0/16", "link-local"),
        ("fe80::/10", "link-local"),
        ("100.100.100.200/32", "cloud metadata"),
        ("192.0.0.192/32", "cloud metadata"),
        ("168.63.129.16/32", "cloud metadata"),
        ("fd00:ec2::254/128", "cloud metadata"),
        ("fd20:ce::254/128", "cloud metadata"),
        ("224.0.0.0/4", "multicast"),
        ("ff00::/8", "multicast"),
        ("240.0.0.0/4", "reserved"),
    )
)
"""Dialed for nobody: no tool lives there, and credentials of the machine do."""

_NOT_PUBLIC: Final = tuple(
    (ip_network(text), why)
    for text, why in (
        ("127.0.0.0/8", "loopback"),
        ("::1/128", "loopback"),
        ("10.0.0.0/8", "private"),
        ("172.16.0.0/12", "private"),
        ("192.168.0.0/16", "private"),
        ("100.64.0.0/10", "carrier-grade NAT"),
        ("192.0.0.0/24", "reserved"),
        ("192.0.2.0/24", "documentation"),
        ("192.88.99.0/24", "reserved"),
        ("198.18.0.0/15", "benchmarking"),
        ("198.51.100.0/24", "documentation"),
        ("203.0.113.0/24", "documentation"),
        ("fc00::/7", "private"),
        ("fec0::/10", "private"),
        ("100::/64", "reserved"),
        ("2001::/23", "reserved"),
        ("2001:db8::/32", "documentation"),
        ("3fff::/20", "documentation"),
        ("5f00::/16", "reserved"),
        ("64:ff9b:1::/48", "private"),
    )
)
_GLOBAL_V6: Final = ip_network("2000::/3")
_NAT64: Final = (ip_network("64:ff9b::/96"), ip_network("64:ff9b:1::/48"))
_COMPATIBLE: Final = ip_network("::/96")


@dataclass(frozen=True, slots=True)
class Dialing:
    """Who chose the address. ``trusted``: the operator wrote it. ``allow`` are networks that learned ones may use."""

    trusted: bool = False
    allow: tuple[Network, ...] = ()
    loopback_only: bool = False


class Refused(OSError):
    """A dial that the rules forbid; ``strerror`` says why and holds no address."""


def networks(texts: Sequence[str]) -> tuple[Network, ...]:
    """Read ``allow_networks``.

    Raises:
        ValueError: one of them is no network.
    """
    return tuple(ip_network(text, strict=False) for text in texts)


def judge(address: str, *, trusted: bool, allow: Sequence[Network] = ()) -> str | None:
    """Say why a resolved address must not be dialed, None where it may be.

    IPv4 addresses inside IPv6 ones are judged as well, in every form that a gateway on the way might unpack.
    """
    try:
        parsed = ip_address(address)
    except ValueError:
        return "not an address"
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
        # The kernel dials the IPv4 address itself.
        parsed = parsed.ipv4_mapped
    inner = _embedded(parsed)
    for candidate in (parsed, *inner):
        why = _among(candidate, _NEVER)
        if why is not None:
            return why
    if trusted or any(_within(parsed, network) for network in allow):
        return None
    for candidate in (parsed, *inner):
        why = _among(candidate, _NOT_PUBLIC)
        # 64:ff9b::/96 is how an IPv6-only network reaches public IPv4.
        if why is not None and not (candidate is parsed and isinstance(parsed, IPv6Address) and parsed in _NAT64[0]):
            return why
    if isinstance(parsed, IPv6Address) and parsed not in _GLOBAL_V6 and parsed not in _NAT64[0]:
        return "reserved"
    return None


def _embedded(address: Address) -> list[IPv4Address]:
    """The IPv4 addresses an IPv6 address carries: compatible, NAT64, 6to4, Teredo (RFC 4291, 6052, 3056, 4380)."""
    if isinstance(address, IPv4Address):
        return []
    number = int(address)
    found: list[IPv4Address] = []
    if address in _COMPATIBLE and number > 1:
        found.append(IPv4Address(number & 0xFFFFFFFF))
    if address in _NAT64[0]:
        found.append(IPv4Address(number & 0xFFFFFFFF))
    if address in _NAT64[1]:
        # Prefix lengths 96 and 48 (RFC 6052 §2.2: 16 bits, the zero octet, 16 bits); the one not in use reads as zero.
        forms = (number & 0xFFFFFFFF, (number >> 64 & 0xFFFF) << 16 | number >> 40 & 0xFFFF)
        found += [IPv4Address(form) for form in forms if form]
    if address.sixtofour is not None:
        found.append(address.sixtofour)
    if address.teredo is not None:
        found += address.teredo
    return found


def _among(address: Address, table: Sequence[tuple[Network, str]]) -> str | None:
    return next((why for network, why in table if _within(address, network)), None)


def _within(address: Address, network: Network) -> bool:
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        address = IPv6Address(int(address))
    return address in network


def is_loopback(address: str) -> bool:
    """Tell whether a resolved address is this machine's own."""
    parsed = ip_address(address)
    mapped = parsed.ipv4_mapped if isinstance(parsed, IPv6Address) else None
    return (mapped or parsed).is_loopback


def factory(dialing: Dialing, on_blocked: Callable[[], None] = lambda: None) -> Callable[[AddrInfo], socket.socket]:
    """Make the socket factory for a connector: it judges each address before a socket for it exists."""

    def make(info: AddrInfo) -> socket.socket:
        family, kind, protocol, _, place = info
        address = str(place[0])
        why = judge(address, trusted=dialing.trusted, allow=dialing.allow)
        if why is None and dialing.loopback_only and not is_loopback(address):
            why = "not loopback, which tls.insecure is for"
        if why is not None:
            on_blocked()
            raise Refused(errno.EACCES, f"its address must not be dialed: {why}")
        return socket.socket(family, kind, protocol)

    return make
