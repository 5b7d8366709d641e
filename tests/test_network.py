from __future__ import annotations

import socket
from ipaddress import ip_network

import aiohttp
import pytest
from aiohttp.abc import AbstractResolver, ResolveResult

from gateway.network import AddrInfo, Dialing, Refused, factory, is_loopback, judge, networks

PUBLIC = ["1.1.1.1", "93.184.215.14", "2606:4700:4700::1111", "64:ff9b::101:101", "2002:101:101::1", "::ffff:1.1.1.1"]

LOCAL = [
    "127.0.0.1",
    "127.255.255.254",
    "::1",
    "::ffff:127.0.0.1",
    "10.0.0.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "100.64.0.1",
    "fd12:3456::1",
    "fec0::1",
    "::ffff:10.0.0.1",
    "64:ff9b::a00:1",
    "64:ff9b:1::a00:1",
    "2002:a00:1::1",
]
"""Where internal tools live: for the operator's own urls."""

NEVER = [
    "0.0.0.0",
    "0.1.2.3",
    "::",
    "169.254.0.1",
    "169.254.169.254",
    "fe80::1",
    "fe80::1%eth0",
    "100.100.100.200",
    "192.0.0.192",
    "168.63.129.16",
    "fd00:ec2::254",
    "224.0.0.1",
    "239.255.255.250",
    "ff02::1",
    "240.0.0.1",
    "255.255.255.255",
    "::ffff:169.254.169.254",
    "::ffff:a9fe:a9fe",
    "::169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::a9fe:a9fe",
    "64:ff9b:1:a9fe:a9:fe00::",
    "2002:a9fe:a9fe::1",
    "2001:0:a9fe:a9fe::1",
    "2001:0:101:101::5601:5601",
    "2002:6464:64c8::1",
    "not an address",
    "127.1",
]

NOT_PUBLIC = [
    "192.0.0.1",
    "192.0.2.1",
    "192.88.99.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "2001:db8::1",
    "3fff::1",
    "100::1",
    "5f00::1",
    "::127.0.0.1",
    "64:ff9b::7f00:1",
    "2002:7f00:1::1",
    "2001:0:101:101::80ff:fffe",
    "4000::1",
]
"""Nothing a name learned from others may lead to, though no place for credentials either."""


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_may_be_dialed_by_everybody(address: str) -> None:
    assert judge(address, trusted=False) is None
    assert judge(address, trusted=True) is None


@pytest.mark.parametrize("address", LOCAL)
def test_local_addresses_are_for_the_operators_own_urls(address: str) -> None:
    """S118"""
    assert judge(address, trusted=True) is None
    assert judge(address, trusted=False) is not None


@pytest.mark.parametrize("address", NEVER)
def test_link_local_metadata_and_reserved_addresses_are_for_nobody(address: str) -> None:
    """S118, and nobody can allow them."""
    everything = networks(["0.0.0.0/0", "::/0"])
    assert judge(address, trusted=True, allow=everything) is not None
    assert judge(address, trusted=False, allow=everything) is not None


@pytest.mark.parametrize("address", NOT_PUBLIC)
def test_addresses_that_are_not_public_are_not_for_learned_urls(address: str) -> None:
    assert judge(address, trusted=False) is not None


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("10.1.2.3", "10.1.0.0/16"),
        ("::ffff:10.1.2.3", "10.1.0.0/16"),
        ("fd12::1", "fd12::/16"),
        ("127.0.0.1", "127.0.0.1/8"),
    ],
)
def test_allowed_networks_open_private_ranges(address: str, network: str) -> None:
    assert judge(address, trusted=False, allow=networks([network])) is None
    assert judge(address, trusted=False, allow=networks(["10.2.0.0/16"])) is not None


def test_a_network_that_is_none_is_an_error() -> None:
    with pytest.raises(ValueError, match="nonsense"):
        networks(["nonsense"])
    assert networks(["10.0.0.5/8"]) == (ip_network("10.0.0.0/8"),)


@pytest.mark.parametrize(
    ("address", "expected"), [("127.0.0.1", True), ("::1", True), ("::ffff:127.0.0.9", True), ("10.0.0.1", False)]
)
def test_loopback_is_recognised(address: str, expected: bool) -> None:
    assert is_loopback(address) is expected


def info(address: str) -> AddrInfo:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, 80)


def test_a_refused_address_gets_no_socket_and_is_not_named() -> None:
    with pytest.raises(Refused, match="must not be dialed") as caught:
        factory(Dialing(trusted=True))(info("169.254.169.254"))
    assert caught.value.strerror == "its address must not be dialed: link-local"


def test_an_allowed_address_gets_a_socket() -> None:
    factory(Dialing(trusted=True))(info("::1")).close()


def test_loopback_only_means_it() -> None:
    dialing = Dialing(trusted=True, loopback_only=True)
    with pytest.raises(Refused, match="loopback"):
        factory(dialing)(info("10.0.0.1"))
    factory(dialing)(info("127.0.0.1")).close()


class Rebinding(AbstractResolver):
    """Answers with another address each time, the last one for ever."""

    def __init__(self, *addresses: str) -> None:
        self.addresses = list(addresses)

    async def resolve(self, host: str, port: int = 0, family: int = socket.AF_INET) -> list[ResolveResult]:
        address = self.addresses.pop(0) if len(self.addresses) > 1 else self.addresses[0]
        kind = socket.AF_INET6 if ":" in address else socket.AF_INET
        return [
            ResolveResult(hostname=host, host=address, port=port, family=kind, proto=0, flags=socket.AI_NUMERICHOST)
        ]

    async def close(self) -> None:
        """Nothing to close."""


@pytest.fixture
def listener() -> object:
    """A real listening socket that must never be connected to."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield server


async def dial(url: str, resolver: AbstractResolver | None = None) -> None:
    connector = aiohttp.TCPConnector(socket_factory=factory(Dialing()), resolver=resolver, use_dns_cache=False)
    async with aiohttp.ClientSession(connector=connector) as session, session.get(url):
        pass


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.1",
        "0x7f000001",
        "2130706433",
        "0177.0.0.1",
        "0",
        "0.0.0.0",
        "[::]",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "①②⑦.0.0.1",
        "localhost",
        "localhost.",
    ],
)
async def test_no_spelling_of_this_machine_is_ever_connected_to(host: str, listener: socket.socket) -> None:
    """S118, M21: literals are not shown to a resolver, so the check is where sockets are made."""
    port = listener.getsockname()[1]
    with pytest.raises((aiohttp.ClientError, ValueError)):
        await dial(f"http://{host}:{port}/")
    with pytest.raises(BlockingIOError):
        listener.accept()


@pytest.mark.parametrize("address", ["127.0.0.1", "169.254.169.254", "::1", "64:ff9b::a9fe:a9fe"])
async def test_what_counts_is_what_a_name_resolves_to(address: str, listener: socket.socket) -> None:
    port = listener.getsockname()[1]
    with pytest.raises(aiohttp.ClientConnectorError, match="must not be dialed"):
        await dial(f"http://friendly.example:{port}/", Rebinding(address))
    with pytest.raises(BlockingIOError):
        listener.accept()


async def test_a_name_that_changes_its_address_is_judged_each_time(listener: socket.socket) -> None:
    """S118: DNS rebinding."""
    port = listener.getsockname()[1]
    resolver = Rebinding("127.0.0.1")
    dialing = Dialing(allow=networks(["127.0.0.0/8"]))
    connector = aiohttp.TCPConnector(socket_factory=factory(dialing), resolver=resolver, use_dns_cache=False)
    async with aiohttp.ClientSession(connector=connector) as session:
        listener.close()
        with pytest.raises(aiohttp.ClientConnectorError, match=r"refused|Connect call failed"):
            await session.get(f"http://friendly.example:{port}/")
        resolver.addresses = ["169.254.169.254"]
        with pytest.raises(aiohttp.ClientConnectorError, match="must not be dialed: link-local"):
            await session.get(f"http://friendly.example:{port}/")
