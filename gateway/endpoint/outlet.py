"""A call's way back to its client while it runs: progress and log messages, onto the call's own stream.

Only what the request asked for passes (S94): progress under its own token and only rising, logs from its level up,
each at a bounded rate. Everything else a server sends in between stops here.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from gateway.endpoint.stream import CallStream
from gateway.protocol import jsonrpc, meta, methods, rawjson
from gateway.protocol.jsonrpc import Id
from gateway.protocol.rawjson import JsonError, Members, Value

PROGRESS_RATE: Final = 20
LOG_RATE: Final = 100
"""Messages of a call per second, and as many at once."""


class Bucket:
    """``rate`` messages a second, saved up to one second's worth. ``clock`` gives monotonic seconds."""

    def __init__(self, rate: int, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._clock = clock
        self._tokens = float(rate)
        self._at = clock()

    def take(self) -> bool:
        """Take one message's worth, if there is any."""
        now = self._clock()
        self._tokens = min(float(self._rate), self._tokens + (now - self._at) * self._rate)
        self._at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


class Outlet:
    """Takes a call's notifications; made to be ``Exchange.notify``."""

    def __init__(
        self,
        stream: CallStream,
        token: Id | None,
        log_level: str | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = stream
        self._token = token
        self._threshold = meta.LOG_LEVELS.index(log_level) if log_level is not None else None
        self._clock = clock
        self._buckets: dict[str, Bucket] = {}
        self._reached: float | None = None
        self._held: bytes | None = None

    def notify(self, method: str, params: Members) -> None:
        """Pass a notification on, hold it back for the sake of the rate, or drop it. Never blocks."""
        try:
            if method == methods.PROGRESS:
                self._on_progress(params)
            elif method == methods.LOG_MESSAGE and self._wants(params) and self._may(method, LOG_RATE):
                self._stream.send(jsonrpc.encode_notification(method, _clean(params)))
        except JsonError:
            # A server's unreadable notification is nothing the client could use either.
            return

    def flush(self) -> None:
        """Send the last progress that was held back; the answer follows."""
        if self._held is not None:
            self._stream.send(self._held)
            self._held = None

    def _on_progress(self, params: Members) -> None:
        value = rawjson.decode_value(params["progress"]) if "progress" in params else None
        if self._token is None or not _is_number(value) or not isinstance(value, (int, float)):
            return
        if self._reached is not None and value <= self._reached:
            return
        self._reached = value
        told = _clean(params) | {"progressToken": rawjson.raw(self._token)}
        event = jsonrpc.encode_notification(methods.PROGRESS, told)
        if self._may(methods.PROGRESS, PROGRESS_RATE):
            self._held = None
            self._stream.send(event)
        else:
            self._held = event

    def _may(self, method: str, rate: int) -> bool:
        if method not in self._buckets:
            self._buckets[method] = Bucket(rate, self._clock)
        return self._buckets[method].take()

    def _wants(self, params: Members) -> bool:
        level = rawjson.decode_value(params["level"]) if "level" in params else None
        if self._threshold is None or not isinstance(level, str) or level not in meta.LOG_LEVELS:
            return False
        return meta.LOG_LEVELS.index(level) >= self._threshold


def _is_number(value: Value) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _clean(params: Members) -> Members:
    """Drop a server's reserved ``_meta`` keys; the rest goes on as it is."""
    own = params.get("_meta")
    if own is None:
        return params
    kept = meta.strip_reserved(rawjson.decode_members(own))
    rest = {key: item for key, item in params.items() if key != "_meta"}
    return rest | {"_meta": rawjson.raw(kept)} if kept else rest
