from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import parse_qsl

import aiohttp
import pytest

from gateway.config.servers import Server
from gateway.downstream.authorizer import Refusal
from gateway.downstream.oauth import bearer as bearers
from gateway.downstream.oauth import kept
from gateway.downstream.oauth import turn as turns
from gateway.downstream.oauth.bearer import MAX_RENEWALS, Bearer
from gateway.downstream.oauth.confirmation import MAX_TRIES
from gateway.downstream.oauth.credentials import Credentials, Desk
from gateway.downstream.oauth.errors import ConsentNeeded, NoToken
from gateway.downstream.oauth.token import Token
from gateway.downstream.oauth.vault import MemoryVault, SealedVault
from gateway.model.principal import Principal
from gateway.protocol.rawjson import Object
from gateway.state.documents import ABSENT
from gateway.state.folder import FolderDocuments
from gateway.state.sealing import Sealer
from gateway.tasks import TaskSet
from tests.kit.http_server import Exchange
from tests.kit.oauth import LOOPBACK, Protected, elsewhere, protected

ALICE = Principal("key:alice", "key", "alice")
OWN = {"client_credentials": {"client_id": "me", "client_secret": "pw"}}


def no_crash(name: str, error: BaseException) -> None:
    raise AssertionError(name) from error


def bearer(server: Protected, auth: Mapping[str, object] | None = None, desk: Desk | None = None) -> Bearer:
    config = Server.model_validate({"url": server.url, "allow_networks": LOOPBACK, "auth": dict(auth or OWN)})
    made = Credentials("a", config, desk or Desk(), TaskSet(no_crash)).of(None)
    assert isinstance(made, Bearer)
    return made


def refusal(sent: str = "", words: str = "", status: int = 401) -> Refusal:
    return Refusal(status, {"Authorization": sent} if sent else {}, (f"Bearer {words}",))


async def refused(one: Bearer, words: str = "", status: int = 401) -> bool:
    sent = dict(await one.headers())
    return await one.refused(Refusal(status, sent, (f"Bearer {words}",)))


async def test_nothing_is_sent_until_the_server_asks() -> None:
    async with protected() as server:
        one = bearer(server)
        assert await one.headers() == {}
        assert server.idp.forms == []
        assert await refused(one, 'scope="x"')
        assert await one.headers() == {"Authorization": "Bearer access-1"}
        assert server.idp.forms[0]["scope"] == "x"


async def test_a_token_is_fetched_first_where_an_operator_said_from_where() -> None:
    async with protected() as server:
        own = {"client_credentials": {"client_id": "me", "client_secret": "pw", "issuer": server.idp.url}}
        assert await bearer(server, own).headers() == {"Authorization": "Bearer access-1"}


async def test_everybody_who_was_refused_shares_one_new_token() -> None:
    """G099."""
    async with protected() as server:
        one = bearer(server)
        assert await refused(one)
        stale = dict(await one.headers())
        again = await asyncio.gather(*(one.refused(Refusal(401, stale, ("Bearer",))) for _ in range(20)))
        assert again == [True] * 20
        assert len(server.idp.forms) == 2


async def test_who_was_refused_with_an_older_token_just_tries_again() -> None:
    async with protected() as server:
        one = bearer(server)
        assert await refused(one)
        assert await one.refused(refusal("Bearer older"))
        assert len(server.idp.forms) == 1


async def test_a_token_about_to_end_is_renewed_before_it_is_sent() -> None:
    async with protected() as server:
        server.idp.issues = {"expires_in": 20}
        one = bearer(server)
        assert await refused(one)
        assert await one.headers() == {"Authorization": "Bearer access-2"}


async def test_a_server_that_refuses_every_token_gets_no_more_of_them() -> None:
    async with protected() as server:
        one = bearer(server)
        answers = [await refused(one) for _ in range(MAX_RENEWALS + 3)]
        assert answers == [True] * MAX_RENEWALS + [False] * 3
        assert len(server.idp.forms) == MAX_RENEWALS


async def test_missing_scopes_are_asked_for_with_those_there_were_and_once() -> None:
    async with protected() as server:
        one = bearer(server)
        assert await refused(one, 'scope="x"')
        assert await refused(one, 'error="insufficient_scope", scope="y"', 403)
        assert server.idp.forms[-1]["scope"] == "x y"
        assert not await refused(one, 'error="insufficient_scope", scope="y"', 403)
        assert not await refused(one, "", 403)
        assert len(server.idp.forms) == 2


async def test_nothing_of_the_old_authorization_server_goes_to_the_new_one() -> None:
    """The specification's authorization server binding."""
    async with protected() as server, elsewhere() as (other, _):
        desk = Desk()
        one = bearer(server, {"authorization_code": {}}, desk)
        with pytest.raises(ConsentNeeded) as first:
            await refused(one)
        await _consented(desk, first.value.ticket)
        assert await one.headers() == {"Authorization": "Bearer access-1"}
        old = server.idp.forms
        server.idp = other
        with pytest.raises(ConsentNeeded):
            await refused(one)
        assert other.registered
        assert other.forms == []
        assert not one.has_token
        assert [form["grant_type"] for form in old] == ["authorization_code"]


async def _consented(desk: Desk, ticket: str) -> str:
    """Follow a ticket as a browser does, without the pages of the gateway; returns the code to confirm it with."""
    departure = await desk.consents.begin(ticket)
    assert departure is not None
    async with aiohttp.ClientSession() as browser, browser.get(departure.url, allow_redirects=False) as answer:
        back = dict(parse_qsl(answer.headers["Location"].partition("?")[2]))
    arrival = await desk.consents.complete(back, (departure.cookie,))
    assert arrival.ok, arrival.text
    return arrival.code


async def test_a_consent_is_kept_over_a_restart_and_refreshed() -> None:
    vault = MemoryVault()
    async with protected() as server:
        desk = Desk(vault)
        one = bearer(server, {"authorization_code": {}}, desk)
        with pytest.raises(ConsentNeeded) as needed:
            await refused(one)
        await _consented(desk, needed.value.ticket)
        for _ in range(100):
            if vault.load("a", "token", ""):
                break
            await asyncio.sleep(0.01)
        later = bearer(server, {"authorization_code": {}}, Desk(vault))
        assert await later.headers() == {"Authorization": "Bearer access-1"}
        assert await refused(later)
        assert server.idp.forms[-1]["grant_type"] == "refresh_token"
        assert vault.load("a", "token", "")["access"] == "access-2"
        assert await refused(one), "an earlier connection takes the token that another one renewed"
        assert await one.headers() == {"Authorization": "Bearer access-2"}
        assert len(server.idp.forms) == 2


async def test_a_need_for_consent_is_not_looked_into_at_every_call() -> None:
    async with protected() as server:
        one = bearer(server, {"authorization_code": {}})
        for _ in range(5):
            with pytest.raises(ConsentNeeded):
                await refused(one)
        assert len(server.idp.registered) == 1
        assert server.idp.seen.count("/.well-known/oauth-authorization-server") == 1


async def test_a_principals_consent_counts_only_with_the_code_of_its_page() -> None:
    """client/elicitation §Phishing: who consents must be who asked."""
    async with protected() as server:
        config = Server.model_validate({"url": server.url, "auth": {"authorization_code": {"per": "principal"}}})
        desk = Desk()
        one = Credentials("a", config, desk, TaskSet(no_crash)).bearer(ALICE)
        with pytest.raises(ConsentNeeded) as needed:
            await refused(one)
        code = await _consented(desk, needed.value.ticket)
        assert not one.has_token
        assert not await one.confirm("")
        assert not await one.confirm("WRONG-ONE")
        assert await one.is_waiting()
        assert await one.confirm(code.lower())
        assert await one.headers() == {"Authorization": "Bearer access-1"}
        assert not await one.confirm(code), "a code is good once"


async def test_wrong_codes_end_a_consent() -> None:
    async with protected() as server:
        config = Server.model_validate({"url": server.url, "auth": {"authorization_code": {"per": "principal"}}})
        one = Credentials("a", config, Desk(), TaskSet(no_crash)).bearer(ALICE)
        code = await one.receive(Token("t", "i", "r"))
        assert [await one.confirm("AAAA-AAAA") for _ in range(MAX_TRIES)] == [False] * MAX_TRIES
        assert not await one.is_waiting()
        assert not await one.confirm(code)


async def test_a_failure_says_which_server_and_shows_no_token() -> None:
    async with protected() as server:
        server.idp.refuses = "invalid_client"
        with pytest.raises(NoToken) as caught:
            await refused(bearer(server))
    assert caught.value.message == 'server "a": its authorization server gives no token (invalid_client)'


async def test_a_token_is_used_to_its_end_while_no_new_one_is_to_be_had() -> None:
    """G099."""
    async with protected() as server:
        server.idp.issues = {"expires_in": 20, "refresh_token": "r"}
        one = bearer(server)
        assert await refused(one)
        server.idp.refuses = "temporarily_unavailable"
        assert await one.headers() == {"Authorization": "Bearer access-1"}


async def test_of_many_replicas_one_spends_a_refresh_token_and_the_others_take_what_it_got(tmp_path: Path) -> None:
    def desk() -> Desk:
        return Desk(SealedVault(FolderDocuments(tmp_path, shared=True), Sealer([b"k" * 32])))

    async with protected() as server:
        server.idp.issues = {"expires_in": 3600, "refresh_token": "refresh-1"}
        first = desk()
        first.vault.store(Token("old", server.idp.url, server.url, "refresh-0", 0.0).as_object(), "a", "token", "")
        replicas = [bearer(server, {"authorization_code": {}}, desk()) for _ in range(4)]
        async with asyncio.timeout(10):
            sent = await asyncio.gather(*(each.headers() for each in replicas))
        assert [each["Authorization"] for each in sent] == ["Bearer access-1"] * 4
        assert [form["refresh_token"] for form in server.idp.forms] == ["refresh-0"]


async def test_a_consent_given_elsewhere_is_taken_when_it_is_heard_of(tmp_path: Path) -> None:
    async with protected() as server:
        vault = SealedVault(FolderDocuments(tmp_path, shared=True), Sealer([b"k" * 32]))
        one = bearer(server, {"authorization_code": {}}, Desk(vault))
        granted: list[bool] = []
        one.on_granted = lambda: granted.append(True)
        with pytest.raises(ConsentNeeded):
            await refused(one)
        assert not await one.reread()
        vault.store(Token("access-9", server.idp.url, server.url).as_object(), "a", "token", "")
        assert await one.reread()
        assert await one.headers() == {"Authorization": "Bearer access-9"}
        assert granted == [True]
        vault.store(Token("access-10", server.idp.url, server.url).as_object(), "a", "token", "")
        assert not await one.reread()
        assert await one.headers() == {"Authorization": "Bearer access-10"}
        assert granted == [True], "it had a token already"


async def test_a_consent_given_elsewhere_that_is_met_on_the_way_ends_the_offer_here(tmp_path: Path) -> None:
    async with protected() as server:
        vault = SealedVault(FolderDocuments(tmp_path, shared=True), Sealer([b"k" * 32]))
        desk = Desk(vault)
        one = bearer(server, {"authorization_code": {}}, desk)
        with pytest.raises(ConsentNeeded):
            await refused(one)
        assert desk.consents.ticket("a")
        vault.store(Token("access-9", server.idp.url, server.url).as_object(), "a", "token", "")
        assert await one.headers() == {"Authorization": "Bearer access-9"}
        assert not desk.consents.ticket("a")


async def test_who_knows_no_token_takes_none_from_the_others(tmp_path: Path) -> None:
    """A consent that comes while this replica finds out that it needs one; or is sealed with a key it has not yet."""
    async with protected() as server:
        documents = FolderDocuments(tmp_path, shared=True)
        newer = SealedVault(documents, Sealer([b"n" * 32]))
        newer.store(Token("access-9", server.idp.url, server.url).as_object(), "a", "token", "")
        older = bearer(server, {"authorization_code": {}}, Desk(SealedVault(documents, Sealer([b"o" * 32]))))
        with pytest.raises(ConsentNeeded):
            await refused(older)
        assert newer.load("a", "token", "")["access"] == "access-9"


async def test_a_token_is_not_renewed_while_what_replicas_share_is_away(tmp_path: Path) -> None:
    """A refresh token that is spent, and whose successor nobody else can read, would end the consent for all."""
    async with protected() as server:
        place = tmp_path / "shared"
        place.mkdir()
        vault = SealedVault(FolderDocuments(place, shared=True), Sealer([b"k" * 32]))
        old = Token("old", server.idp.url, server.url, "refresh-0", time.time() + 10)
        vault.store(old.as_object(), "a", "token", "")
        one = bearer(server, {"authorization_code": {}}, Desk(vault))
        await one._load()
        place.rename(tmp_path / "away")
        assert await one.headers() == {"Authorization": "Bearer old"}, "as long as it is good"
        with pytest.raises(NoToken, match="cannot be reached"):
            await refused(one)
        assert server.idp.forms == []


class Forgetful(SealedVault):
    """Keeps no token while it is away; reads and turns go on, as when a connection breaks under one statement."""

    away = False

    def store(self, value: Object, *context: str) -> bool:
        return not (self.away and "token" in context) and super().store(value, *context)


async def test_a_new_token_that_could_not_be_kept_is_kept_later_and_its_old_one_is_spent_by_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refresh token that comes twice ends the consent for all: others wait until they can read the new one."""
    for module in (kept, bearers):
        monkeypatch.setattr(module, "AGAIN", 0.01)
    monkeypatch.setattr(kept, "LONGEST", 0.02)

    def vault() -> Forgetful:
        return Forgetful(FolderDocuments(tmp_path, shared=True), Sealer([b"k" * 32]))

    async with protected() as server:
        server.idp.issues = {"expires_in": 3600, "refresh_token": "refresh-1"}
        mine, others = vault(), vault()
        mine.store(Token("old", server.idp.url, server.url, "refresh-0", 0.0).as_object(), "a", "token", "")
        one, two = (bearer(server, {"authorization_code": {}}, Desk(each)) for each in (mine, others))
        mine.away = True
        assert await one.headers() == {"Authorization": "Bearer access-1"}
        waiting = asyncio.get_running_loop().create_task(two.headers())
        assert await one.reread() is False, "what is kept is older"
        with pytest.raises(NoToken, match="could not be shared"):
            await refused(one)
        assert await one.headers() == {"Authorization": "Bearer access-1"}
        assert not waiting.done()
        mine.away = False
        async with asyncio.timeout(5):
            assert await waiting == {"Authorization": "Bearer access-1"}
        assert [form["refresh_token"] for form in server.idp.forms] == ["refresh-0"]
        assert others.load("a", "token", "")["refresh"] == "refresh-1"
        assert await refused(one), "it may renew again"
        assert [form["refresh_token"] for form in server.idp.forms] == ["refresh-0", "refresh-1"]


async def test_a_connection_that_ends_while_its_token_is_renewed_loses_no_refresh_token(tmp_path: Path) -> None:
    """As in a rolling restart, or a reload: the answer is waited for, and kept, before others have their turn."""
    async with protected() as server:
        asked, answers = asyncio.Event(), asyncio.Event()
        script = server.idp._token

        async def slow(exchange: Exchange) -> None:
            asked.set()
            await answers.wait()
            await script(exchange)

        server.idp._token = slow  # type: ignore[method-assign] # the server's answer is what has to be late
        vault = SealedVault(FolderDocuments(tmp_path, shared=True), Sealer([b"k" * 32]))
        vault.store(Token("old", server.idp.url, server.url, "refresh-0", 0.0).as_object(), "a", "token", "")
        config = {"url": server.url, "allow_networks": LOOPBACK, "auth": {"authorization_code": {}}}
        tasks = TaskSet(no_crash)
        one = Credentials("a", Server.model_validate(config), Desk(vault), tasks).of(None)
        loop = asyncio.get_running_loop()
        waiting = loop.create_task(_ended(one.headers()))
        async with asyncio.timeout(5):
            await asked.wait()
            closing = loop.create_task(tasks.aclose())
            await asyncio.sleep(0)
            answers.set()
            await closing
            await waiting
        assert vault.load("a", "token", "")["refresh"] == "refresh-1"
        assert vault.begin_turn(ABSENT, "a", "token", "")[0], "others have their turn"


async def test_the_end_of_a_connection_waits_only_so_long_for_a_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bearers, "LEAVE", 0.02)
    async with protected() as server:
        asked, answers = asyncio.Event(), asyncio.Event()

        async def silent(exchange: Exchange) -> None:
            asked.set()
            await answers.wait()

        server.idp._token = silent  # type: ignore[method-assign] # the server's answer is what never comes
        config = Server.model_validate({"url": server.url, "allow_networks": LOOPBACK, "auth": OWN})
        tasks = TaskSet(no_crash)
        one = Credentials("a", config, Desk(), tasks).of(None)
        waiting = asyncio.get_running_loop().create_task(_ended(one.refused(refusal())))
        async with asyncio.timeout(5):
            await asked.wait()
            await tasks.aclose()
            answers.set()
            await waiting


async def test_a_renewal_that_takes_too_long_is_given_up_before_another_replica_has_its_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert bearers.PATIENCE + bearers.LEAVE < turns.LONGEST - kept.LONGEST
    monkeypatch.setattr(bearers, "PATIENCE", 0.2)
    monkeypatch.setattr(bearers, "LEAVE", 0.02)
    async with protected() as server:
        answers = asyncio.Event()

        async def silent(exchange: Exchange) -> None:
            await answers.wait()

        server.idp._token = silent  # type: ignore[method-assign] # the server's answer is what never comes
        vault = SealedVault(FolderDocuments(tmp_path, shared=True), Sealer([b"k" * 32]))
        vault.store(Token("old", server.idp.url, server.url, "refresh-0", 0.0).as_object(), "a", "token", "")
        async with asyncio.timeout(5):
            with pytest.raises(NoToken, match="too long"):
                await bearer(server, {"authorization_code": {}}, Desk(vault)).headers()
        answers.set()
        assert vault.begin_turn(ABSENT, "a", "token", "")[0], "others have their turn"


async def _ended(work: Awaitable[object]) -> None:
    with suppress(NoToken, asyncio.CancelledError):
        await work
