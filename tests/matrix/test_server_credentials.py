"""The whole gateway as an OAuth client: protected servers behind it, people in browsers, callers in front."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.kit import tokens, wire
from tests.kit.clients import Json, LegacySession, Reply, ask, connect, modern
from tests.kit.gateway import Gateway, eventually, serving
from tests.kit.oauth import LOOPBACK, Protected, consent, protected
from tests.kit.secrets import found_in

KEYS = {name: f"mcpgw_{name * 2}_{name * 20}" for name in ("alice", "bobby")}
CLIENTS = {name: {"key": key} for name, key in KEYS.items()}
POLICIES = [{"name": "all", "clients": ["*", "anonymous"], "allow": ["*/*"]}]
PEOPLE: Json = {"elicitation": {"url": {}, "form": {}}}


@asynccontextmanager
async def gateway(folder: Path, server: Protected, way: Json, **more: object) -> AsyncIterator[Gateway]:
    """Run a gateway in front of a protected server for a block; the loop goes on serving it meanwhile."""
    config = {
        "servers": {"wiki": {"url": server.url, "allow_networks": LOOPBACK, "auth": way}},
        "policies": POLICIES,
        **more,
    }
    context = serving(folder, config)
    running = await asyncio.to_thread(context.__enter__)
    try:
        yield running
    finally:
        await asyncio.to_thread(context.__exit__, None, None, None)


async def status(running: Gateway) -> Json:
    found: Json = (await asyncio.to_thread(running.status))["servers"]["wiki"]
    return found


async def until(running: Gateway, **wanted: object) -> Json:
    """Wait until the status of the server is as wanted."""

    def like() -> bool:
        found = running.status()["servers"]["wiki"]
        return all(found.get(key) == value for key, value in wanted.items())

    await asyncio.to_thread(eventually, like, f"{wanted}; {await status(running)}", 10.0)
    return await status(running)


async def sign_in(running: Gateway) -> None:
    """Consent as an operator does."""
    found = await until(running, state="waiting for consent")
    code, page = await consent(found["consent_url"])
    assert (code, "Signed in" in page) == (200, True), page
    await until(running, state="up", listed=True)


async def call(running: Gateway, key: str = "", capabilities: Json | None = None, **members: object) -> Reply:
    """Call the server's tool as a modern client."""
    params = {"name": "wiki__echo", "arguments": {"n": 1}, "_meta": wire.modern_meta(capabilities or {}), **members}
    return await ask(running.port, modern("tools/call", params, authorization=f"Bearer {key}" if key else None))


async def test_an_operator_consents_once_and_everybody_is_served(tmp_path: Path) -> None:
    async with protected() as server, gateway(tmp_path, server, {"authorization_code": {}}) as running:
        await sign_in(running)
        assert (await call(running)).result["structuredContent"] == {"n": 1}
        assert (await status(running))["consent_url"] is None
        told = [record for record in running.records() if record["event"] == "downstream.consent"]
        assert told[0]["downstream"] == {"principal": None, "result": "granted"}
        log = running.log.read_text()
    assert '"event":"consent_needed"' in log
    secrets = {"access": "access-1", "refresh": "refresh-1", "code": "code-1"}
    files = {str(file): file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    assert found_in(files, secrets) == set()


async def test_a_consent_outlives_the_gateway_and_an_ended_token_is_refreshed(tmp_path: Path) -> None:
    async with protected() as server:
        async with gateway(tmp_path, server, {"authorization_code": {}}) as running:
            await sign_in(running)
        async with gateway(tmp_path, server, {"authorization_code": {}}) as running:
            await until(running, state="up", listed=True)
            server.revoked.add("access-1")
            assert not (await call(running)).result.get("isError")
        assert [form["grant_type"] for form in server.idp.forms] == ["authorization_code", "refresh_token"]


async def test_missing_scopes_wait_for_an_operator_and_nothing_runs_meanwhile(tmp_path: Path) -> None:
    async with protected(scope="read", needs="write") as server:
        async with gateway(tmp_path, server, {"authorization_code": {}}) as running:
            await sign_in(running)
            refused = await call(running)
            assert refused.refusal["reason"] == "unavailable"
            assert not refused.refusal["mayHaveRun"]
            assert server.mcp.calls == []
            code, _ = await consent((await status(running))["consent_url"])
            assert code == 200
            assert not (await call(running)).result.get("isError")
        assert server.idp.scopes["access-2"] == "read write"


async def test_a_machine_account_needs_nobody(tmp_path: Path) -> None:
    own = {"client_credentials": {"client_id": "me", "client_secret": "pw-canary"}}
    async with protected("legacy") as server, gateway(tmp_path, server, own) as running:
        await until(running, state="up", listed=True)
        assert not (await call(running)).result.get("isError")
        assert server.idp.forms[0]["resource"] == server.url
        log = running.log.read_text()
    assert "pw-canary" not in log


async def test_learned_addresses_are_not_dialed_unless_they_are_allowed(tmp_path: Path) -> None:
    """S118."""
    async with protected() as server, protected() as other:
        server.idp = other.idp
        config = {"servers": {"wiki": {"url": server.url, "auth": {"authorization_code": {}}}}}
        context = serving(tmp_path, config)
        running = await asyncio.to_thread(context.__enter__)
        try:
            found = await until(running, state="failed")
            assert "must not be dialed: loopback" in found["last_error"]
            assert other.idp.seen == []
            assert running.metric("mcp_gateway_ssrf_blocked_total") > 0
        finally:
            await asyncio.to_thread(context.__exit__, None, None, None)


def question(reply: Reply, key: str) -> Json:
    """Return the params of one question of an input_required result."""
    assert reply.result["resultType"] == "input_required", reply.message
    found: Json = reply.result["inputRequests"][key]["params"]
    return found


async def signed_in(running: Gateway, name: str, *, code: str = "") -> tuple[Reply, str]:
    """Sign a principal in as its client and its browser do; ``code`` is given instead of the page's own."""
    first = await call(running, KEYS[name], PEOPLE)
    _, page = await consent(question(first, "sign-in")["url"])
    shown = page.partition("<strong>")[2].partition("</strong>")[0]
    answers: Json = {"sign-in": {"action": "accept"}}
    second = await call(running, KEYS[name], PEOPLE, inputResponses=answers, requestState=first.result["requestState"])
    assert question(second, "confirmation")["mode"] == "form"
    answers = {"confirmation": {"action": "accept", "content": {"confirmation": code or shown}}}
    third = await call(running, KEYS[name], PEOPLE, inputResponses=answers, requestState=second.result["requestState"])
    return third, shown


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_every_principal_signs_in_to_its_own_account_in_the_middle_of_a_call(tmp_path: Path, era: str) -> None:
    own = {"authorization_code": {"per": "principal"}}
    async with protected(era) as server, gateway(tmp_path, server, own, clients=CLIENTS) as running:
        await sign_in(running)
        alice, _ = await signed_in(running, "alice")
        bobby, _ = await signed_in(running, "bobby")
        assert (alice.result["structuredContent"], bobby.result["structuredContent"]) == ({"n": 1}, {"n": 1})
        before = len(server.sent)
        assert not (await call(running, KEYS["alice"], PEOPLE)).result.get("isError")
        assert set(server.sent[before:]) == {"Bearer access-2"}, "the operator's is access-1, bobby's access-3"
        told = [record["downstream"] for record in running.records() if record["event"] == "downstream.consent"]
        assert [each["principal"] for each in told] == [None, "key:alice", "key:bobby"]


async def test_a_consent_that_somebody_else_was_led_to_gives_nothing(tmp_path: Path) -> None:
    """client/elicitation §Phishing: bobby sends alice his page, and she signs in there."""
    own = {"authorization_code": {"per": "principal"}}
    async with protected() as server, gateway(tmp_path, server, own, clients=CLIENTS) as running:
        await sign_in(running)
        asked, shown = await signed_in(running, "bobby", code="ABCD-2345")
        assert shown != "ABCD-2345"
        assert "not the code" in question(asked, "confirmation")["message"]
        assert set(server.sent) <= {"", "Bearer access-1"}
        assert server.mcp.calls == []


async def test_a_client_that_cannot_ask_its_user_is_told_so(tmp_path: Path) -> None:
    own = {"authorization_code": {"per": "principal"}}
    async with protected() as server, gateway(tmp_path, server, own, clients=CLIENTS) as running:
        await sign_in(running)
        reply = await call(running, KEYS["alice"])
        assert reply.refusal["reason"] == "unavailable"
        text = reply.result["content"][0]["text"]
    assert "needs its user to sign in first" in text
    assert "http" not in text


async def test_a_session_of_a_legacy_client_is_asked_while_its_call_waits(tmp_path: Path) -> None:
    own = {"authorization_code": {"per": "principal"}}
    async with protected() as server, gateway(tmp_path, server, own, clients=CLIENTS) as running:
        await sign_in(running)
        session = LegacySession(running.port, [("Authorization", f"Bearer {KEYS['alice']}")])
        await session.begin(PEOPLE)
        async with connect(running.port) as line:
            await line.send(session.request("tools/call", {"name": "wiki__echo", "arguments": {"n": 1}}))
            await line.head()
            messages = line.messages()
            page = await anext(messages)
            assert (page["method"], page["params"]["mode"]) == ("elicitation/create", "url")
            assert page["params"]["elicitationId"]
            _, text = await consent(page["params"]["url"])
            await ask(running.port, session.response(page["id"], {"action": "accept"}))
            form = await anext(messages)
            code = text.partition("<strong>")[2].partition("</strong>")[0]
            answer = {"action": "accept", "content": {"confirmation": code}}
            await ask(running.port, session.response(form["id"], answer))
            done = await anext(messages)
        assert done["result"]["structuredContent"] == {"n": 1}
        assert server.sent[-1] == "Bearer access-2"


async def test_a_callers_token_is_exchanged_and_goes_nowhere_else(tmp_path: Path) -> None:
    """S46, S48, G098: two callers, two tokens; neither caller's own reaches the server, a log or a file."""
    own = {"client_id": "me", "client_secret": "pw-canary"}
    async with protected() as server:
        issuer = {"issuer": server.idp.url, "audience": tokens.AUDIENCE, "jwks_url": f"{server.idp.url}/jwks"}
        listen = {"public_url": tokens.AUDIENCE}
        exchange = {"token_exchange": {**own, "issuer": server.idp.url}}
        async with gateway(tmp_path, server, exchange, auth={"jwt": issuer}, listen=listen) as running:
            await until(running, state="up", listed=True)
            callers = {
                name: tokens.token({"iss": server.idp.url, "sub": name, "jti": f"{name}-canary"})
                for name in ("alice", "bobby")
            }
            before = len(server.sent)
            for name in ("alice", "bobby", "alice"):
                assert not (await call(running, callers[name])).result.get("isError")
            sent, forms = set(server.sent[before:]), server.idp.forms
            keyless = await call(running, "mcpgw_unknown")
        assert keyless.status == 401
        exchanged = [form["subject_token"] for form in forms if "subject_token" in form]
        assert exchanged == [callers["alice"], callers["bobby"]]
        assert sent == {"Bearer access-2", "Bearer access-3"}
        files = {str(file): file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
        files.pop(str(tmp_path / "gateway.yaml"))
    assert found_in(files, {**callers, "secret": "pw-canary", "access": "access-2"}) == set()
