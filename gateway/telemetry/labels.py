"""Which label values a metric may have, so that nobody outside can make a series (S178).

Pure bookkeeping; knows nothing of the metrics library. A value that is not admitted becomes ``_other``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol

OTHER: Final = "_other"
_CONSTANT = re.compile(r"[A-Za-z0-9_./:+-]{1,64}")


class Domain(Protocol):
    """The values one label may have."""

    def admit(self, value: str) -> str:
        """Return the value, or ``_other``."""
        ...


class Closed:
    """Values fixed in the source."""

    def __init__(self, *values: str) -> None:
        self.values = frozenset(values)

    def admit(self, value: str) -> str:
        return value if value in self.values else OTHER


class Constants:
    """Short constants of the source that are not listed in one place: the first ``most`` different ones count."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._seen: set[str] = set()

    def admit(self, value: str) -> str:
        if value in self._seen:
            return value
        if len(self._seen) >= self._most or not _CONSTANT.fullmatch(value):
            return OTHER
        self._seen.add(value)
        return value


class Known:
    """Names out of config or catalog, replaced as a whole when those change."""

    def __init__(self, *always: str) -> None:
        self._always = frozenset(always)
        self._values = self._always

    def admit(self, value: str) -> str:
        return value if value in self._values else OTHER

    def replace(self, values: Iterable[str]) -> frozenset[str]:
        """Take the names known from now on; return those that are not known any more."""
        before, self._values = self._values, self._always | frozenset(values)
        return before - self._values


class SeriesGuard:
    """The label values of one metric, and how many different combinations of them there may be."""

    def __init__(self, domains: Mapping[str, Domain], most: int, on_drop: Callable[[], None]) -> None:
        self.names = tuple(domains)
        self._domains = dict(domains)
        self._most = most
        self._on_drop = on_drop
        self._keys: set[tuple[str, ...]] = set()

    def key(self, labels: Mapping[str, str]) -> tuple[str, ...]:
        """Return the values to record under, in the order of ``names``.

        When the metric is full a new combination loses its names from config and catalog.

        Raises:
            ValueError: labels of another metric; a mistake in the source.
        """
        if labels.keys() != self._domains.keys():
            raise ValueError(f"labels must be {', '.join(self.names) or 'none'}, not {', '.join(labels)}")
        key = tuple(self._domains[name].admit(labels[name]) for name in self.names)
        if key in self._keys:
            return key
        if len(self._keys) >= self._most:
            self._on_drop()
            return tuple(
                OTHER if isinstance(self._domains[name], Known) else value
                for name, value in zip(self.names, key, strict=True)
            )
        self._keys.add(key)
        return key

    def forget(self, stale: Callable[[Mapping[str, str]], bool]) -> list[tuple[str, ...]]:
        """Give back the places of combinations that ``stale`` names, and return them."""
        gone = [key for key in self._keys if stale(dict(zip(self.names, key, strict=True)))]
        self._keys.difference_update(gone)
        return gone
