"""Failed authentications per source address: how many get a plain 401, and how many a record (S35, S154).

Only failures are counted, and only failures are answered differently: a good credential always passes.
"""

from __future__ import annotations

import ipaddress
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from gateway.config.types import Rate
from gateway.state.gcra import Allowance

MAX_SOURCES: Final = 10_000
REPORT_INTERVAL: Final = 10.0
"""Seconds between two reports about one source."""
_IPV6_SITE: Final = 64


@dataclass(slots=True)
class _Source:
    arrival: int = 0
    unreported: int = 0
    reported_at: float = field(default=-REPORT_INTERVAL)


class Throttle:
    """Counts failures by source; times are monotonic seconds. The longest quiet source is forgotten first."""

    def __init__(self, failures: Rate, most: int = MAX_SOURCES) -> None:
        self._most = most
        self._sources: OrderedDict[str, _Source] = OrderedDict()
        self.change(failures)

    def __len__(self) -> int:
        return len(self._sources)

    def change(self, failures: Rate) -> None:
        """Take another rate, as a reload may bring."""
        self._allowance = Allowance(failures.count, failures.seconds, failures.count)

    def failed(self, source: str, now: float) -> float | None:
        """Count a failed authentication; return the seconds to wait if this source has had too many, else None."""
        entry = self._entry(source)
        entry.unreported += 1
        entry.arrival, wait_ms = self._allowance.charge(entry.arrival, now)
        return wait_ms / 1000 if wait_ms else None

    def unreported(self, source: str, now: float) -> int:
        """Return how many failures to report about a source now; 0 while its last report is under 10 s ago."""
        entry = self._entry(source)
        if not entry.unreported or now - entry.reported_at < REPORT_INTERVAL:
            return 0
        count, entry.unreported, entry.reported_at = entry.unreported, 0, now
        return count

    def _entry(self, source: str) -> _Source:
        key = site_of(source)
        entry = self._sources.get(key)
        if entry is None:
            entry = self._sources[key] = _Source()
            if len(self._sources) > self._most:
                self._sources.popitem(last=False)
        self._sources.move_to_end(key)
        return entry


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
