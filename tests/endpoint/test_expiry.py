"""What outlives its request ends with the credential it came with (S52)."""

from __future__ import annotations

import asyncio
import time

from gateway.endpoint.expiry import ended_with
from gateway.model.principal import Principal


def principal(expires: float | None) -> Principal:
    return Principal("sub:i/a", "sub", "jwt:i", expires=expires)


async def test_the_end_comes_with_the_credentials_end() -> None:
    ended = asyncio.Event()
    with ended_with(principal(time.time() + 0.02), ended.set):
        async with asyncio.timeout(5):
            await ended.wait()


async def test_a_credential_that_is_over_ends_at_once() -> None:
    ended = asyncio.Event()
    with ended_with(principal(time.time() - 100), ended.set):
        async with asyncio.timeout(5):
            await ended.wait()


async def test_what_ends_before_is_left_alone() -> None:
    ended = asyncio.Event()
    with ended_with(principal(time.time() + 0.02), ended.set):
        pass
    await asyncio.sleep(0)
    with ended_with(principal(time.time() + 3600), ended.set, grace=60.0):
        await asyncio.sleep(0.05)
    assert not ended.is_set()


async def test_a_credential_without_an_end_has_none() -> None:
    with ended_with(principal(None), lambda: None):
        await asyncio.sleep(0)
