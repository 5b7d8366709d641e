"""The handshake of the legacy era, and the session that comes of it (2025-11-25 basic/lifecycle).

Knows MCP and one transport; what is asked in the session later is the dialect's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from gateway.downstream.dialect import CLIENT_INFO, Hello, Peer, read_hello, read_object, read_string, unanswered
from gateway.downstream.modern import supported_versions
from gateway.downstream.transport import Reply, Request
from gateway.errors import DownstreamError, Reason
from gateway.protocol import headers, methods
from gateway.protocol.rawjson import Value
from gateway.protocol.versions import LATEST_LEGACY, SERVER_LEGACY, Era

MAX_SESSION_ID: Final = 1024
NOTHING: Final[Mapping[str, Value]] = MappingProxyType({})


class HandshakeRefused(DownstreamError):
    """The server answered the handshake, but not with a yes: it may be of the other era."""


class NoEndpoint(HandshakeRefused):
    """The server takes no handshake by POST: it may have the transport of 2024-11-05 there."""


_NO_ENDPOINT: Final = frozenset({400, 404, 405})
"""What such a server answers (2025-11-25 basic/transports §Backwards Compatibility)."""


@dataclass(frozen=True, slots=True, eq=False)
class Session:
    """What one handshake agreed on. ``id`` is "" where the server gave none (stdio, stateless HTTP)."""

    id: str
    hello: Hello

    def headers(self) -> dict[str, str]:
        """Return the headers of every later request (basic/transports §Session Management)."""
        named = {headers.VERSION: self.hello.version}
        return named | {headers.SESSION_ID: self.id} if self.id else named


async def handshake(peer: Peer, timeout: float, declares: Mapping[str, Value] = NOTHING) -> Session:
    """Initialize: ask for our newest legacy version and take any that we know; ``declares`` are our capabilities.

    Raises:
        HandshakeRefused: the server answered with an error or with a version that we do not speak.
        DownstreamError: there was no answer.
    """
    reply = await _initialize(peer, LATEST_LEGACY, timeout, declares)
    if reply.error is not None:
        known = sorted(SERVER_LEGACY.intersection(supported_versions(reply.error)))
        if known:
            reply = await _initialize(peer, known[-1], timeout, declares)
    if reply.error is not None:
        text = f'server "{peer.name}" refused the handshake with error {reply.error.code}'
        raise _refusal(reply)(Reason.UNAVAILABLE, text)
    if reply.result is None:
        error = unanswered(peer, reply)
        if error.reason is Reason.UNAVAILABLE:
            raise error
        raise _refusal(reply)(Reason.UNAVAILABLE, error.message)
    version = read_string(reply.result, "protocolVersion")
    if version not in SERVER_LEGACY:
        text = f'server "{peer.name}" speaks no protocol version that the gateway knows'
        raise HandshakeRefused(Reason.PROTOCOL_ERROR, text)
    info = read_object(reply.result, "serverInfo")
    hello = read_hello(Era.LEGACY, version, info, reply.result)
    session = Session(_session_id(peer, reply.headers), hello)
    await peer.transport.notify(Request(methods.INITIALIZED, None, session_headers(peer, session), timeout))
    return session


def _refusal(reply: Reply) -> type[HandshakeRefused]:
    return NoEndpoint if reply.status in _NO_ENDPOINT else HandshakeRefused


async def _initialize(peer: Peer, version: str, timeout: float, declares: Mapping[str, Value]) -> Reply:
    params = {"protocolVersion": version, "capabilities": dict(declares), "clientInfo": dict(CLIENT_INFO)}
    return await peer.request(Request(methods.INITIALIZE, params, timeout=timeout), version)


def _session_id(peer: Peer, received: Mapping[str, str]) -> str:
    """Read the session id: visible ASCII only, since it travels back in a header."""
    value = received.get(headers.SESSION_ID.lower(), "")
    if len(value) > MAX_SESSION_ID or any(not 0x21 <= ord(char) <= 0x7E for char in value):
        raise peer.error(Reason.PROTOCOL_ERROR, "gave an unusable session id")
    return value


def session_headers(peer: Peer, session: Session) -> dict[str, str]:
    """Return the headers of a request; none on a pipe."""
    return session.headers() if peer.is_http else {}
