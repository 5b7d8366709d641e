"""The keys of one issuer, kept off the path of requests: fetched ahead of time, once for all who wait, never on demand
of a stranger.

A key that is not known leads to one fetch in ten seconds however many tokens name one. When the issuer cannot be
reached, the keys last known are used for ``max_stale`` and then none (S42, S43).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_network
from typing import Final, Protocol
from urllib.parse import urlsplit

from gateway.auth import discovery
from gateway.auth.discovery import DiscoveryError
from gateway.auth.fetch import FetchError
from gateway.auth.jwks import KeySet, KeySetError, VerifyingKey, read_key_set
from gateway.config.access import Jwt
from gateway.config.types import is_loopback
from gateway.errors import GatewayError
from gateway.network import Dialing
from gateway.tasks import TaskSet
from gateway.telemetry.logs import get_logger

MIN_INTERVAL: Final = 10.0
"""Seconds between two fetches, whatever asks for one."""
REFRESH: Final = 300.0
"""Seconds after which keys are fetched again, so that one that was withdrawn stops working."""

_log = get_logger("auth")


class KeysUnavailable(GatewayError):
    """A token can be neither believed nor refused: the issuer's keys are not to be had."""


class Fetch(Protocol):
    """How a document is fetched."""

    async def get(self, url: str, dialing: Dialing) -> bytes:
        """Return it, or raise ``FetchError``."""


class Meters(Protocol):
    """Hears of fetches; ``issuer`` is its host."""

    def fetched(self, issuer: str, result: str) -> None:
        """One fetch: ``changed``, ``same`` or ``failed``."""

    def degraded(self, issuer: str, reason: str) -> None:
        """The keys could not be fetched."""


@dataclass(frozen=True, slots=True)
class Means:
    """What an issuer's keys are fetched with; ``clock`` gives monotonic seconds."""

    line: Fetch
    tasks: TaskSet
    meters: Meters
    clock: Callable[[], float] = time.monotonic


class Issuer:
    """The key cache of one authorization server."""

    def __init__(self, settings: Jwt, means: Means) -> None:
        """Prepare; fetches nothing."""
        self._settings = settings
        self._means = means
        self._label = urlsplit(settings.issuer).hostname or ""
        self._keys: KeySet | None = None
        self._fetched = 0.0
        self._tried: float | None = None
        self._failure = ""
        self._url = settings.jwks_url
        self._fetching: asyncio.Task[None] | None = None
        self._refresh = min(REFRESH, settings.max_stale / 2)

    def serves(self, settings: Jwt) -> bool:
        """Whether the keys kept here are those that other settings would lead to."""
        fields = ("issuer", "jwks_url", "algorithms", "max_stale", "allow_networks", "ca")
        return all(getattr(self._settings, name) == getattr(settings, name) for name in fields)

    def current(self) -> KeySet | None:
        """Return the keys that may be used now, None where there are none; has them renewed in time."""
        age = self._means.clock() - self._fetched
        if self._keys is None or age > self._settings.max_stale:
            return None
        if age > self._refresh and self._may_fetch():
            self._fetch_soon()
        return self._keys

    def warm(self) -> None:
        """Have the keys fetched before anybody needs them."""
        if self._keys is None and self._may_fetch():
            self._fetch_soon()

    async def find(self, kid: str | None, algorithm: str) -> VerifyingKey | None:
        """Return the key a token names; None where the issuer has no such key.

        Raises:
            KeysUnavailable: the issuer has not been reached, so that nobody knows.
        """
        keys = self.current()
        found = keys.find(kid, algorithm) if keys is not None else None
        if found is None and (self._fetching is not None or self._may_fetch()):
            await asyncio.wait([self._fetch_soon()])
            keys = self.current()
            found = keys.find(kid, algorithm) if keys is not None else None
        if found is None and (keys is None or self._failure):
            raise KeysUnavailable(self._failure or "keys are too old")
        return found

    def _may_fetch(self) -> bool:
        return self._tried is None or self._means.clock() - self._tried >= MIN_INTERVAL

    def _fetch_soon(self) -> asyncio.Task[None]:
        """Start a fetch, or join the one that runs."""
        if self._fetching is None:
            self._tried = self._means.clock()
            self._fetching = self._means.tasks.start(self._fetch(), "issuer-keys")
        return self._fetching

    async def _fetch(self) -> None:
        try:
            keys = read_key_set(await self._document(), self._settings.algorithms)
        except (FetchError, DiscoveryError, KeySetError) as error:
            self._failed(str(error))
        else:
            self._took(keys)
        finally:
            self._fetching = None

    def _took(self, keys: KeySet) -> None:
        same = self._keys is not None and self._keys.digest == keys.digest
        if not same:
            # An equal set stays the same object, so that tokens remembered under it need no second look.
            self._keys = keys
            _log.info("issuer_keys_changed", issuer=self._label, keys=len(keys.keys))
        self._fetched = self._means.clock()
        self._failure = ""
        self._means.meters.fetched(self._label, "same" if same else "changed")

    def _failed(self, reason: str) -> None:
        self._failure = reason
        self._url = self._settings.jwks_url
        _log.warning("issuer_keys_unavailable", issuer=self._label, reason=reason)
        self._means.meters.fetched(self._label, "failed")
        self._means.meters.degraded(self._label, reason)

    async def _document(self) -> bytes:
        """Fetch the key set from where it is, which the issuer's metadata says unless the operator did."""
        if not self._url:
            self._url = await self._discovered()
        learned = not self._settings.jwks_url and not discovery.same_origin(self._url, self._settings.issuer)
        return await self._means.line.get(self._url, self._dialing(self._url, learned=learned))

    async def _discovered(self) -> str:
        failure: Exception = DiscoveryError("the issuer has no metadata")
        for place in discovery.places(self._settings.issuer):
            try:
                document = await self._means.line.get(place, self._dialing(place, learned=False))
                return discovery.keys_url(document, self._settings.issuer)
            except (FetchError, DiscoveryError) as error:
                failure = error
        raise failure

    def _dialing(self, url: str, *, learned: bool) -> Dialing:
        """Say by whose word an address is dialed: the operator's, or that of the issuer's metadata."""
        allow = tuple(ip_network(text) for text in self._settings.allow_networks)
        parts = urlsplit(url)
        plain = parts.scheme == "http" and is_loopback(parts.hostname or "")
        return Dialing(trusted=not learned, allow=allow, loopback_only=plain)
