from __future__ import annotations

from pathlib import Path

import pytest

from gateway.config.servers import Server
from gateway.downstream.authorizer import Refusal
from gateway.downstream.oauth import credentials as module
from gateway.downstream.oauth.bearer import Bearer
from gateway.downstream.oauth.credentials import Credentials, Desk
from gateway.downstream.oauth.errors import ConsentNeeded, NoToken
from gateway.downstream.oauth.token import Token
from gateway.downstream.oauth.vault import SealedVault
from gateway.downstream.rotation import RotatingHeaders
from gateway.model.principal import Principal
from gateway.state.folder import FolderDocuments
from gateway.state.sealing import Sealer
from gateway.tasks import TaskSet
from tests.kit.oauth import Protected, protected

ALICE = Principal("sub:i/alice", "sub", "i", token="alices-own")
BOB = Principal("sub:i/bob", "sub", "i", token="bobs-own")
SECRET = {"client_id": "me", "client_secret": "pw"}


def no_crash(name: str, error: BaseException) -> None:
    raise AssertionError(name) from error


def credentials(url: str, auth: dict[str, object], desk: Desk | None = None) -> Credentials:
    server = Server.model_validate({"url": url, "auth": auth})
    return Credentials("a", server, desk or Desk(), TaskSet(no_crash))


def exchange(server: Protected) -> dict[str, object]:
    return {"token_exchange": {**SECRET, "issuer": server.idp.url}}


async def test_without_auth_a_server_gets_its_configured_headers_alone() -> None:
    one = credentials("http://127.0.0.1:1/mcp", {})
    assert isinstance(one.of(ALICE), RotatingHeaders)
    assert await one.of(ALICE).headers() == {}


async def test_the_gateways_own_account_serves_everybody() -> None:
    one = credentials("http://127.0.0.1:1/mcp", {"client_credentials": SECRET})
    assert one.of(ALICE) is one.of(BOB) is one.of(None)
    assert not one.is_per_principal


async def test_each_caller_has_a_token_of_its_own_and_the_lists_have_another() -> None:
    """S48: two principals, two exchanges, no sharing."""
    async with protected() as server:
        one = credentials(server.url, exchange(server))
        for who in (ALICE, BOB, ALICE):
            one.calls(who)
        sent = [dict(await one.of(who).headers())["Authorization"] for who in (ALICE, BOB, ALICE, None)]
        forms = server.idp.forms
    assert sent == ["Bearer access-1", "Bearer access-2", "Bearer access-1", "Bearer access-3"]
    assert [form.get("subject_token") for form in forms] == ["alices-own", "bobs-own", None]
    assert forms[2]["grant_type"] == "client_credentials"


async def test_the_newest_token_of_a_caller_is_the_one_exchanged() -> None:
    async with protected() as server:
        server.idp.issues = {"expires_in": 1}
        one = credentials(server.url, exchange(server))
        for token in ("first", "second"):
            one.calls(Principal(ALICE.id, "sub", "i", token=token))
            await one.of(ALICE).headers()
        assert [form["subject_token"] for form in server.idp.forms] == ["first", "second"]


async def test_a_caller_without_a_token_of_its_own_gets_nothing() -> None:
    async with protected() as server:
        one = credentials(server.url, exchange(server))
        nobody = Principal("key:bot", "key", "bot")
        one.calls(nobody)
        with pytest.raises(NoToken, match="signed in with a token"):
            await one.of(nobody).headers()


async def test_callers_are_held_in_bounded_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_OWNERS", 3)
    async with protected() as server:
        one = credentials(server.url, exchange(server))
        for number in range(9):
            one.calls(Principal(f"sub:i/{number}", "sub", "i", token="t"))
    assert len(one._bearers) == len(one._subjects) == 3


async def test_a_consent_that_is_needed_can_be_found_and_goes_with_the_server() -> None:
    desk = Desk(origin="https://gw.example")
    async with protected() as server:
        one = credentials(server.url, {"authorization_code": {}}, desk)
        assert one.consent_url == ""
        with pytest.raises(ConsentNeeded) as needed:
            await one.of(None).refused(Refusal(401, {}, ("Bearer",)))
        assert one.consent_url == f"https://gw.example/oauth/start?ticket={needed.value.ticket}"
        assert one.url_of(needed.value.ticket) == one.consent_url
        one.close()
    assert one.consent_url == ""


def test_no_token_is_in_any_repr() -> None:
    assert "alices-own" not in repr(ALICE)
    assert isinstance(credentials("http://127.0.0.1:1/mcp", {"client_credentials": SECRET}).of(None), Bearer)


def shared(folder: Path) -> Desk:
    return Desk(SealedVault(FolderDocuments(folder, shared=True), Sealer([b"k" * 32])))


async def test_what_another_replica_was_given_is_taken_and_is_not_asked_for_any_more(tmp_path: Path) -> None:
    async with protected() as server:
        desk = shared(tmp_path)
        one = credentials(server.url, {"authorization_code": {}}, desk)
        bearer = one.of(None)
        assert isinstance(bearer, Bearer)
        with pytest.raises(ConsentNeeded):
            await bearer.refused(Refusal(401, {}, ("Bearer",)))
        assert one.consent_url
        shared(tmp_path).vault.store(Token("t", server.idp.url, server.url).as_object(), "a", "token", "")
        await one.reread(lambda name: False)
        assert one.consent_url, "it did not hear of it"
        await one.reread(lambda name: name == desk.vault.name("a", "token", ""))
        assert (await bearer.headers(), one.consent_url) == ({"Authorization": "Bearer t"}, "")


def test_consents_are_redeemed_here_only_for_who_may_sign_in_here() -> None:
    own = credentials("https://mcp.example/mcp", {"authorization_code": {}})
    each = credentials("https://mcp.example/mcp", {"authorization_code": {"per": "principal"}})
    machine = credentials("https://mcp.example/mcp", {"client_credentials": SECRET})
    assert own.receiver("key:alice") is None
    assert machine.receiver("") is None
    for found in (own.receiver(""), each.receiver(""), each.receiver("key:alice")):
        assert found is not None
        assert found.resource == "https://mcp.example/mcp"
        assert found.redirect_uri.endswith("/oauth/callback")


async def test_word_of_a_sign_in_says_whose_it_was() -> None:
    made = credentials("http://127.0.0.1:1/mcp", {"authorization_code": {"per": "principal"}})
    told: list[str] = []
    made.on_signed_in, made.on_granted = told.append, lambda: told.append("the gateway")
    made.bearer(Principal("key:alice", "key", "alice")).on_granted()
    made.bearer(Principal("", "key", "")).on_granted()
    assert told == ["key:alice", "the gateway"]
