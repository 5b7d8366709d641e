"""A call's way back to its client while it runs: what is told of it, onto the call's own stream.

Only what the request asked for passes (S94): progress under its own token and only rising, whoever tells of it, logs
from its level up. The pace was set where they came in.
"""

from __future__ import annotations

from gateway.endpoint.stream import CallStream
from gateway.protocol import jsonrpc, meta, methods, rawjson
from gateway.protocol.jsonrpc import Id
from gateway.protocol.rawjson import JsonError, Members


class Outlet:
    """Takes a call's notifications; ``notify`` is made to be ``Exchange.notify``."""

    def __init__(self, stream: CallStream, token: Id | None, log_level: str | None) -> None:
        self._stream = stream
        self._token = token
        self._log_level = log_level
        self._reached: float | None = None

    def notify(self, method: str, params: Members) -> None:
        """Send a notification, or drop it; so is one that the stream has no room for. Never blocks."""
        if method == methods.PROGRESS:
            if self._token is None or not self._rises(params):
                return
            params = params | {meta.PROGRESS_TOKEN: rawjson.raw(self._token)}
        elif method == methods.LOG_MESSAGE and not meta.is_logged(rawjson.peek(params.get("level")), self._log_level):
            return
        self._stream.offer(jsonrpc.encode_notification(method, params))

    def _rises(self, params: Members) -> bool:
        try:
            value = rawjson.decode_value(params["progress"]) if "progress" in params else None
        except JsonError:
            return False
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return False
        if self._reached is not None and value <= self._reached:
            return False
        self._reached = value
        return True
