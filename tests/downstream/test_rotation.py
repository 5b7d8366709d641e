from __future__ import annotations

from gateway.config.servers import Server
from gateway.downstream.authorizer import Refusal
from gateway.downstream.rotation import INTERVAL, RotatingHeaders, nothing_new


def server(token: str = "old", **settings: object) -> Server:
    return Server.model_validate({"url": "http://x/mcp", "headers": {"Authorization": token}, **settings})


class Files:
    """What the config says now; counts how often it is read."""

    def __init__(self, now: Server | None) -> None:
        self.now = now
        self.reads = 0

    async def __call__(self, name: str) -> Server | None:
        self.reads += 1
        return self.now


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


async def refused(one: RotatingHeaders, status: int = 401) -> bool:
    return await one.refused(Refusal(status, await one.headers()))


async def test_a_newer_value_is_read_once_and_sent() -> None:
    """G099: a rotated token does not latch the server off."""
    clock, files = Clock(), Files(server("new"))
    one = RotatingHeaders("a", server(), files, clock)
    assert await one.headers() == {}
    assert await refused(one)
    assert await one.headers() == {"Authorization": "new"}
    assert not await refused(one), "not read again at once"
    clock.now += INTERVAL
    assert not await refused(one), "nothing newer is there"
    assert files.reads == 2


async def test_a_request_that_was_sent_with_the_old_value_just_goes_again() -> None:
    files = Files(server("new"))
    one = RotatingHeaders("a", server(), files)
    before = await one.headers()
    assert await refused(one)
    assert await one.refused(Refusal(401, before))
    assert files.reads == 1


async def test_only_values_of_the_same_headers_of_the_same_server_are_taken() -> None:
    """S49: a value that belongs to another address is not sent to this one."""
    for other in (
        None,
        server("new", url="http://other/mcp"),
        server("new", tls={"insecure": True}),
        Server.model_validate({"url": "http://x/mcp", "headers": {"X-Key": "new"}}),
        server("old"),
    ):
        one = RotatingHeaders("a", server(), Files(other))
        assert not await refused(one)
        assert await one.headers() == {}


async def test_without_headers_or_without_a_401_nothing_is_read() -> None:
    files = Files(server("new"))
    assert not await refused(RotatingHeaders("a", server(), files), 403)
    assert not await refused(RotatingHeaders("a", Server.model_validate({"url": "http://x/mcp"}), files))
    assert files.reads == 0
    assert await nothing_new("a") is None
