"""Every store answers to one protocol."""

from __future__ import annotations

from gateway.state.gcra import Allowance
from gateway.state.memory import MemoryStore
from gateway.state.store import Charge, ChargeResult, Store, StoreRefused


async def test_the_memory_store_is_a_store() -> None:
    store: Store = MemoryStore()
    await store.put("fact:1", b"value", 60.0)
    assert await store.get("fact:1") == b"value"
    assert await store.charge([Charge("rate:1", Allowance(1, 1.0, 1))], 0.0) == ChargeResult()


def test_a_refused_charge_names_the_bucket_and_the_wait() -> None:
    result = ChargeResult(refused=2, retry_after_ms=1500)
    assert result != ChargeResult()
    assert (result.refused, result.retry_after_ms) == (2, 1500)


def test_what_a_store_refuses_says_why() -> None:
    assert str(StoreRefused("too many subscribers")) == "too many subscribers"
