"""APIs without MCP behind the whole gateway: the same names, policies, pins, limits and records as for any server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.kit import wire
from tests.kit.gateway import Gateway, eventually, free_port, serving
from tests.kit.peers import driver
from tests.kit.pinning import await_state, decide, pins
from tests.kit.rest_service import PNG, RestService, petstore, rest_service
from tests.kit.wire import Answer, EraName, HttpClient, Json, every, http_client

ERAS: tuple[EraName, ...] = ("modern", "legacy")
KEY = "header-canary-" + "k" * 20
QUERY = "query-canary-" + "q" * 20
KEYS = {name: f"{name}-" + name[0] * 40 for name in ("alice", "bob", "carol")}


@dataclass(frozen=True, slots=True)
class Site:
    """A gateway with one API twice: ``api`` by its address, ``file`` by a file and with credentials."""

    gateway: Gateway
    service: RestService


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("openapi")
    with rest_service() as service:
        (folder / "petstore.json").write_text(json.dumps(petstore()))
        servers: Json = {
            "api": {"openapi": service.document_url, "max_result": 65536, "timeouts": {"call": "20s"}},
            "file": {
                "openapi": "./petstore.json",
                "url": f"{service.origin}/api/v3?key={QUERY}",
                "headers": {"X-Api-Key": KEY},
                "tools": {"include": ["echo", "get*"], "exclude": ["getImage"], "rename": {"echo": "say"}},
            },
            "gone": {"openapi": "./petstore.json", "url": f"http://127.0.0.1:{free_port()}"},
        }
        with serving(folder, {"servers": servers}) as gateway:
            gateway.await_servers("api", "file", "gone")
            yield Site(gateway, service)


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A gateway with clients and policies, so that pins hold: the API by address, by file, and behind a token."""
    folder = tmp_path_factory.mktemp("closed")
    some = {"tools": "api/getPetById", "when": "args.petId < 10"}
    policies = [
        {"name": "some", "clients": ["alice"], "allow": [some, "api/find*"], "limits": [{"rate": "3/hour"}]},
        {"name": "token", "clients": ["carol"], "allow": ["token/*"]},
    ]
    with rest_service() as service:
        (folder / "api.json").write_text(json.dumps(petstore()))
        base = f"{service.origin}/api/v3"
        way = {"client_id": "me", "client_secret": "client-canary-0123", "token_url": f"{service.origin}/token"}
        config: Json = {
            "servers": {
                "api": {"openapi": service.document_url, "isolation": "principal"},
                "file": {"openapi": "api.json", "url": base},
                "token": {"openapi": service.document_url, "url": base, "auth": {"client_credentials": way}},
            },
            "clients": {name: {"key": key} for name, key in KEYS.items()},
            "policies": policies,
        }
        with serving(folder, config) as gateway:
            gateway.await_servers("api", "file", "token")
            yield Site(gateway, service)


async def call(client: HttpClient, tool: str, /, server: str = "api", **arguments: Any) -> Answer:
    return await wire.call(client, f"{server}__{tool}", arguments)


@pytest.mark.parametrize("era", ERAS)
async def test_operations_are_tools_for_clients_of_both_eras(site: Site, era: EraName) -> None:
    async with http_client(site.gateway.url, era) as client:
        tools = {tool["name"]: tool for tool in await every(client, "tools/list", "tools")}
    assert {name for name in tools if name.startswith("file__")} == {"file__say", "file__getPetById", "file__getStatus"}
    pet = tools["api__getPetById"]
    assert (pet["title"], pet["description"]) == ("Find pet by ID", "Returns a single pet")
    assert pet["inputSchema"]["required"] == ["petId"]
    assert pet["outputSchema"]["type"] == "object"
    assert pet["annotations"]["readOnlyHint"] is True


@pytest.mark.parametrize("era", ERAS)
async def test_answers_are_results_for_clients_of_both_eras(site: Site, era: EraName) -> None:
    async with http_client(site.gateway.url, era) as client:
        added = (await call(client, "addPet", name="Tom", photoUrls=[])).result["structuredContent"]
        found = (await call(client, "getPetById", petId=added["id"])).result
        assert found["structuredContent"] == added
        assert json.loads(found["content"][0]["text"]) == added
        several = (await call(client, "findPetsByStatus", status=["sold", "a&b"])).result
        assert added in several["structuredContent"]["result"]
        assert site.service.calls()[-1].target == "/api/v3/pet/findByStatus?status=sold&status=a%26b"
        gone = (await call(client, "deletePet", petId=added["id"])).result
        assert gone["content"][0]["text"] == "The server answered 204 No Content, without a body."
        missing = (await call(client, "getPetById", petId=added["id"])).result
        assert missing["isError"] is True
        assert missing["content"][0]["text"].startswith("The server answered 404 Not Found.\n")
        image = (await call(client, "getImage", petId=1)).result["content"][0]
        assert (image["type"], image["mimeType"], len(image["data"])) == ("image", "image/png", (len(PNG) + 2) // 3 * 4)
        sent = (await call(client, "uploadFile", petId=1, file="aGk=", file_filename="a.txt")).result
        assert sent["structuredContent"]["kind"] == "multipart/form-data"
        assert b'filename="a.txt"' in site.service.calls()[-1].body


@pytest.mark.parametrize("client", ["mcp1-legacy", "mcp2-modern", "ts2-modern"])
def test_official_clients_take_what_an_api_answers(site: Site, client: str, tmp_path: Path) -> None:
    """They check results against the outputSchema of the tool, and fail the call where they do not fit."""
    with driver(client, site.gateway.url, tmp_path / "log") as official:
        listed = json.dumps(official.ok("tools"))
        assert "api__findPetsByStatus" in listed
        for tool, arguments in (
            ("api__getPetById", {"petId": 1}),
            ("api__findPetsByStatus", {"status": ["sold"]}),
            ("api__echo", {"name": "x"}),
            ("api__getPetById", {"petId": 4711}),
        ):
            official.ok("call", name=tool, arguments=arguments)


async def test_arguments_are_held_to_the_schema_and_to_their_place(site: Site) -> None:
    before = len(site.service.calls())
    async with http_client(site.gateway.url, "modern") as client:
        for arguments in ({"petId": "x"}, {}, {"petId": 1, "more": 1}):
            assert (await call(client, "getPetById", **arguments)).refusal["reason"] == "invalid_arguments"
        for name in ("..", "../../admin", "%2e%2e/x", "a\r\nb"):
            refused = (await call(client, "echo", name=name)).refusal
            assert refused == {"reason": "invalid_arguments", "mayHaveRun": False}
        assert len(site.service.calls()) == before
        odd: Json = {"X-Note": "n", "session": "s;t", "filter": {"a": {"b": 1}}}
        await call(client, "echo", name="a/b?c#d", q="x y", **odd)
    seen = site.service.calls()[-1]
    assert seen.target == "/api/v3/echo/a%2Fb%3Fc%23d?q=x%20y&filter%5Ba%5D%5Bb%5D=1"
    assert (seen.headers["x-note"], seen.headers["cookie"]) == ("n", "session=s%3Bt")


async def test_credentials_go_to_the_api_and_nowhere_else(site: Site) -> None:
    async with http_client(site.gateway.url, "modern") as client:
        await call(client, "say", "file", name="x", q="1")
        seen = site.service.calls()[-1]
        assert seen.target == f"/api/v3/echo/x?key={QUERY}&q=1"
        assert seen.headers["x-api-key"] == KEY
        refused = (await call(client, "getStatus", "file", code=401)).result["content"][0]["text"]
    # The API repeats its key in what it refuses.
    assert refused == 'The server answered 401 Unauthorized.\n{"error": "code 401", "key": "***", "token": ""}'
    shown = json.dumps(site.gateway.status()) + site.gateway.log.read_text() + json.dumps(site.gateway.records())
    assert "canary" not in shown


async def test_what_an_api_refuses_is_told_to_the_model(site: Site) -> None:
    async with http_client(site.gateway.url, "modern") as client:
        limited = (await call(client, "getStatus", code=429)).result
        assert limited["isError"] is True
        assert "It asks to wait 7 seconds before the next try." in limited["content"][0]["text"]
        away = (await call(client, "getStatus", code=302)).refusal
        assert away["reason"] == "protocol_error"
        large = (await call(client, "large")).refusal
        assert (large["reason"], large["mayHaveRun"]) == ("too_large", False)


async def test_an_api_that_is_not_there_is_unavailable(site: Site) -> None:
    async with http_client(site.gateway.url, "modern") as client:
        answer = await call(client, "addPet", "gone", name="x", photoUrls=[])
    assert (answer.refusal["reason"], answer.refusal["mayHaveRun"]) == ("unavailable", False)
    assert "127.0.0.1" not in answer.result["content"][0]["text"]
    assert site.gateway.status()["servers"]["gone"]["state"] in ("degraded", "open")


async def test_a_client_that_leaves_ends_the_request(site: Site) -> None:
    site.service.arrived.clear()
    site.service.dropped.clear()
    async with http_client(site.gateway.url, "modern") as client:
        task = asyncio.get_running_loop().create_task(call(client, "slow"))
        assert await asyncio.to_thread(site.service.arrived.wait, 5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert await asyncio.to_thread(site.service.dropped.wait, 5)


def test_operators_see_an_api_like_any_server(site: Site) -> None:
    called = site.gateway.cli("call", "api/findPetsByStatus", '{"status": ["sold"]}', "--as", "anonymous")
    assert called.returncode == 0, called.stderr
    status = site.gateway.status()["servers"]["api"]
    assert (status["kind"], status["state"], status["era"]) == ("openapi", "up", None)
    assert (status["product"], status["version"], status["tools"]) == ("Pet Store/1.0.27", "OpenAPI 3.0.4", 10)
    assert "getPetById" in site.gateway.cli("tools", "--as", "anonymous").stdout
    ended = [record for record in site.gateway.records() if record["event"] == "call.end"]
    assert {record["downstream"]["transport"] for record in ended if record.get("downstream")} == {"openapi"}
    assert site.gateway.metric("mcp_gateway_downstream_state", server="api", state="up") == 1


def test_a_check_reads_documents_and_asks_no_api(site: Site) -> None:
    before = len(site.service.calls())
    checked = site.gateway.cli("check", "--live", "-c", site.gateway.file)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert len(site.service.calls()) == before


async def test_policies_read_the_arguments_of_an_api(closed: Site) -> None:
    async with http_client(closed.gateway.url, "modern", KEYS["alice"]) as alice:
        names = {tool["name"] for tool in await every(alice, "tools/list", "tools")}
        assert names == {"api__getPetById", "api__findPetsByStatus"}
        assert (await call(alice, "getPetById", petId=1)).result["structuredContent"]["name"] == "Rex"
        assert (await call(alice, "getPetById", petId=10)).refusal["reason"] == "denied"
        assert (await call(alice, "deletePet", petId=1)).status == 400
        for _ in range(2):
            assert not (await call(alice, "findPetsByStatus", status=[])).result.get("isError")
        assert (await call(alice, "getPetById", petId=1)).refusal["reason"] == "rate_limited"
    async with http_client(closed.gateway.url, "modern", KEYS["bob"]) as bob:
        assert await every(bob, "tools/list", "tools") == []
    # One for the lists, and one of her own.
    assert closed.gateway.status()["servers"]["api"]["connections"] == 2


async def test_a_token_for_an_api_is_got_and_sent_like_for_any_server(closed: Site) -> None:
    async with http_client(closed.gateway.url, "modern", KEYS["carol"]) as carol:
        await call(carol, "echo", "token", name="x")
        assert closed.service.calls()[-1].headers["authorization"].startswith("Bearer lent-token-")
        refused = (await call(carol, "getStatus", "token", code=403)).result["content"][0]["text"]
    assert "lent-token-" not in refused


def test_a_document_in_a_file_belongs_to_the_pin(closed: Site) -> None:
    gateway = closed.gateway
    (gateway.folder / "api.json").write_text(json.dumps(petstore(), indent=1))
    await_state(gateway, "file", "quarantined")
    assert "document_sha256" in gateway.status()["servers"]["file"]["pin_changed"]
    assert decide(gateway, "approve", "file") == 200
    eventually(lambda: gateway.status()["servers"]["file"]["state"] == "up", "approved")


def test_an_operation_that_goes_elsewhere_is_held_back_until_it_is_approved(tmp_path: Path) -> None:
    """The tool looks the same; the request would be another one."""
    config: Json = {
        "clients": {"alice": {"key": KEYS["alice"]}},
        "policies": [{"name": "all", "clients": ["*"], "allow": ["*/*"]}],
    }
    with rest_service() as service:
        config["servers"] = {"api": {"openapi": service.document_url}}
        with serving(tmp_path, config) as gateway:
            gateway.await_servers("api")
            eventually(lambda: gateway.status()["servers"]["api"]["tools"] == 10, "all are approved at first sight")
        paths = service.document["paths"]
        paths["/admin/{code}"] = paths.pop("/status/{code}")
        paths["/more"] = {"get": {"operationId": "more", "description": "new"}}
        with serving(tmp_path, config) as gateway:
            await_state(gateway, "api", "changed")
            names = [item["item"] for item in pins(gateway, "api")["differences"]]
            assert sorted(names) == ["tool:getStatus", "tool:more"]
            assert gateway.status()["servers"]["api"]["tools"] == 9
            assert decide(gateway, "approve", "api") == 200
            eventually(lambda: gateway.status()["servers"]["api"]["tools"] == 11, "approved")


def test_a_document_in_a_file_takes_effect_when_it_is_edited(tmp_path: Path) -> None:
    with rest_service() as service:
        document = petstore()
        file = tmp_path / "api.json"
        file.write_text(json.dumps(document))
        config = {"servers": {"api": {"openapi": "api.json", "url": f"{service.origin}/api/v3"}}}
        with serving(tmp_path, config) as gateway:
            gateway.await_servers("api")
            del document["paths"]["/slow"]
            beside = tmp_path / "api.new"
            beside.write_text(json.dumps(document))
            beside.replace(file)
            eventually(lambda: gateway.status()["servers"]["api"]["tools"] == 9, "the new document is in force")
            beside.write_text("swagger: '2.0'")
            beside.replace(file)
            eventually(lambda: gateway.metric("mcp_gateway_config_reload_success") == 0, "a bad one is refused")
            assert gateway.status()["servers"]["api"]["tools"] == 9
