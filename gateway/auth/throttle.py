"""Failed authentications per source address: how many get a plain 401 (S35).

Only failures are counted, and only failures are answered differently: a good credential always passes.
"""

from __future__ import annotations

import ipaddress
from collections import OrderedDict
from typing import Final

from gateway.config.types import Rate
from gateway.state.gcra import Allowance

MAX_SOURCES: Final = 10_000
_IPV6_SITE: Final = 64


class Throttle:
    """Counts failures by source; times are monotonic seconds. The longest quiet source is forgotten first."""

    def __init__(self, failures: Rate, most: int = MAX_SOURCES) -> None:
        self._most = most
        self._arrivals: OrderedDict[str, int] = OrderedDict()
        self.change(failures)

    def __len__(self) -> int:
        return len(self._arrivals)

    def change(self, failures: Rate) -> None:
        """Take another rate, as a reload may bring."""
        self._allowance = Allowance(failures.count, failures.seconds, failures.count)

    def failed(self, source: str, now: float) -> float | None:
        """Count a failed authentication; return the seconds to wait if this source has had too many, else None."""
        key = site_of(source)
        self._arrivals[key], wait_ms = self._allowance.charge(self._arrivals.get(key, 0), now)
        self._arrivals.move_to_end(key)
        if len(self._arrivals) > self._most:
            self._arrivals.popitem(last=False)
        return wait_ms / 1000 if wait_ms else None


def site_of(source: str) -> str:
    """Return what an address is counted as: itself, or for IPv6 its /64, since one host has all of that."""
    try:
        address = ipaddress.ip_address(source.partition("%")[0])
    except ValueError:
        return source[:64]
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((int(address), _IPV6_SITE), strict=False))
