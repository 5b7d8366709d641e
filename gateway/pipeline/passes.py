"""What lets the next round of an approved call through: once, where sending it again would run it again.

In the store, since the client may come back to another replica; sealed there, since a pass is as good as a yes.
"""

from __future__ import annotations

from gateway.model.call import Call
from gateway.pipeline.interceptor import Approved
from gateway.policy.limits import PASS_SECONDS, store_key
from gateway.protocol import rawjson
from gateway.protocol.rawjson import JsonError, Object
from gateway.state.sealing import Sealer, SealError
from gateway.state.store import Store

_PURPOSE = "approval-pass"


class Passes:
    """The passes of all calls that go on."""

    def __init__(self, store: Store, sealer: Sealer) -> None:
        self._store = store
        self._sealer = sealer

    async def give(self, call: Call, approved: Approved, *, held: bool) -> None:
        """Let the round after this one pass.

        ``held``: the call waits, open at its server, and a repeat of its round runs nothing but gets the same result.
        """
        key = _key(call, call.round + 1)
        said: Object = {"id": approved.id, "by": [*approved.by], "held": held}
        token = self._sealer.seal(_PURPOSE, rawjson.encode(said), key.encode(), PASS_SECONDS)
        await self._store.put(key, token.encode(), PASS_SECONDS)

    async def take(self, call: Call) -> Approved | None:
        """Spend the pass of this round; None where there is none, or not any more."""
        key = _key(call, call.round)
        said = self._opened(key, await self._store.get(key))
        if said is None or said.get("held") is not True:
            # Of two that come at once, one gets it.
            said = self._opened(key, await self._store.take(key))
        if said is None:
            return None
        by = said.get("by")
        return Approved(str(said.get("id")), tuple(str(name) for name in by) if isinstance(by, list) else ())

    def _opened(self, key: str, token: bytes | None) -> Object | None:
        if token is None:
            return None
        try:
            said = rawjson.decode_value(self._sealer.open(_PURPOSE, token.decode("ascii", "replace"), key.encode()))
        except (SealError, JsonError):
            return None
        return said if isinstance(said, dict) else None


def _key(call: Call, number: int) -> str:
    return store_key("approved", call.id, str(number))
