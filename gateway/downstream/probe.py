"""Finds the era of a server (2026-07-28 basic/versioning §Backward Compatibility, and both bindings' pages).

Judges one answer to one question; opening, restarting and remembering are the connection's (S128).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gateway.downstream.dialect import Hello, Peer, unanswered
from gateway.downstream.modern import discovery, read_discovery, supported_versions
from gateway.downstream.transport import Reply
from gateway.errors import DownstreamError, Reason
from gateway.protocol import codes
from gateway.protocol.versions import MODERN, SERVER_LEGACY, Era

_MODERN_CODES: Final = frozenset({codes.HEADER_MISMATCH, codes.MISSING_CLIENT_CAPABILITY, codes.UNSUPPORTED_VERSION})
_NO_EVIDENCE: Final = frozenset({401, 402, 403, 407, 408, 425, 429, 451})
"""Statuses that any server may give to anybody: they say nothing of the era, nor do 5xx."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a probe found. ``hello`` is set for a modern server; ``certain`` is not set where silence was the answer."""

    era: Era
    hello: Hello | None = None
    certain: bool = True


async def probe(peer: Peer, timeout: float) -> Finding:
    """Ask ``server/discover`` and judge what comes back within ``timeout`` seconds.

    Raises:
        DownstreamError: there is no evidence, or a modern server that speaks no version we know.
    """
    try:
        reply = await peer.request(discovery(timeout, peer), MODERN)
        if reply.error is not None and MODERN in supported_versions(reply.error):
            # It refused the very version that it says it speaks: as with any request, once more (basic/versioning).
            reply = await peer.request(discovery(timeout, peer), MODERN)
    except DownstreamError as error:
        if peer.is_http:
            if error.reason is Reason.PROTOCOL_ERROR:
                return Finding(Era.LEGACY, certain=False)
            raise
        if error.reason is Reason.TOO_LARGE:
            raise
        # Legacy servers may be silent before the handshake, or give up (stdio §Backward Compatibility).
        return Finding(Era.LEGACY, certain=False)
    return judge(peer, reply)


def judge(peer: Peer, reply: Reply) -> Finding:
    """Tell the era from an answer to ``server/discover``.

    Raises:
        DownstreamError: the answer is no evidence, or there is no version in common.
    """
    if reply.status in _NO_EVIDENCE or reply.status >= 500:
        raise unanswered(peer, reply)
    if reply.error is not None and reply.error.code in _MODERN_CODES:
        return _common(peer, None, supported_versions(reply.error))
    found = read_discovery(reply.result) if reply.result is not None else None
    return _common(peer, *found) if found is not None else Finding(Era.LEGACY)


def _common(peer: Peer, hello: Hello | None, supported: tuple[str, ...]) -> Finding:
    """Choose a version that a modern server says it supports; never guess one that it does not name."""
    if hello is not None and MODERN in supported:
        return Finding(Era.MODERN, hello)
    if MODERN not in supported and SERVER_LEGACY.intersection(supported):
        return Finding(Era.LEGACY)
    raise peer.error(Reason.PROTOCOL_ERROR, "is modern, but accepts no request of the gateway's version")
