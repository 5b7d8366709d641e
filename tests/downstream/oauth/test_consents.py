from __future__ import annotations

import base64
import hashlib
from dataclasses import replace
from urllib.parse import parse_qsl, urlsplit

import pytest

from gateway.config.server_auth import AuthorizationCode
from gateway.config.servers import Server
from gateway.downstream.oauth.client import Client
from gateway.downstream.oauth.consents import (
    LIFETIME,
    MAX_OFFERS,
    MAX_PER_OFFER,
    MAX_STATES,
    Arrival,
    Consents,
    Departure,
)
from gateway.downstream.oauth.discovery import Discovered
from gateway.downstream.oauth.fetch import Fetcher
from gateway.downstream.oauth.metadata import PKCE, AuthorizationServer
from gateway.downstream.oauth.offer import Offer, Receiver
from gateway.downstream.oauth.shelf import Shelf
from gateway.downstream.oauth.token import Token
from gateway.state.memory import Bounds, MemoryStore
from gateway.state.sealing import Sealer
from tests.kit.http_server import Exchange, HttpServer, serving

CALLBACK = "https://gw.example/oauth/callback"
IDP = "https://idp.example"


async def nobody(token: Token) -> str:
    return ""


async def somebody(token: Token) -> str:
    return token.access


def offer(http: HttpServer | None = None, owner: str = "", **more: object) -> Offer:
    url = http.url if http is not None else "https://mcp.example/mcp"
    server = Server.model_validate({"url": url, "auth": {"authorization_code": {}}})
    idp = AuthorizationServer(IDP, url, f"{IDP}/authorize?tenant=1", names_issuer=bool(more.pop("names", False)))
    made = Offer("a", owner, Discovered(url, idp), Client("me"), ("x", "y"), CALLBACK, Fetcher("a", server), nobody)
    return replace(made, **more)  # type: ignore[arg-type] # fields of the dataclass


def left(departure: Departure | None) -> tuple[dict[str, str], str]:
    """Return the query a browser left with, and its cookie."""
    assert departure is not None
    return dict(parse_qsl(urlsplit(departure.url).query)), departure.cookie


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_a_browser_leaves_with_everything_the_specification_wants() -> None:
    consents = Consents()
    ticket = consents.offer(offer())
    assert consents.url(ticket) == f"https://gw.example/oauth/start?ticket={ticket}"
    departure = await consents.begin(ticket)
    query, _ = left(departure)
    assert departure is not None
    assert departure.is_secure
    assert departure.url.startswith(f"{IDP}/authorize?tenant=1&")
    assert query["response_type"] == "code"
    assert (query["client_id"], query["redirect_uri"]) == ("me", CALLBACK)
    assert (query["scope"], query["resource"]) == ("x y", "https://mcp.example/mcp")
    assert query["code_challenge_method"] == PKCE
    assert len(query["state"]) >= 43
    assert departure.cookie not in repr(departure)


async def came_back(more: dict[str, str], *, names: bool = False, cookie: str | None = None) -> tuple[Arrival, int]:
    """Go there and back, with ``more`` in the answer; returns how it ended and how many codes were redeemed."""

    async def script(exchange: Exchange) -> None:
        await exchange.json({"access_token": "t", "token_type": "Bearer"})

    async with serving(script) as http:
        consents = Consents()
        query, own = left(await consents.begin(consents.offer(offer(http, names=names, receive=nobody))))
        arrival = await consents.complete({"state": query["state"], "code": "c", **more}, (cookie or own,))
        again = await consents.complete({"state": query["state"], "code": "c"}, (own,))
        assert not again.ok, "a state is good once, however it ended"
        return arrival, len(http.seen)


async def test_a_code_is_redeemed_with_the_verifier_behind_its_challenge() -> None:
    received: list[Token] = []

    async def script(exchange: Exchange) -> None:
        await exchange.json({"access_token": "t", "token_type": "Bearer"})

    async def receive(token: Token) -> str:
        received.append(token)
        return "ABCD-2345"

    async with serving(script) as http:
        consents = Consents()
        ticket = consents.offer(offer(http, receive=receive))
        query, cookie = left(await consents.begin(ticket))
        arrival = await consents.complete({"state": query["state"], "code": "c"}, ("stale", cookie))
        form = dict(parse_qsl(http.seen[0].body.decode()))
    assert (arrival.ok, arrival.server, arrival.code) == (True, "a", "ABCD-2345")
    challenge = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).rstrip(b"=").decode()
    assert challenge == query["code_challenge"]
    assert (form["redirect_uri"], form["code"], form["resource"]) == (CALLBACK, "c", http.url)
    assert [token.access for token in received] == ["t"]
    assert consents.ticket("a") == ""
    assert await consents.begin(ticket) is None


@pytest.mark.parametrize(
    ("more", "names", "ok"),
    [
        ({"iss": IDP}, True, True),
        ({"iss": IDP}, False, True),
        ({}, False, True),
        ({}, True, False),
        ({"iss": f"{IDP}/"}, True, False),
        ({"iss": "HTTPS://idp.example"}, False, False),
        ({"iss": "https://evil.example"}, False, False),
    ],
)
async def test_the_issuer_of_the_answer_is_the_one_that_was_asked(more: dict[str, str], names: bool, ok: bool) -> None:
    """RFC 9207 §2.4, before the code goes anywhere."""
    arrival, redeemed = await came_back(more, names=names)
    assert (arrival.ok, redeemed) == (ok, int(ok))


async def test_another_browser_gets_nowhere() -> None:
    arrival, redeemed = await came_back({}, cookie="another")
    assert (arrival.ok, redeemed) == (False, 0)


async def test_an_error_is_not_echoed() -> None:
    arrival, redeemed = await came_back({"error": "canary", "error_description": "<script>canary</script>"})
    assert (arrival.ok, redeemed) == (False, 0)
    assert "canary" not in arrival.text


async def test_a_state_ends_after_ten_minutes() -> None:
    clock = Clock()
    consents = Consents(clock=clock)
    query, cookie = left(await consents.begin(consents.offer(offer())))
    clock.now = LIFETIME
    assert not (await consents.complete({"state": query["state"], "code": "c"}, (cookie,))).ok
    assert not (await consents.complete({}, ())).ok


async def test_an_authorization_server_that_gives_nothing_is_told_and_may_be_tried_again() -> None:
    told: list[tuple[str, str, str]] = []

    async def script(exchange: Exchange) -> None:
        await exchange.json({"error": "invalid_grant"}, 400)

    async with serving(script) as http:
        consents = Consents(lambda *words: told.append(words))
        ticket = consents.offer(offer(http, "key:alice"))
        query, cookie = left(await consents.begin(ticket))
        arrival = await consents.complete({"state": query["state"], "code": "c"}, (cookie,))
    assert not arrival.ok
    assert told == [("a", "key:alice", "no_token")]
    assert await consents.begin(ticket) is not None


async def test_the_same_offer_keeps_its_ticket_and_another_replaces_it() -> None:
    consents = Consents()
    ticket = consents.offer(offer())
    assert consents.offer(offer()) == ticket
    other = consents.offer(offer(scopes=("x", "y", "z")))
    assert other != ticket
    assert await consents.begin(ticket) is None
    assert consents.offer(offer(owner="key:alice")) not in (ticket, other)
    consents.withdraw_of([nobody])
    assert (consents.ticket("a"), consents.ticket("a", "key:alice"), consents.url(other)) == ("", "", "")
    kept = consents.offer(offer(receive=somebody))
    consents.withdraw_of([nobody])
    assert consents.ticket("a") == kept, "it is somebody else's"


async def test_offers_and_states_are_bounded() -> None:
    consents = Consents()
    first = consents.offer(offer(server="s"))
    for number in range(MAX_OFFERS):
        consents.offer(offer(owner=f"key:{number}"))
    assert await consents.begin(first) is None
    ticket = consents.ticket("a", "key:7")
    states = [left(await consents.begin(ticket))[0]["state"] for _ in range(MAX_PER_OFFER + 2)]
    assert len(set(states)) == len(states)
    assert len(consents._states) == MAX_PER_OFFER
    for number in range(MAX_STATES):
        await consents.begin(consents.ticket("a", f"key:{number}"))
    assert len(consents._states) == MAX_STATES


async def test_a_browser_may_leave_at_one_replica_and_come_back_at_another() -> None:
    received: list[str] = []

    async def script(exchange: Exchange) -> None:
        await exchange.json({"access_token": "t", "token_type": "Bearer"})

    async def receive(token: Token) -> str:
        received.append(token.access)
        return "ABCD-2345"

    async with serving(script) as http:
        shelf, made = Shelf.alone(), offer(http, owner="key:alice")
        here = Receiver(AuthorizationCode(), http.url, CALLBACK, made.fetcher, receive)
        one, two, three = (Consents(shelf=shelf) for _ in range(3))
        for each in (two, three):
            each.reach = lambda server, owner: here if (server, owner) == ("a", "key:alice") else None
        ticket = one.offer(made)
        await one.share(ticket)
        query, cookie = left(await two.begin(ticket))
        back = {"state": query["state"], "code": "c"}
        arrival = await three.complete(back, (cookie,))
        assert (arrival.ok, arrival.server, arrival.code, received) == (True, "a", "ABCD-2345", ["t"])
        for each in (one, two, three):
            assert not (await each.complete(back, (cookie,))).ok, "a state is good once, wherever"
        assert await two.begin(ticket) is None
        assert len(http.seen) == 1


async def test_another_browser_or_a_server_that_is_not_here_gets_nothing_at_another_replica() -> None:
    shelf = Shelf.alone()
    one, two = Consents(shelf=shelf), Consents(shelf=shelf)
    ticket = one.offer(offer())
    await one.share(ticket)
    assert await two.begin(ticket) is None
    query, cookie = left(await one.begin(ticket))
    assert not (await two.complete({"state": query["state"], "code": "c"}, (cookie,))).ok
    two.reach = lambda server, owner: Receiver(
        AuthorizationCode(), "https://mcp.example/mcp", CALLBACK, offer().fetcher, nobody
    )
    query, _ = left(await one.begin(ticket))
    arrival = await two.complete({"state": query["state"], "code": "c"}, ("another",))
    assert "another browser" in arrival.text


async def test_a_sign_in_that_the_store_does_not_take_ends_where_it_began() -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.json({"access_token": "t", "token_type": "Bearer"})

    async with serving(script) as http:
        consents = Consents(shelf=Shelf(MemoryStore(bounds=Bounds(entries=0)), Sealer([b"k" * 32])))
        ticket = consents.offer(offer(http))
        await consents.share(ticket)
        query, cookie = left(await consents.begin(ticket))
        back = {"state": query["state"], "code": "c"}
        assert (await consents.complete(back, (cookie,))).ok
        assert not (await consents.complete(back, (cookie,))).ok
