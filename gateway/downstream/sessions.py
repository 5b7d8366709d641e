"""What the legacy era needs of HTTP beside POST: a stream to listen on, and a way to end a session."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, runtime_checkable


@runtime_checkable
class SessionTransport(Protocol):
    """A transport that can do both (2025-11-25 basic/transports §Listening for Messages, §Session Management)."""

    async def stream(self, headers: Mapping[str, str], on_open: Callable[[], None], /) -> int:
        """GET a stream and hand its messages to the inbox until it ends; returns the HTTP status.

        ``on_open`` is called when the server has agreed to the stream.

        Raises:
            DownstreamError: no answer, or the stream broke.
        """

    async def end_session(self, headers: Mapping[str, str], /) -> int:
        """DELETE the session; returns the HTTP status.

        Raises:
            DownstreamError: no answer.
        """
