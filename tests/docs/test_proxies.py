"""Every proxy of docs/reverse-proxy.md, the real program with the page's config, in front of a real gateway."""

from __future__ import annotations

import asyncio
import io
import json
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import aiohttp
import pytest
import yaml
from aiohttp.abc import AbstractResolver, ResolveResult
from cryptography import x509

from gateway.endpoint.stream import HEARTBEAT
from tests.kit.certificates import make
from tests.kit.field import scripted
from tests.kit.gateway import Gateway, serving
from tests.kit.proxies import BLOCKS, HOST, OF_THE_MACHINE, PROXIES, proxied, where
from tests.kit.wire import HttpClient, call, modern_meta

Json: TypeAlias = dict[str, Any]

KEY: Final = "k" * 43
WAIT: Final = 5.0
LARGE: Final = 3_500_000
NAMES: Final = list(PROXIES)


class Nearby(AbstractResolver):
    """Every name is this machine."""

    async def resolve(self, host: str, port: int = 0, family: int = 0) -> list[ResolveResult]:
        return [ResolveResult(hostname=host, host="127.0.0.1", port=port, family=2, proto=0, flags=0)]

    async def close(self) -> None:
        return


@dataclass(frozen=True)
class Site:
    """A proxy and the gateway behind it."""

    gateway: Gateway
    port: int
    trust: str

    @asynccontextmanager
    async def session(self, host: str = HOST, source: str = "127.0.0.1") -> AsyncIterator[aiohttp.ClientSession]:
        """Open connections to the proxy as clients do, from a loopback address of one's own choice."""
        context = ssl.create_default_context(cafile=self.trust)
        sockets: list[socket.socket] = []

        def dial(address: aiohttp.AddrInfoType) -> socket.socket:
            sockets.append(socket.socket(*address[:3]))
            return sockets[-1]

        connector = aiohttp.TCPConnector(ssl=context, resolver=Nearby(), local_addr=(source, 0), socket_factory=dial)
        async with aiohttp.ClientSession(connector=connector, headers={"Host": host}) as session:
            yield session
        await _closed(sockets)

    def url(self, path: str = "/mcp") -> str:
        return f"https://{HOST}:{self.port}{path}"


async def _closed(sockets: list[socket.socket]) -> None:
    """Wait until connections are gone: TLS says goodbye for up to 30 s where a proxy stopped reading."""
    for opened in sockets:
        with suppress(OSError):
            opened.shutdown(socket.SHUT_RDWR)
    async with asyncio.timeout(WAIT):
        while any(opened.fileno() >= 0 for opened in sockets):
            await asyncio.sleep(0.01)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """Serve the page's config with another server, and an issuer that need not be there."""
    [block] = [block for block in BLOCKS if block.first == "# gateway.yaml"]
    config: Json = yaml.safe_load(block.text)
    config["listen"].pop("host")
    config["clients"] = {"ci-bot": {"key": KEY}}
    config["servers"] = {"wiki": scripted(asks=["elicitation"], isolation="principal")}
    config["auth"] = {"jwt": {"issuer": "http://127.0.0.1:9", "audience": config["listen"]["public_url"]}}
    with serving(tmp_path_factory.mktemp("gateway"), config) as running:
        running.await_servers("wiki")
        yield running


@pytest.fixture(scope="module", params=NAMES)
def site(request: pytest.FixtureRequest, gateway: Gateway, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp(request.param)
    own = make("authority")
    certificate = make(HOST, own, names=[x509.DNSName(HOST)])
    trust = own.write(folder / "ca.pem")
    files = certificate.write(folder / "mcp.crt"), certificate.write_key(folder / "mcp.key")
    with proxied(request.param, folder / "proxy", gateway.port, *files) as port:
        yield Site(gateway, port, trust)


async def test_a_modern_call_is_answered(site: Site) -> None:
    async with site.session() as session:
        answer = await call(HttpClient(session, site.url(), "modern", KEY), "wiki__echo", {"word": "hello"})

    assert answer.status == 200
    assert "hello" in json.dumps(answer.result)


async def test_a_question_of_a_server_arrives_while_the_call_is_open(site: Site) -> None:
    """Behind a proxy that buffers it would come with the answer, which would never come."""
    async with site.session() as session:
        client = HttpClient(session, site.url(), "legacy", KEY)
        params = {
            "protocolVersion": "2025-11-25",
            "capabilities": {"elicitation": {"form": {}}},
            "clientInfo": {"name": "proxied", "version": "1"},
        }
        await client.request("initialize", params)
        head = {**client.head, "Accept": "application/json, text/event-stream", "Mcp-Session-Id": client.session_id}
        head["MCP-Protocol-Version"] = "2025-11-25"
        asked = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "wiki__ask", "arguments": {}}}
        async with session.post(site.url(), json=asked, headers=head) as stream:
            messages = _messages(stream)
            question = await anext(messages)
            assert question["method"] == "elicitation/create"
            reply = {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {"word": "yes"}}}
            async with session.post(site.url(), json=reply, headers=head) as accepted:
                assert accepted.status == 202
            answer = await anext(messages)
        async with session.delete(site.url(), headers=head) as ended:
            assert ended.status < 300
    assert "yes" in json.dumps(answer["result"])


async def _messages(stream: aiohttp.ClientResponse) -> AsyncIterator[Json]:
    async with asyncio.timeout(WAIT):
        async for line in stream.content:
            if line.startswith(b"data:") and line[5:].strip():
                yield json.loads(line[5:])


async def test_a_large_body_passes_and_one_over_the_bound_does_not(site: Site) -> None:
    params = {"name": "wiki__echo", "arguments": {"word": "x" * LARGE}, "_meta": modern_meta()}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    async with site.session() as session:
        client = HttpClient(session, site.url(), "modern", KEY)
        head = {**client.head, "Mcp-Method": "tools/call", "Mcp-Name": "wiki__echo"}
        async with session.post(site.url(), data=io.BytesIO(body.encode()), headers=head) as passed:
            text = await passed.text()
            assert passed.status == 200, text[:500]
        try:
            async with session.post(site.url(), data=io.BytesIO(b"x" * 5_000_000), headers=head) as refused:
                status = refused.status
        except aiohttp.ClientError:
            # Some close the connection on what they do not read.
            status = 413

    assert len(text) > LARGE
    assert status == 413


async def test_the_address_of_a_caller_counts_and_a_forged_one_does_not(site: Site) -> None:
    before = len(site.gateway.records())
    async with site.session(source="127.9.8.7") as session:
        for name in ("X-Forwarded-For", "x-forwarded-for"):
            headers = {name: "203.0.113.77", "Content-Type": "application/json"}
            async with session.post(site.url(), data=b"{}", headers={**headers, "Authorization": "Bearer no"}) as reply:
                assert reply.status in (401, 429)
        await call(HttpClient(session, site.url(), "modern", KEY), "wiki__whoami")

    records = site.gateway.records()[before:]
    calls = [record for record in records if record["event"].startswith("call.")]
    # The end of an earlier test's call may be written during this one.
    seen = {record["src"]["ip"] for record in calls if record["tool"]["name"] == "whoami"}
    assert seen == {"127.9.8.0/24"}


async def test_a_foreign_host_gets_nothing_of_the_gateway(site: Site) -> None:
    headers = {"Authorization": f"Bearer {KEY}"}
    async with (
        site.session(host="evil.example.com") as session,
        session.post(site.url(), data=b"{}", headers=headers) as reply,
    ):
        status, text = reply.status, await reply.text()

    assert status in (404, 421) or (status == 200 and text == ""), (status, text)


async def test_documents_for_clients_pass_and_nothing_else_does(site: Site) -> None:
    async with site.session() as session:
        for path in ("/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"):
            async with session.get(site.url(path)) as reply:
                assert (await reply.json())["resource"] == f"https://{HOST}/mcp"
        async with session.get(site.url("/mcp/"), headers={"Authorization": f"Bearer {KEY}"}) as slash:
            assert slash.status == 404
        for path in ("/", "/metrics", "/mcpx", "/.well-known/other"):
            async with session.get(site.url(path)) as reply:
                assert reply.status == 404, path


async def test_a_stream_that_is_quiet_stays_open(gateway: Gateway, tmp_path: Path) -> None:
    """All proxies at once, since each takes as long: with the timeouts of the page a comment comes through each."""
    own = make("authority")
    certificate = make(HOST, own, names=[x509.DNSName(HOST)])
    trust = own.write(tmp_path / "ca.pem")
    files = certificate.write(tmp_path / "mcp.crt"), certificate.write_key(tmp_path / "mcp.key")

    names = [name for name in NAMES if name not in OF_THE_MACHINE or where(name)]
    with ExitStack() as stack:
        ports = [stack.enter_context(proxied(name, tmp_path / name, gateway.port, *files)) for name in names]
        comments = await asyncio.gather(*(_comment(Site(gateway, port, trust)) for port in ports))
    assert dict(zip(names, comments, strict=True)) == dict.fromkeys(names, True)


async def _comment(site: Site) -> bool:
    """Listen to changes, of which there are none, until a comment comes."""
    params = {"notifications": {"toolsListChanged": True}, "_meta": modern_meta()}
    body = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}
    async with site.session() as session:
        client = HttpClient(session, site.url(), "modern", KEY)
        head = {**client.head, "Mcp-Method": "subscriptions/listen"}
        async with session.post(site.url(), json=body, headers=head) as stream, asyncio.timeout(HEARTBEAT + WAIT):
            async for line in stream.content:
                if line.startswith(b":"):
                    return True
    return False


def test_every_config_of_the_page_is_run() -> None:
    assert {block.heading for block in BLOCKS if block.mark[:1] == ("by",)} == set(PROXIES)
