"""The connections of single principals as sources of lists, for a server whose lists depend on who asks.

Knows one server; what is read and when is for others to say.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gateway.downstream.connection import Connection
from gateway.downstream.hooks import Hooks
from gateway.downstream.oauth import signin
from gateway.downstream.oauth.credentials import Credentials
from gateway.downstream.oauth.errors import NoToken
from gateway.downstream.placement import Placement
from gateway.model.call import Call
from gateway.model.catalog import Kind
from gateway.model.outcome import Complete, Outcome
from gateway.model.principal import Principal
from gateway.protocol import rawjson
from gateway.protocol.rawjson import Value


class Own:
    """Lends connections of one server, and passes on what it says of its lists."""

    def __init__(self, name: str, hooks: Hooks, credentials: Credentials, placement: Placement) -> None:
        self._name = name
        self._hooks = hooks
        self._credentials = credentials
        self._placement = placement

    @property
    def _is_personal(self) -> bool:
        return self._placement.server.catalog == "principal"

    @asynccontextmanager
    async def borrowed(self, principal: Principal) -> AsyncIterator[Connection]:
        """Lend the connection that a principal's calls use, opened where there is none; it is not idle meanwhile.

        Raises:
            DownstreamError: there is none now.
        """
        self._credentials.calls(principal)
        if self._credentials.lacks(principal):
            # Not by a failed start: whoever comes with a token a moment later would have to wait for the next one.
            raise NoToken(f'server "{self._name}" serves only callers who signed in with a token of their own')
        slot = self._placement.own_slot(principal)
        with slot.use():
            yield await slot.get()

    def answers(self, call: Call) -> bool:
        """Tell whether a call is one of the gateway's own tool, which no server ever sees."""
        return self._is_personal and signin.is_tool(call)

    async def signed_in(self, call: Call) -> Outcome:
        """Answer the call of somebody who wanted to sign in, by what their own connection says of that.

        Raises:
            DownstreamError: there is none now; ``ConsentNeeded`` where they have not signed in.
        """
        async with self.borrowed(call.principal):
            text = f"Signed in to {self._name}. Its tools are listed from now on: read the list of tools again."
        content: list[Value] = [{"type": "text", "text": text}]
        return Complete({"resultType": rawjson.raw("complete"), "content": rawjson.raw(content)})

    def outdated(self, kinds: frozenset[Kind]) -> None:
        """Take word on the connection that everybody shares: of such a server it is about everybody's own lists."""
        for slot in self._placement.slots if self._is_personal else ():
            if slot.connection is not None and slot.connection.offer is not None:
                slot.connection.offer.changed()
        self._hooks.on_change(self._name, kinds)

    def changed(self, whose: str, kinds: frozenset[Kind]) -> None:
        """Take word that the lists of one principal have changed, or may be had now; no news of other servers."""
        if self._is_personal:
            self._hooks.on_own_change(self._name, whose, kinds)

    def retry(self) -> None:
        """Let the next connection of everybody be opened at once."""
        for slot in self._placement.slots:
            if slot.connection is None:
                slot.retry()
