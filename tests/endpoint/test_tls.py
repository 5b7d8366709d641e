"""Client certificates over real TLS: a verified chain or no connection, one exact name or nobody (S53)."""

from __future__ import annotations

import asyncio
import os
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest
import uvloop
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import ExtendedKeyUsageOID

from gateway.auth.certificate import Certificate as Shown
from gateway.auth.certificate import principal_of
from gateway.config.root import Listen, ListenTls
from gateway.endpoint import tls
from gateway.errors import ConfigError
from tests.kit.certificates import Certificate, make

NAMED = [x509.UniformResourceIdentifier("spiffe://example.org/ci"), x509.DNSName("ci.example.org")]


@dataclass
class Rig:
    """A TLS server with authorities for both sides, and what it saw."""

    folder: Path
    authority: Certificate
    port: int = 0
    seen: list[Shown | None] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def listen(self) -> Listen:
        own = make("gateway", self.authority)
        paths = own.write(self.folder / "own.pem"), own.write_key(self.folder / "own-key.pem")
        ca = self.authority.write(self.folder / "ca.pem")
        return Listen(tls=ListenTls(cert=paths[0], key=paths[1], client_ca=ca))

    def context(self, certificate: Certificate | None) -> ssl.SSLContext:
        if certificate is None:
            return ssl.create_default_context(cafile=self.authority.write(self.folder / "server-ca.pem"))
        return certificate.client_context(self.folder, self.authority)

    async def visit(self, certificate: Certificate | None) -> bytes:
        """Send one request; returns what came back, nothing where TLS failed."""
        try:
            async with asyncio.timeout(5):
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=self.context(certificate))
                writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                try:
                    return await reader.read()
                finally:
                    writer.close()
        except (ssl.SSLError, ConnectionError):
            return b""


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[Rig]:
    rig = Rig(folder, make("authority"))

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        rig.seen.append(tls.certificate_of(request))
        return web.Response(text="hello")

    runner = web.ServerRunner(web.Server(handle), shutdown_timeout=0.5)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls.context(rig.listen(), rig.refused.append)).start()
    rig.port = int(runner.addresses[0][1])
    try:
        yield rig
    finally:
        await runner.cleanup()


async def test_a_certificate_of_our_authority_shows_its_names_and_its_end(tmp_path: Path) -> None:
    async with serving(tmp_path) as rig:
        client = make("ci", rig.authority, names=NAMED)
        assert b"hello" in await rig.visit(client)
        (shown,) = rig.seen
        assert shown is not None
        assert dict(shown.names) == {"URI": "spiffe://example.org/ci", "DNS": "ci.example.org"}
        assert shown.der == client.der
        assert shown.expires == client.certificate.not_valid_after_utc.timestamp()
        assert principal_of(shown, datetime.now(UTC).timestamp()).id == "cert:spiffe://example.org/ci"
        assert rig.refused == []


async def test_a_client_without_a_certificate_is_let_in_to_prove_itself_otherwise(tmp_path: Path) -> None:
    async with serving(tmp_path) as rig:
        assert b"hello" in await rig.visit(None)
        assert rig.seen == [None]


@pytest.mark.parametrize(
    ("forge", "reason"),
    [
        (lambda _: make("self-signed", names=NAMED), "certificate_self_signed"),
        (lambda _: make("stranger", make("other authority"), names=NAMED), "certificate_unknown_issuer"),
        (lambda ours: make("late", ours, days=-1, names=NAMED), "certificate_expired"),
        (
            lambda ours: make("server", ours, names=NAMED, purpose=ExtendedKeyUsageOID.SERVER_AUTH),
            "certificate_purpose",
        ),
    ],
)
async def test_a_certificate_that_does_not_verify_gets_no_connection(
    forge: Callable[[Certificate], Certificate], reason: str, tmp_path: Path
) -> None:
    async with serving(tmp_path) as rig:
        assert await rig.visit(forge(rig.authority)) == b""
        assert rig.seen == []
        assert rig.refused == [reason]
        assert b"hello" in await rig.visit(make("ci", rig.authority, names=NAMED))


def test_without_tls_there_is_no_context_and_without_authorities_nobody_is_asked(tmp_path: Path) -> None:
    rig = Rig(tmp_path, make("authority"))
    listen = rig.listen()
    assert tls.context(Listen(), rig.refused.append) is None
    assert listen.tls is not None
    plain = tls.context(Listen(tls=ListenTls(cert=listen.tls.cert, key=listen.tls.key)), rig.refused.append)
    asked = tls.context(listen, rig.refused.append)
    assert plain is not None
    assert asked is not None
    assert (plain.verify_mode, asked.verify_mode) == (ssl.CERT_NONE, ssl.CERT_OPTIONAL)
    assert asked.minimum_version == ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize("part", ["cert", "key", "client_ca"])
def test_files_that_cannot_be_used_are_the_configs_fault(part: str, tmp_path: Path) -> None:
    rig = Rig(tmp_path, make("authority"))
    given = rig.listen().tls
    assert given is not None
    for content in (None, "nothing"):
        path = tmp_path / f"bad-{content}.pem"
        if content is not None:
            path.write_text(content)
        with pytest.raises(ConfigError) as caught:
            tls.context(Listen(tls=given.model_copy(update={part: str(path)})), rig.refused.append)
        problem = caught.value.problems[0]
        assert problem.path == ("listen.tls.client_ca" if part == "client_ca" else "listen.tls")
        assert str(path) not in problem.message


def test_a_key_with_a_password_is_said_to_be_one_and_nobody_is_asked_for_it(tmp_path: Path) -> None:
    """On a terminal OpenSSL would ask, and everything would wait for an answer."""
    own = make("gateway")
    key = tmp_path / "key.pem"
    key.write_bytes(
        own.key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    cert = own.write(tmp_path / "own.pem")
    script = (
        "from gateway.config.root import Listen, ListenTls\nfrom gateway.endpoint import tls\nimport sys\n"
        "try:\n    tls.context(Listen(tls=ListenTls(cert=sys.argv[1], key=sys.argv[2])), print)\n"
        "except Exception as error:\n    print(error)\n"
    )
    ours, theirs = os.openpty()
    try:
        done = subprocess.run(
            [sys.executable, "-c", script, cert, key],
            stdin=theirs,
            stdout=subprocess.PIPE,
            stderr=theirs,
            text=True,
            timeout=30,
            check=False,
            start_new_session=True,
        )
    finally:
        os.close(theirs)
        os.close(ours)
    assert done.stdout.startswith("listen.tls.key: the key is encrypted (")
    assert "secret" not in done.stdout


@pytest.mark.parametrize("part", ["cert", "client_ca"])
def test_a_path_that_is_none_is_the_configs_fault_too(part: str, tmp_path: Path) -> None:
    rig = Rig(tmp_path, make("authority"))
    given = rig.listen().tls
    assert given is not None
    with pytest.raises(ConfigError, match="cannot be used: ValueError"):
        tls.context(Listen(tls=given.model_copy(update={part: "a\0b"})), rig.refused.append)


@asynccontextmanager
async def answering(context: ssl.SSLContext) -> AsyncIterator[int]:
    """Say hello to every request; yields the port."""

    async def handle(_request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(text="hello")

    runner = web.ServerRunner(web.Server(handle), shutdown_timeout=0.5)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    try:
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("factory", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_a_renewed_context_serves_new_connections_and_leaves_those_that_are_open(
    factory: Callable[[], asyncio.AbstractEventLoop], tmp_path: Path
) -> None:
    """What was proved to the old one is worth nothing to the new one, resumed sessions included."""

    async def run() -> None:
        before, after = Rig(tmp_path, make("before")), Rig(tmp_path, make("after"))
        first = tls.context(before.listen(), before.refused.append)
        assert first is not None
        renewable = tls.Renewable.of(first)

        async with answering(renewable) as port:
            before.port = after.port = port
            await renewed(before, after, renewable)

    async def renewed(before: Rig, after: Rig, renewable: tls.Renewable) -> None:
        client = make("ci", before.authority, names=NAMED)
        trusting_both = client.client_context(tmp_path, before.authority)
        trusting_both.load_verify_locations(after.authority.write(tmp_path / "after.pem"))
        reader, writer = await asyncio.open_connection("127.0.0.1", before.port, ssl=trusting_both)
        second = tls.context(after.listen(), after.refused.append)
        assert second is not None
        renewable.renew(second)

        writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert b"hello" in await reader.read()
        writer.close()
        assert await before.visit(None) == b""
        assert b"hello" in await after.visit(None)
        assert b"hello" in await after.visit(make("ci", after.authority, names=NAMED))
        # The authority of before is none any more.
        reader, writer = await asyncio.open_connection("127.0.0.1", before.port, ssl=trusting_both)
        writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        with suppress(ssl.SSLError, ConnectionError):
            assert b"hello" not in await reader.read()
        writer.close()
        assert after.refused == ["certificate_self_signed"]

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(asyncio.wait_for(run(), 20))


def test_when_the_own_certificate_ends_is_known(tmp_path: Path) -> None:
    own = make("gateway", make("ca"))
    listen = Listen(tls=ListenTls(cert=own.write(tmp_path / "own.pem"), key=own.write_key(tmp_path / "key.pem")))
    ends = own.certificate.not_valid_after_utc.timestamp()
    assert tls.expires(listen) == ends
    assert tls.expires(Listen()) == 0
    (tmp_path / "own.pem").write_text("nonsense")
    assert tls.expires(listen) == 0
    (tmp_path / "own.pem").unlink()
    assert tls.expires(listen) == 0
