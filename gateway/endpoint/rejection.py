"""What a request that never becomes a call is answered with. A value and its rendering; knows no socket."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gateway.protocol import jsonrpc, rawjson
from gateway.protocol.jsonrpc import ErrorObject, Id


@dataclass(frozen=True, slots=True)
class Rejection:
    """One refusal on the way in.

    ``reason`` is a short constant for metrics and audit. ``code`` None means an empty body. ``close`` ends the
    connection with the answer, which is what framing errors and unread bodies need. Texts hold no request bytes
    but what the contract names: id, name and version.
    """

    status: int
    code: int | None
    message: str
    reason: str
    id: Id | None = None
    data: Mapping[str, object] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    close: bool = False

    def body(self) -> bytes:
        """Write the JSON-RPC error, or nothing."""
        if self.code is None:
            return b""
        data = None if self.data is None else rawjson.raw(self.data)
        return jsonrpc.encode_error(self.id, ErrorObject(self.code, self.message, data))


class Rejected(Exception):
    """Carries a rejection from where it was decided to where it is answered."""

    def __init__(self, rejection: Rejection) -> None:
        super().__init__(rejection.reason)
        self.rejection = rejection
