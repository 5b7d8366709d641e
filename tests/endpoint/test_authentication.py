"""Tokens over HTTP: metadata, challenges, scopes, and the end of streams, sessions and calls (rows 4 to 6 and 18)."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest

from gateway.config.access import Auth, Throttle
from gateway.config.root import View
from gateway.config.types import Rate
from gateway.endpoint import running
from gateway.errors import Reason
from gateway.model.call import Call
from gateway.model.exchange import Exchange
from gateway.model.outcome import Failure, Outcome
from tests.kit import tokens
from tests.kit.clients import Headers, LegacySession, Reply, ask, connect, modern, modern_headers, post, raw
from tests.kit.endpoint import ALICE, ALICE_KEY, FakeMoment, Gate, keyed, moment, serving, soon
from tests.kit.tokens import AUDIENCE, ISSUER, FixedIssuer, settings, token
from tests.kit.wire import modern_meta

METADATA = "https://mcp.example.com/.well-known/oauth-protected-resource/mcp"
WELL_KNOWN = "/.well-known/oauth-protected-resource"
HOST = ("Host", "localhost")
CALL: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {"name": "notes__add", "_meta": modern_meta()},
}


def protected(issuer: FixedIssuer | None = None, throttle: Rate | None = None, **fields: Any) -> FakeMoment:
    """Return a moment that takes tokens, and alice's key."""
    jwt = settings(**fields)
    listen = keyed().listen.model_copy(update={"public_url": AUDIENCE})
    views = {"analysts": View(include=["notes/add"])}
    auth = Auth(jwt=jwt, throttle=Throttle(failures=throttle or Rate(20, 60.0)))
    now = moment(keyed(listen=listen, views=views, auth=auth))
    now.authenticator = tokens.authenticator(now.config, issuer)
    return now


def bearer(text: str) -> Headers:
    return [("Authorization", f"Bearer {text}")]


async def call(port: int, credentials: Headers, path: str = "/mcp") -> Reply:
    return await ask(port, post(CALL, [*credentials, *modern_headers("tools/call", CALL["params"])], path))


async def test_the_metadata_is_served_before_authentication_and_is_only_to_be_read() -> None:
    """S44, row 4: whatever Host of ours is asked."""
    async with serving(protected(required_scopes=["mcp"])) as site:
        for path, resource in ((WELL_KNOWN, AUDIENCE), (f"{WELL_KNOWN}/mcp", AUDIENCE)):
            for host in ("localhost", f"127.0.0.1:{site.port}", "mcp.example.com"):
                reply = await ask(site.port, raw(f"GET {path}?x=1 HTTP/1.1", [("Host", host)]))
                document = json.loads(reply.body)
                assert (reply.status, reply.headers["content-type"].partition(";")[0]) == (200, "application/json")
                assert (document["resource"], document["scopes_supported"]) == (resource, ["mcp"])
                assert document["authorization_servers"] == [ISSUER]
        view = await ask(site.port, raw(f"GET {WELL_KNOWN}/mcp/analysts HTTP/1.1", [HOST]))
        assert json.loads(view.body)["resource"] == f"{AUDIENCE}/analysts"
        for method in ("POST", "DELETE", "PUT"):
            refused = await ask(site.port, raw(f"{method} {WELL_KNOWN} HTTP/1.1", [HOST, ("Content-Length", "0")]))
            assert (refused.status, refused.headers["allow"]) == (405, "GET")
        for path in (f"{WELL_KNOWN}/mcp/", f"{WELL_KNOWN}/mcp/none", "/.well-known/openid-configuration"):
            assert (await ask(site.port, raw(f"GET {path} HTTP/1.1", [HOST]))).status == 404


async def test_the_metadata_passes_host_and_origin_like_everything_else() -> None:
    async with serving(protected()) as site:
        evil = [("Host", "evil.example")]
        assert (await ask(site.port, raw(f"GET {WELL_KNOWN} HTTP/1.1", evil))).status == 421
        foreign = [HOST, ("Origin", "https://evil.example")]
        assert (await ask(site.port, raw(f"GET {WELL_KNOWN} HTTP/1.1", foreign))).status == 403


@pytest.mark.parametrize("path", ["/mcp", "/mcp/unknown", "/mcp/a/b"])
async def test_a_request_without_a_token_learns_where_to_get_one(path: str) -> None:
    """S44: no error code, since nothing was tried."""
    async with serving(protected(required_scopes=["mcp"])) as site:
        reply = await call(site.port, [], path)
        assert reply.status == 401
        assert reply.headers["www-authenticate"] == f'Bearer realm="mcp", resource_metadata="{METADATA}", scope="mcp"'


async def test_a_view_leads_to_metadata_of_its_own_and_takes_tokens_for_itself() -> None:
    async with serving(protected()) as site:
        reply = await call(site.port, [], "/mcp/analysts")
        assert f'resource_metadata="{METADATA}/analysts"' in reply.headers["www-authenticate"]
        narrow = bearer(token({"aud": f"{AUDIENCE}/analysts"}))
        assert (await call(site.port, narrow, "/mcp/analysts")).status == 200
        assert (await call(site.port, narrow)).status == 401
        assert (await call(site.port, bearer(token()), "/mcp/analysts")).status == 200


@pytest.mark.parametrize(
    "text", ["opaque", "a.b.c", token({"aud": "https://x.example"}), token({"exp": 1, "iat": 0}), ALICE_KEY + "x"]
)
async def test_every_bad_token_gets_the_same_answer(text: str) -> None:
    async with serving(protected()) as site:
        reply = await call(site.port, bearer(text))
        assert reply.status == 401
        expected = f'Bearer realm="mcp", error="invalid_token", resource_metadata="{METADATA}"'
        assert reply.headers["www-authenticate"] == expected
        assert reply.message["error"]["message"] == "Authentication required"
        assert text.encode() not in reply.body


async def test_a_token_without_the_scopes_that_all_need_is_forbidden_before_view_and_method() -> None:
    """Row 6."""
    async with serving(protected(required_scopes=["mcp"])) as site:
        short = bearer(token({"scope": "other"}))
        for method, path in (("POST", "/mcp"), ("POST", "/mcp/unknown"), ("PUT", "/mcp"), ("GET", "/mcp/none")):
            reply = await ask(site.port, raw(f"{method} {path} HTTP/1.1", [HOST, ("Content-Length", "0"), *short]))
            assert reply.status == 403
            assert 'error="insufficient_scope"' in reply.headers["www-authenticate"]
            assert reply.headers["www-authenticate"].endswith('scope="mcp"')
        assert (await call(site.port, ALICE)).status == 200
        assert [fields["reason"] for _, fields in site.services.events] == ["insufficient_scope"] * 4


async def test_without_the_issuers_keys_a_token_gets_503_and_a_key_passes() -> None:
    """S43, S45: no failure of the client's, so it is not throttled."""
    async with serving(protected(FixedIssuer(keys=None), Rate(1, 60.0))) as site:
        for _ in range(3):
            reply = await call(site.port, bearer(token()))
            assert (reply.status, reply.headers["retry-after"], reply.code) == (503, "10", -31002)
        assert (await call(site.port, ALICE)).status == 200
        assert site.services.events[0] == (
            "auth.failed",
            {"source": "127.0.0.1", "kind": "jwt", "reason": "keys_unavailable"},
        )


async def test_failed_tokens_are_throttled_and_good_ones_pass() -> None:
    """S35."""
    async with serving(protected(throttle=Rate(2, 60.0))) as site:
        replies = [await call(site.port, bearer(token({"aud": f"https://x{n}.example"}))) for n in range(4)]
        assert [reply.status for reply in replies] == [401, 401, 429, 429]
        assert (await call(site.port, bearer(token()))).status == 200
        text = site.services.metrics.render("")[0].decode()
        assert 'mcp_gateway_auth_failures_total{kind="jwt",reason="claims"} 4.0' in text


async def needs_more(call_: Call, exchange: Exchange) -> Outcome:
    return Failure(Reason.DENIED, "text", scopes=frozenset({"crm.write", "crm.read"}))


async def test_a_missing_scope_of_a_call_is_forbidden_with_all_that_it_needs_in_both_eras() -> None:
    """S51, row 18."""
    now = protected(required_scopes=["mcp"])
    now.chain = needs_more
    good = bearer(token({"scope": "mcp crm.read"}))
    challenge = (
        'Bearer realm="mcp", error="insufficient_scope", '
        f'resource_metadata="{METADATA}", scope="mcp crm.read crm.write"'
    )
    async with serving(now) as site:
        session = LegacySession(site.port, list(good))
        await session.begin()
        for reply in (await call(site.port, good), await session.ask("tools/call", {"name": "notes__add"})):
            assert (reply.status, reply.headers["www-authenticate"]) == (403, challenge)
            assert reply.code == -31008


async def test_a_subscription_ends_gracefully_when_its_token_does() -> None:
    """S52."""
    brief = bearer(token({"exp": time.time() + 1}))
    async with serving(protected()) as site, connect(site.port) as connection:
        await connection.send(
            _with(modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}}), brief)
        )
        assert (await connection.head())[0] == 200
        received = [message async for message in connection.messages()]
        assert [message.get("method") for message in received] == [
            "notifications/subscriptions/acknowledged",
            "notifications/cancelled",
            None,
        ]
        text = site.services.metrics.render("")[0].decode()
        assert 'mcp_gateway_streams_closed_total{kind="listen",reason="expired"} 1.0' in text


async def test_a_legacy_stream_ends_with_its_token_and_the_session_goes_on_with_the_next_one() -> None:
    """Contract: sessions are bound to the principal, not to its credential."""
    async with serving(protected()) as site:
        session = LegacySession(site.port, list(bearer(token({"exp": time.time() + 1}))))
        await session.begin()
        async with connect(site.port) as connection:
            await connection.send(session.get())
            assert (await connection.head())[0] == 200
            assert [message async for message in connection.messages()] == []
        assert (await session.ask("ping")).status == 401
        session.headers[:] = bearer(token({"jti": "second"}))
        assert (await session.ask("ping")).status == 200
        session.headers[:] = bearer(token({"sub": "bob"}))
        assert (await session.ask("ping")).status == 404
        session.headers[:] = ALICE
        assert (await session.ask("ping")).status == 404


async def test_a_running_call_ends_a_while_after_its_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """S52: and says so."""
    monkeypatch.setattr(running, "CALL_GRACE", 0.2)
    gate, now = Gate(), protected()
    now.chain = gate
    async with serving(now) as site, connect(site.port) as connection:
        brief = bearer(token({"exp": time.time() + 1}))
        await connection.send(post(CALL, [*brief, *modern_headers("tools/call", CALL["params"])]))
        await soon(gate.began)
        await soon(gate.cancelled)
        reply = await connection.reply()
    assert reply.refusal["reason"] == "denied"
    assert reply.refusal["mayHaveRun"] is True
    assert "token this call came with has expired" in reply.result["content"][0]["text"]


async def test_a_reload_that_changes_the_terms_ends_streams_and_keeps_sessions() -> None:
    """S183."""
    async with serving(protected()) as site, connect(site.port) as connection:
        good = bearer(token({"scope": "mcp"}))
        session = LegacySession(site.port, list(good))
        await session.begin()
        await connection.send(
            _with(modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}}), good)
        )
        assert (await connection.head())[0] == 200
        messages = connection.messages()
        await anext(messages)
        site.services.reload(protected(required_scopes=["mcp"]))
        async with asyncio.timeout(5):
            assert [message.get("method") async for message in messages] == ["notifications/cancelled", None]
        assert (await session.ask("ping")).status == 200
        site.services.reload(moment(keyed()))
        assert (await session.ask("ping")).status == 401


def _with(request: bytes, headers: Headers) -> bytes:
    """Add headers to a written request."""
    first, rest = request.split(b"\r\n", 1)
    added = "".join(f"{name}: {value}\r\n" for name, value in headers).encode()
    return first + b"\r\n" + added + rest


async def test_a_session_is_judged_by_the_token_used_last() -> None:
    """S50: what a newer token of the same principal does not say any more, the session does not hear of any more."""
    now = protected()
    now.hides = lambda principal, target: "staff" not in principal.groups
    async with serving(now) as site:
        session = LegacySession(site.port, list(bearer(token({"groups": ["staff"]}))))
        await session.begin()
        assert (await session.ask("resources/subscribe", {"uri": "note://one"})).status == 200
        async with connect(site.port) as connection:
            await connection.send(session.get())
            assert (await connection.head())[0] == 200
            messages = connection.messages()
            site.services.resource_changed("notes", "note://one")
            assert (await anext(messages))["method"] == "notifications/resources/updated"

            session.headers[:] = bearer(token({"groups": []}))
            assert (await session.ask("tools/list")).result["tools"] == []
            site.services.resource_changed("notes", "note://one")
            session.headers[:] = bearer(token({"groups": ["staff"], "jti": "third"}))
            assert (await session.ask("ping")).status == 200
            site.services.changed("notes")
            site.services.resource_changed("notes", "note://one")
            assert (await anext(messages))["method"] == "notifications/resources/updated"
            assert (await session.ask("ping")).status == 200
            site.endpoint.close_streams()
            assert [message async for message in messages] == []
