"""Connects authentication to the rest: issuers' keys kept across reloads, and what is counted and audited of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from gateway.audit import events
from gateway.auth.authenticate import Authenticator
from gateway.auth.certificate import LABEL
from gateway.auth.claims import Terms
from gateway.auth.fetch import Line, context
from gateway.auth.issuer import Issuer, Means
from gateway.auth.tokens import Tokens, tokens_of
from gateway.config.access import Jwt
from gateway.config.root import Config, LoadedConfig
from gateway.protocol.rawjson import Object, Value
from gateway.tasks import TaskSet
from gateway.telemetry.metrics import Metrics

RefusedEarly = Callable[[str, str, Mapping[str, Value]], None]
"""Takes an event, the source of a request and facts: audited in sums."""


class Admission:
    """Makes the authenticator of each config; the same issuer's keys serve one after the other."""

    def __init__(self, tasks: TaskSet, metrics: Metrics, write: Callable[[Object], None]) -> None:
        self._tasks = tasks
        self._metrics = metrics
        self._write = write
        self._tokens: Tokens | None = None
        self._line: Line | None = None
        self._authorities = ""

    def authenticator(self, loaded: LoadedConfig) -> Authenticator:
        """Make what judges the callers of a config.

        Raises:
            ConfigError: ``auth.jwt.ca`` cannot be used.
        """
        self._trust(loaded)
        self._tokens = tokens_of(loaded.config, self._tokens, self._issuer, lambda: _now().timestamp())
        return Authenticator(loaded, _now, self._tokens)

    def warm(self) -> None:
        """Have the issuer's keys fetched before the first request needs them."""
        if self._tokens is not None:
            self._tokens.issuer.warm()

    def certificate_refused(self, refused: RefusedEarly) -> Callable[[str], None]:
        """Return what to tell of client certificates that failed in the handshake, where no request has a source."""

        def tell(reason: str) -> None:
            self._metrics.auth_failures_total.inc(kind="cert", reason="certificate")
            refused("auth.failed", "", {"kind": "cert", "reason": reason})

        return tell

    def fetched(self, issuer: str, result: str) -> None:
        """Count a fetch of keys."""
        self._metrics.jwks_fetches_total.inc(issuer=issuer, result=result)

    def degraded(self, issuer: str, reason: str) -> None:
        """Record that keys could not be fetched: at most every ten seconds."""
        self._write(events.gateway_event("auth.degraded", {"issuer": issuer, "reason": reason}))

    def _issuer(self, settings: Jwt) -> Issuer:
        self._line = Line(context(settings.ca), self._blocked)
        return Issuer(settings, Means(self._line, self._tasks, self))

    def _trust(self, loaded: LoadedConfig) -> None:
        """Trust what the file of authorities holds now; the issuer's keys stay."""
        jwt = loaded.config.auth.jwt
        seen = loaded.sources.files.get(Path(jwt.ca)) if jwt is not None and jwt.ca else None
        digest = seen.digest if seen is not None else ""
        if jwt is not None and self._line is not None and digest != self._authorities:
            self._line.tls = context(jwt.ca)
        self._authorities = digest

    def _blocked(self) -> None:
        self._metrics.ssrf_blocked_total.inc(purpose="jwks")


def labels(config: Config) -> Iterable[str]:
    """Return what callers may be called in metrics: clients by name, all others by how they prove themselves."""
    terms, tls = Terms.of(config), config.listen.tls
    tokens = [terms.label] if terms is not None else []
    return [*config.clients, *tokens, *([LABEL] if tls is not None and tls.client_ca else [])]


def _now() -> datetime:
    return datetime.now(UTC)
