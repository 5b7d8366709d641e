"""The end of the chain: hands the call to the pool."""

from __future__ import annotations

from typing import Final, Protocol

from gateway.model.call import Call
from gateway.model.exchange import Exchange
from gateway.model.outcome import Complete, Outcome
from gateway.pipeline.interceptor import Passage
from gateway.protocol import methods, rawjson


class Servers(Protocol):
    """The pool, as far as a call needs it."""

    async def call(self, call: Call, exchange: Exchange) -> Outcome:
        """Send the call to its server and wait for the outcome."""


_HELD_BY_THE_ENDPOINT: Final = frozenset({methods.RESOURCES_SUBSCRIBE, methods.LISTEN})
"""Decided and recorded like any call; the subscription itself lives as long as its session or stream."""


class Dispatch:
    """Sends one call to its server."""

    def __init__(self, servers: Servers) -> None:
        self._servers = servers

    async def __call__(self, call: Call, passage: Passage) -> Outcome:
        if call.method in _HELD_BY_THE_ENDPOINT:
            return Complete({"resultType": rawjson.raw("complete")})
        return await self._servers.call(call, passage.exchange)
