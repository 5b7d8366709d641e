"""The store that several gateways share, against a real Valkey: every verb, TLS, passwords, and what goes wrong."""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gateway.errors import ConfigError
from gateway.state import redis
from gateway.state.gcra import Allowance
from gateway.state.redis import Address, RedisStore
from gateway.state.store import MAX_VALUE, Charge, ChargeResult, StoreRefused
from gateway.state.wire import Down
from gateway.tasks import TaskSet
from tests.kit import certificates, valkey

pytestmark = valkey.needed


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[valkey.Valkey]:
    socket = tmp_path_factory.mktemp("socket") / "v.sock"
    with valkey.running("--unixsocket", str(socket)) as server:
        yield server


@asynccontextmanager
async def store(address: Address) -> AsyncIterator[RedisStore]:
    """Connect for a block."""
    crashes: list[str] = []
    tasks = TaskSet(lambda name, error: crashes.append(f"{name}: {error!r}"))
    made = RedisStore(address, tasks)
    try:
        await made.connect()
        await made.probe()
        yield made
    finally:
        await made.aclose()
        await tasks.aclose()
    assert crashes == []


async def test_a_value_is_kept_replaced_taken_once_and_ends_by_itself(server: valkey.Valkey) -> None:
    async with store(Address(server.url)) as one, store(Address(server.url)) as other:
        await one.put("fact:1", b"\x00\xff", 60.0)
        assert await other.get("fact:1") == b"\x00\xff"
        await other.put("fact:1", b"", 60.0)
        assert await one.get("fact:1") == b""
        taken = await asyncio.gather(one.take("fact:1"), other.take("fact:1"))
        assert (taken.count(b""), taken.count(None)) == (1, 1)
        assert await one.get("fact:1") is None
        await one.put("fact:2", b"x", 60.0)
        await other.delete("fact:2")
        assert await one.get("fact:2") is None
        await one.put("fact:3", b"x", 0.001)
        async with asyncio.timeout(5):
            while await one.get("fact:3") is not None:
                await asyncio.sleep(0.001)


async def test_of_many_claims_one_is_the_first(server: valkey.Valkey) -> None:
    async with store(Address(server.url)) as one, store(Address(server.url)) as other:
        answers = await asyncio.gather(*((one, other)[n % 2].claim("mark:1", b"%d" % n, 60.0) for n in range(20)))
        assert answers.count(None) == 1
        first = b"%d" % answers.index(None)
        assert set(answers) == {None, first}


async def test_several_processes_together_admit_what_one_would(server: valkey.Valkey) -> None:
    """S80, S84: a thousand calls at once, from three stores."""
    charge = [Charge("limit:burst", Allowance(1, 3600.0, 20))]
    async with (
        store(Address(server.url)) as one,
        store(Address(server.url)) as two,
        store(Address(server.url)) as three,
    ):
        stores = (one, two, three)
        answers = await asyncio.gather(*(stores[n % 3].charge(charge) for n in range(999)))
    assert [answer.refused for answer in answers].count(None) == 20


async def test_charges_are_all_or_nothing(server: valkey.Valkey) -> None:
    wide, tight = Charge("limit:wide", Allowance(100, 3600.0, 100)), Charge("limit:tight", Allowance(1, 3600.0, 1))
    async with store(Address(server.url)) as one:
        assert await one.charge([wide, tight]) == ChargeResult()
        for _ in range(200):
            assert (await one.charge([wide, tight])).refused == 1
        assert [(await one.charge([wide])).refused for _ in range(100)] == [None] * 99 + [0]


async def test_who_waits_as_long_as_told_gets_in(server: valkey.Valkey) -> None:
    """S82: twenty times, by the server's clock."""
    charge = [Charge("limit:lone", Allowance(50, 1.0, 1))]
    async with store(Address(server.url)) as one:
        assert await one.charge(charge) == ChargeResult()
        for _ in range(20):
            refused = await one.charge(charge)
            assert refused.refused == 0
            await asyncio.sleep(refused.retry_after_ms / 1000)
            assert await one.charge(charge) == ChargeResult()


async def test_a_message_reaches_subscribers_of_every_process_and_the_sender_learns_how_many(
    server: valkey.Valkey,
) -> None:
    async with store(Address(server.url)) as one, store(Address(server.url)) as other:
        assert await one.publish("t", b"nobody") == 0
        async with one.subscribe("t") as first, one.subscribe("t") as second, other.subscribe("t") as third:
            # Two processes; each hands it to everybody in it.
            assert await other.publish("t", b"\x00all") == 2
            async with asyncio.timeout(5):
                assert [await anext(each) for each in (first, second, third)] == [b"\x00all"] * 3
            assert await other.publish("u", b"other topic") == 0
        async with asyncio.timeout(5):
            while await one.publish("t", b"gone"):
                await asyncio.sleep(0.001)


async def test_a_subscription_outlives_its_connection(server: valkey.Valkey) -> None:
    async with store(Address(server.url)) as one, one.subscribe("t") as messages:
        await one.drop()
        with pytest.raises(Down):
            await one.publish("t", b"lost")
        # Begun while there is no connection, and joined with the next one.
        async with one.subscribe("u") as later:
            await one.connect()
            await one.probe()
            assert (await one.publish("t", b"back"), await one.publish("u", b"later")) == (1, 1)
            async with asyncio.timeout(5):
                assert (await anext(messages), await anext(later)) == (b"back", b"later")


async def test_keys_have_one_prefix_and_tell_nobody_what_they_are_about(server: valkey.Valkey) -> None:
    server.command("FLUSHALL")
    async with store(Address(server.url, prefix="team")) as one:
        await one.put("session:alice-and-her-secret", b"x", 60.0)
        await one.charge([Charge("limit:5:alice", Allowance(1, 60.0, 1))])
    keys = server.command("KEYS", "*")
    assert keys.count(b"\r\nteam:") == int(keys[1 : keys.index(b"\r")])
    assert b"team:session:" in keys
    assert b"alice" not in keys


async def test_databases_and_prefixes_keep_gateways_apart_and_topics_too(server: valkey.Valkey) -> None:
    first, second = Address(server.url), Address(f"{server.url}/1")
    async with store(first) as one, store(second) as two, store(Address(server.url, prefix="b")) as three:
        await one.put("fact:1", b"x", 60.0)
        assert (await two.get("fact:1"), await three.get("fact:1")) == (None, None)
        async with one.subscribe("t"):
            assert (await two.publish("t", b""), await three.publish("t", b"")) == (0, 0)


async def test_what_is_too_long_is_refused_before_it_is_sent(server: valkey.Valkey) -> None:
    async with store(Address(server.url)) as one:
        for refused in (one.put("k", bytes(MAX_VALUE + 1), 1.0), one.claim("k", bytes(MAX_VALUE + 1), 1.0)):
            with pytest.raises(StoreRefused):
                await refused
        with pytest.raises(StoreRefused):
            await one.publish("t", bytes(MAX_VALUE + 1))
        await one.put("k", bytes(MAX_VALUE), 60.0)
        assert await one.get("k") == bytes(MAX_VALUE)


async def test_a_server_that_forgot_its_scripts_is_told_them_again(server: valkey.Valkey) -> None:
    async with store(Address(server.url)) as one:
        server.command("SCRIPT", "FLUSH")
        assert await one.claim("mark:2", b"x", 60.0) is None
        assert await one.claim("mark:2", b"y", 60.0) == b"x"


async def test_one_key_of_another_kind_is_no_failure_of_the_store(server: valkey.Valkey) -> None:
    async with store(Address(server.url)) as one:
        await one.put("fact:9", b"x", 60.0)
        key = one._key("fact:9")
        server.command("DEL", key)
        server.command("LPUSH", key, "a")
        with pytest.raises(Down) as caught:
            await one.get("fact:9")
        assert not caught.value.broken
        await one.probe()


async def test_a_unix_socket_and_the_names_of_valkey_work_too(server: valkey.Valkey) -> None:
    socket = server.options[1]
    for url in (f"unix://{socket}?db=2", f"valkey://127.0.0.1:{server.port}/2", f"redis://localhost:{server.port}/2"):
        async with store(Address(url)) as one:
            assert await one.claim("mark:3", b"x", 60.0) in (None, b"x")
            assert await one.get("mark:3") == b"x"


async def test_tls_holds_the_server_to_its_authority_and_its_name(server: valkey.Valkey, tmp_path: Path) -> None:
    authority = certificates.make("authority")
    good = certificates.make("store", authority).server_context(tmp_path)
    other = certificates.make("store", authority, host="127.0.0.9").server_context(tmp_path)
    ca = authority.write(tmp_path / "ca.pem")
    async with valkey.relayed(server.port, good) as relay:
        for scheme in ("rediss", "valkeys"):
            async with store(Address(f"{scheme}://127.0.0.1:{relay.port}", ca)) as one:
                await one.put("fact:tls", b"x", 60.0)
                assert await one.get("fact:tls") == b"x"
        # Without the authority, and without TLS.
        for address in (Address(f"rediss://127.0.0.1:{relay.port}"), Address(f"redis://127.0.0.1:{relay.port}")):
            with pytest.raises(Down):
                async with store(address):
                    pass
    async with valkey.relayed(server.port, other) as relay:
        with pytest.raises(Down, match="unreachable"):
            async with store(Address(f"rediss://127.0.0.1:{relay.port}", ca)):
                pass


async def test_a_password_is_shown_to_the_server_and_to_nobody_else(caplog: pytest.LogCaptureFixture) -> None:
    secret = "pa:ss/w@rd#1"
    caplog.set_level(logging.DEBUG)
    with valkey.running("--requirepass", secret) as locked:
        port = locked.port
        async with store(Address(f"redis://:pa%3Ass%2Fw%40rd%231@127.0.0.1:{port}/3")) as one:
            await one.put("fact:1", b"x", 60.0)
            assert secret not in repr(vars(one))
        for wrong in (f"redis://127.0.0.1:{port}", f"redis://:wrong-{'x' * 20}@127.0.0.1:{port}"):
            with pytest.raises(Down, match=r"^refused$"):
                async with store(Address(wrong)):
                    pass
    assert secret not in caplog.text
    assert "wrong-" not in caplog.text


async def test_a_user_without_the_rights_it_needs_is_found_out_at_once() -> None:
    """What it may not do would otherwise fail at the first call that needs it."""
    with valkey.running() as server:
        rules = ["on", ">pw", "~mcpgw:*", "resetchannels", "&mcpgw:*", "+@all", "-@admin", "-@dangerous"]
        server.command("ACL", "SETUSER", "gateway", *rules)
        async with store(Address(f"redis://gateway:pw@127.0.0.1:{server.port}")) as one, one.subscribe("t"):
            assert await one.publish("t", b"") == 1
        for missing in (
            "-evalsha",
            "-set",
            "-get",
            "-getdel",
            "-del",
            "-publish",
            "-subscribe",
            "resetchannels",
            "resetkeys",
        ):
            server.command("ACL", "SETUSER", "gateway", "reset", *rules, missing)
            with pytest.raises(Down):
                async with store(Address(f"redis://gateway:pw@127.0.0.1:{server.port}")):
                    pass


async def test_nobody_is_there(server: valkey.Valkey) -> None:
    nowhere = f"127.0.0.1:{valkey.free_port()}"
    for url in (f"redis://{nowhere}", "unix:///nowhere.sock", "redis://no-such-host.invalid"):
        with pytest.raises(Down, match=r"unreachable|timeout"):
            async with store(Address(url)):
                pass


def test_a_file_that_holds_no_authority_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("none")
    for name in ("ca.pem", "missing.pem"):
        with pytest.raises(ConfigError, match=r"state\.ca"):
            RedisStore(Address("rediss://127.0.0.1", str(tmp_path / name)), TaskSet(lambda name, error: None))


def test_a_missing_library_is_named_with_what_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> object:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(ConfigError) as caught:
        redis.RedisStore(Address("redis://127.0.0.1"), TaskSet(lambda name, error: None))
    assert "aiohttp-mcp-gateway[redis]" in str(caught.value.problems[0])


async def test_a_message_that_nobody_here_would_send_deafens_nobody(server: valkey.Valkey) -> None:
    """Whoever may publish can send anything; what is too long is not for us, and what comes after it is heard."""
    async with store(Address(server.url)) as one, store(Address(server.url)) as other, one.subscribe("t") as heard:
        await other._ask("PUBLISH", other._channels + "t", b"x" * (MAX_VALUE + 1))
        assert await other.publish("t", b"after") == 1
        async with asyncio.timeout(5):
            assert await anext(heard) == b"after"
