"""Remembers calls for as long as a policy wants to hear of the same one again. Keys hold digests, never arguments."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Final

from gateway.model.call import Call
from gateway.policy.decision import Repeat
from gateway.policy.limits import store_key
from gateway.protocol import rawjson
from gateway.state.store import Store

LONGEST: Final = 600.0
"""Seconds for which a call that has not ended is remembered, besides the window: as long as calls usually may take."""


@dataclass(slots=True)
class Memory:
    """One call as it is remembered: by which rules, under which keys, and those that it took first."""

    keys: dict[Repeat, str]
    taken: set[Repeat] = field(default_factory=set)
    met: dict[Repeat, str] = field(default_factory=dict)
    """Rules that know the same call, with the id of that call."""


class Repeats:
    """The calls of a short while, by principal, tool and arguments: each rule has a memory of its own."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def meet(self, call: Call, rules: tuple[Repeat, ...]) -> Memory:
        """Remember a call, and tell which rules remember another one like it."""
        memory = self.known(call, rules)
        for rule, key in memory.keys.items():
            earlier = await self._store.claim(key, call.id.encode(), rule.window + LONGEST)
            if earlier is None:
                memory.taken.add(rule)
            else:
                memory.met[rule] = earlier.decode()
        return memory

    def known(self, call: Call, rules: tuple[Repeat, ...]) -> Memory:
        """Return the memory of a call that goes on, which is no other call."""
        arguments = hashlib.sha256(rawjson.canonical_decoded(call.arguments)).hexdigest()
        target = call.target
        return Memory(
            {
                rule: store_key("repeat", rule.policy, call.principal.id, target.server, target.name, arguments)
                for rule in rules
            }
        )

    async def forget(self, memory: Memory) -> None:
        """Forget a call that was not made."""
        for rule in memory.taken:
            await self._store.delete(memory.keys[rule])

    async def keep(self, call: Call, memory: Memory) -> None:
        """Begin the windows of a call that was made, now that it has ended."""
        for rule, key in memory.keys.items():
            await self._store.put(key, call.id.encode(), rule.window)
