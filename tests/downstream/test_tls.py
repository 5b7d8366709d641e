from __future__ import annotations

import asyncio
import hashlib
import ssl
from pathlib import Path

import pytest

from gateway.config.servers import Server, ServerTls
from gateway.downstream.client import HttpClient
from gateway.downstream.tls import context, key_digest
from gateway.downstream.transport import Departure
from gateway.errors import DownstreamError, Reason
from tests.kit import certificates
from tests.kit.certificates import Certificate
from tests.kit.http_server import Exchange, HttpServer, serving


@pytest.fixture(scope="module")
def authority() -> Certificate:
    return certificates.make("authority")


async def fine(exchange: Exchange) -> None:
    await exchange.json({})


async def reach(server: HttpServer, **tls: object) -> str:
    """Send one request; returns the digest of the key that was seen."""
    client = HttpClient(Server.model_validate({"url": server.url, "tls": tls}))
    try:
        response = await client.send("POST", {}, b"secret", Departure())
        response.close()
        return client.key_digest
    finally:
        await client.aclose()


async def refused(server: HttpServer, **tls: object) -> str:
    with pytest.raises(DownstreamError) as caught:
        await reach(server, **tls)
    assert (caught.value.reason, caught.value.may_have_run) == (Reason.UNAVAILABLE, False)
    assert server.seen == []
    assert str(server.port) not in caught.value.message
    return caught.value.message


async def test_a_server_signed_by_the_configured_authority_is_reached(tmp_path: Path, authority: Certificate) -> None:
    leaf = certificates.make("server", authority)
    async with serving(fine, leaf.server_context(tmp_path)) as server:
        digest = await reach(server, ca=authority.write(tmp_path / "ca.pem"))
        assert digest == hashlib.sha256(leaf.spki).hexdigest()
        assert len(server.seen) == 1


async def test_an_unknown_authority_is_refused(tmp_path: Path, authority: Certificate) -> None:
    """S120"""
    async with serving(fine, certificates.make("server", authority).server_context(tmp_path)) as server:
        assert "certificate" in await refused(server)


async def test_an_expired_certificate_is_refused(tmp_path: Path, authority: Certificate) -> None:
    leaf = certificates.make("server", authority, days=-1)
    async with serving(fine, leaf.server_context(tmp_path)) as server:
        assert "expired" in await refused(server, ca=authority.write(tmp_path / "ca.pem"))


async def test_a_certificate_for_another_host_is_refused(tmp_path: Path, authority: Certificate) -> None:
    leaf = certificates.make("server", authority, host="127.0.0.2")
    async with serving(fine, leaf.server_context(tmp_path)) as server:
        assert "TLS failed" in await refused(server, ca=authority.write(tmp_path / "ca.pem"))


async def test_a_server_that_speaks_no_tls_is_refused() -> None:
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await reader.read(1)
        writer.close()

    async with await asyncio.start_server(plain, "127.0.0.1", 0) as listener:
        url = f"https://127.0.0.1:{listener.sockets[0].getsockname()[1]}/"
        client = HttpClient(Server.model_validate({"url": url}))
        with pytest.raises(DownstreamError, match="TLS failed"):
            await client.send("POST", {}, b"secret", Departure())
        await client.aclose()


async def test_old_versions_of_tls_are_refused(tmp_path: Path, authority: Certificate) -> None:
    made = context(ServerTls(), lambda digest: None)
    assert made.minimum_version is ssl.TLSVersion.TLSv1_2
    assert made.verify_mode is ssl.CERT_REQUIRED
    assert made.check_hostname


async def test_a_pinned_key_is_accepted(tmp_path: Path, authority: Certificate) -> None:
    leaf = certificates.make("server", authority)
    pin = hashlib.sha256(leaf.spki).hexdigest().upper()
    async with serving(fine, leaf.server_context(tmp_path)) as server:
        await reach(server, ca=authority.write(tmp_path / "ca.pem"), spki_sha256=["00" * 32, pin])
        assert len(server.seen) == 1


async def test_another_key_than_the_pinned_one_gets_no_request(tmp_path: Path, authority: Certificate) -> None:
    """S120: the authority alone is not enough, and the check comes before the first byte."""
    leaf = certificates.make("server", authority)
    async with serving(fine, leaf.server_context(tmp_path)) as server:
        message = await refused(server, ca=authority.write(tmp_path / "ca.pem"), spki_sha256=["00" * 32])
        assert "spki_sha256" in message


async def test_insecure_reaches_a_loopback_address(tmp_path: Path, authority: Certificate) -> None:
    async with serving(fine, certificates.make("server").server_context(tmp_path)) as server:
        await reach(server, insecure=True)
        assert len(server.seen) == 1


async def test_insecure_pins_still_hold(tmp_path: Path) -> None:
    async with serving(fine, certificates.make("server").server_context(tmp_path)) as server:
        assert "spki_sha256" in await refused(server, insecure=True, spki_sha256=["00" * 32])


async def test_insecure_dials_nothing_but_loopback() -> None:
    client = HttpClient(Server.model_validate({"url": "https://192.0.2.1:9/mcp", "tls": {"insecure": True}}))
    with pytest.raises(DownstreamError, match=r"not loopback, which tls\.insecure is for"):
        await client.send("POST", {}, b"", Departure())
    await client.aclose()


async def test_authorities_that_cannot_be_read_are_an_error(tmp_path: Path) -> None:
    broken = tmp_path / "secret-name.pem"
    broken.write_text("nonsense")
    for path in (broken, tmp_path / "missing.pem"):
        with pytest.raises(DownstreamError) as caught:
            context(ServerTls(ca=str(path)), lambda digest: None)
        assert caught.value.message == "tls.ca cannot be read as certificates"


@pytest.mark.parametrize("data", [b"", b"\x30", b"\x30\x03\x30\x01\x02", b"nonsense" * 10])
def test_what_is_no_certificate_has_no_digest(data: bytes) -> None:
    assert key_digest(data) is None
