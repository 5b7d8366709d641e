"""Extensions through a real gateway, in all four cells: declared both ways, and methods that nobody here knows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kit.clients import Json, ask, modern_headers, post
from tests.kit.extending import APPS, ERAS, Talker, extended, talker
from tests.kit.extension_server import UI
from tests.kit.gateway import Gateway, serving
from tests.kit.wire import EraName

KEY = "mcpgw_guest000_" + "g" * 43
BOB = "mcpgw_bob00000_" + "b" * 43
EVE = "mcpgw_eve00000_" + "e" * 43
OF = {"new": "com.example/new", "old": "com.example/old"}
SERVERS = tuple(OF)
"""A server of either era, each with an extension of its own; ``twin`` shares one with both."""
SHARED = "com.example/shared"


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    servers = {
        "new": extended("new", "modern", {OF["new"]: {"deep": True}, SHARED: {"fast": True, "deep": True}, UI: {}}),
        "old": extended("old", "legacy", {OF["old"]: {}, SHARED: {"fast": False, "deep": True}}),
    }
    clients = {
        "guest": {"key": KEY, "groups": ["all"]},
        "bob": {"key": BOB},
        "eve": {"key": EVE},
    }
    policies = [
        {"name": "all", "clients": ["group:all"], "allow": ["any:*/**"], "deny": ["any:*/search/secret"]},
        {"name": "tools", "clients": ["bob"], "allow": ["new/*"]},
        {"name": "narrow", "clients": ["eve"], "allow": [{"tools": "any:new/search/run", "when": "args.q == 'ok'"}]},
    ]
    config = {"servers": servers, "clients": clients, "policies": policies}
    with serving(tmp_path_factory.mktemp("extensions"), config) as running:
        running.await_servers(*servers)
        yield running


async def guest(gateway: Gateway, era: EraName, *extensions: str, key: str = KEY) -> Talker:
    return await talker(gateway.port, era, {"extensions": {name: {"v": 1} for name in extensions}}, key)


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_is_offered_what_the_servers_it_sees_offer(gateway: Gateway, era: EraName) -> None:
    """Settings are those that every server of the extension keeps."""
    offered = (await guest(gateway, era)).offered["extensions"]
    assert offered == {OF["new"]: {"deep": True}, OF["old"]: {}, SHARED: {"deep": True}, UI: {}}
    mine = (await guest(gateway, era, key=BOB)).offered["extensions"]
    assert mine == {OF["new"]: {"deep": True}, SHARED: {"fast": True, "deep": True}, UI: {}}


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("era", ERAS)
async def test_a_server_learns_which_extensions_this_client_has(gateway: Gateway, era: EraName, server: str) -> None:
    one = await talker(gateway.port, era, {**APPS, "x": {}}, KEY)
    two = await guest(gateway, era, "com.example/a", "io.modelcontextprotocol/oauth-client-credentials")
    assert (await one.told(f"{server}__meta"))["capabilities"] == APPS
    assert (await two.told(f"{server}__meta"))["capabilities"] == {"extensions": {"com.example/a": {"v": 1}}}
    assert (await (await guest(gateway, era)).told(f"{server}__meta"))["capabilities"] == {}


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("era", ERAS)
async def test_an_unknown_method_reaches_the_server_whose_extension_the_client_declared(
    gateway: Gateway, era: EraName, server: str
) -> None:
    client = await guest(gateway, era, OF[server])
    params: Json = {
        "q": [1, {"deep": 2**62}],
        "name": "x",
        "_meta": {"com.example/k": 1, "baggage": "a=b"},
    }
    reply = await client.ask("search/run", params)
    assert reply.result["params"]["q"] == params["q"]
    assert reply.result["params"]["name"] == "x"
    told = reply.result["params"].get("_meta", {})
    assert told["com.example/k"] == 1
    assert "baggage" not in told
    assert reply.result["capabilities"] == {"extensions": {OF[server]: {"v": 1}}}
    assert b'"n":1.5' in reply.body.replace(b" ", b"")
    assert reply.result["_meta"]["dev.mcp-gateway/instance"]["server"] == server
    assert ("resultType" in reply.result) is (era == "modern")


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("era", ERAS)
async def test_its_notifications_come_on_its_own_stream_and_none_that_look_like_the_cores(
    gateway: Gateway, era: EraName, server: str
) -> None:
    reply = await (await guest(gateway, era, OF[server])).ask("search/run")
    told = [event for event in reply.events if "method" in event]
    assert [event["method"] for event in told] == ["notifications/search/found"]
    assert told[0]["params"]["hit"] == server
    assert b"12345678901234567890" in reply.body


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("extensions", [(), ("com.example/other",), (SHARED,), tuple(OF.values())])
async def test_an_unknown_method_that_nobody_or_more_than_one_could_own_is_not_found(
    gateway: Gateway, era: EraName, extensions: tuple[str, ...]
) -> None:
    reply = await (await guest(gateway, era, *extensions)).ask("search/run")
    assert (reply.status, reply.code) == (404 if era == "modern" else 200, -32601)


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("method", ["search/secret", "tools/odd", "notifications/x", "sampling/createMessage", "a b"])
async def test_what_is_denied_and_what_is_the_cores_own_is_not_found_either(
    gateway: Gateway, era: EraName, method: str
) -> None:
    reply = await (await guest(gateway, era, OF["new"])).ask(method)
    assert (reply.status, reply.code) == (404 if era == "modern" else 200, -32601)


@pytest.mark.parametrize("era", ERAS)
async def test_an_unknown_method_is_denied_by_default_and_no_tool_rule_allows_it(
    gateway: Gateway, era: EraName
) -> None:
    reply = await (await guest(gateway, era, OF["new"], key=BOB)).ask("search/run")
    assert reply.code == -32601


@pytest.mark.parametrize("era", ERAS)
async def test_conditions_judge_its_params_and_every_call_of_it_is_audited(gateway: Gateway, era: EraName) -> None:
    client = await guest(gateway, era, OF["new"], key=EVE)
    assert (await client.ask("search/run", {"q": "no"})).code == -31008
    assert "params" in (await client.ask("search/run", {"q": "ok"})).result
    mine = [record for record in gateway.records() if record.get("mcp", {}).get("method") == "search/run"]
    ended = [record for record in mine if record["principal"]["id"] == "key:eve" and record["mcp"]["era"] == era]
    assert [record["event"] for record in ended] == ["call.denied", "call.start", "call.end"]
    assert {record["tool"]["kind"] for record in ended} == {"method"}
    assert {record["server"] for record in ended} == {"new"}


async def test_a_result_type_of_an_extension_passes_to_a_client_of_its_own_era(gateway: Gateway) -> None:
    reply = await (await guest(gateway, "modern", OF["new"])).ask("search/run", {"partial": True})
    assert reply.result["resultType"] == "com.example/partial"
    legacy = await (await guest(gateway, "legacy", OF["new"])).ask("search/run", {"partial": True})
    assert legacy.code == -31004


@pytest.mark.parametrize("era", ERAS)
async def test_an_unknown_notification_of_a_client_is_accepted_and_goes_nowhere(gateway: Gateway, era: EraName) -> None:
    client = await guest(gateway, era, OF["new"])
    body = {"jsonrpc": "2.0", "method": "notifications/search/hint"}
    head = (
        client.session.head() if client.session is not None else [*client.headers, *modern_headers(body["method"], {})]
    )
    reply = await ask(gateway.port, post(body, head))
    assert (reply.status, reply.body) == (202, b"")
