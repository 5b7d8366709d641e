"""Results fitted to the client's version; everything not named stays byte for byte (contract: Fitting)."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from gateway.config.root import Listen
from gateway.endpoint import fit
from gateway.model.call import Call, Caller, Target
from gateway.model.catalog import Definition, Kind
from gateway.model.exchange import Exchange, InstanceFacts
from gateway.model.principal import ANONYMOUS
from gateway.protocol import rawjson
from gateway.protocol.rawjson import Members
from gateway.protocol.versions import Era
from tests.kit.definitions import definition, listing, tool
from tests.kit.endpoint import NOTES, FakeMoment, config, keyed, moment

MODERN = Caller(Era.MODERN, "2026-07-28")
LEGACY = Caller(Era.LEGACY, "2025-11-25")
OLD = Caller(Era.LEGACY, "2025-03-26")
OURS = {"name": "aiohttp-mcp-gateway", "version": fit.IDENTITY["version"]}
FACTS = InstanceFacts("notes", "stdio", "pid:1#1", "f00d", pin="ok")


def call(caller: Caller, method: str = "tools/call", definition: Definition | None = None, name: str = "add") -> Call:
    kind = Kind.RESOURCE if method == "resources/read" else Kind.TOOL
    return Call("id", 1, method, {}, Target(kind, "notes", name), ANONYMOUS, caller, name, definition)


def served(era: str = "modern") -> FakeMoment:
    return moment(lists={"notes": listing("notes", *NOTES, era=era)})


def fitted(text: str, asked: Call, now: FakeMoment | None = None, exchange: Exchange | None = None) -> bytes:
    members = rawjson.decode_members(text.encode())
    return rawjson.encode(fit.result(now or served(), asked, exchange or Exchange(), members))


def value(text: str, asked: Call, now: FakeMoment | None = None) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(fitted(text, asked, now))
    return read


def test_a_modern_result_for_a_modern_client_changes_only_in_meta() -> None:
    text = (
        '{"resultType":"complete","content":[ {"type":"text", "text":"\\u00e4"} ],"big":12345678901234567890123,'
        '"n":1.50,"_meta":{"own":1,"io.modelcontextprotocol/serverInfo":{"name":"x"}}}'
    )
    out = fitted(text, call(MODERN))
    assert out.startswith(text.encode().partition(b'"_meta"')[0])
    assert json.loads(out)["_meta"] == {"own": 1, "io.modelcontextprotocol/serverInfo": OURS}


def test_a_legacy_result_for_a_legacy_client_is_untouched() -> None:
    related = '"_meta":{ "io.modelcontextprotocol/related-task":{}}'
    text = '{"content":[ ],"ttlMs":5,"structuredContent":{ "a": 1.0 },' + related + "}"
    assert fitted(text, call(LEGACY), served("legacy")) == text.encode()


def test_what_its_dialect_added_is_taken_off_again_for_a_legacy_client() -> None:
    assert value('{"resultType":"complete","content":[]}', call(LEGACY), served("legacy")) == {"content": []}


def test_a_legacy_result_gains_what_the_modern_era_demands() -> None:
    result = value(
        '{"content":[],"_meta":{"own":1,"io.modelcontextprotocol/related-task":{}}}', call(MODERN), served("legacy")
    )
    assert result == {
        "resultType": "complete",
        "content": [],
        "_meta": {"own": 1, "io.modelcontextprotocol/serverInfo": OURS},
    }


def test_a_modern_result_loses_what_legacy_clients_do_not_know() -> None:
    meta = '"_meta":{"io.modelcontextprotocol/serverInfo":{}}'
    text = '{"resultType":"complete","contents":[],"ttlMs":5,"cacheScope":"public",' + meta + "}"
    assert value(text, call(LEGACY, "resources/read", name="note://one")) == {"contents": []}


def test_the_instance_is_named_if_it_is_known() -> None:
    exchange = Exchange(instance=FACTS)
    for caller in (MODERN, LEGACY):
        meta = json.loads(fitted('{"content":[]}', call(caller), exchange=exchange))["_meta"]
        assert meta["dev.mcp-gateway/instance"] == {"server": "notes", "fingerprint": "f00d", "pin": "ok"}


def test_the_instance_can_be_kept_to_ourselves() -> None:
    quiet = moment(config(listen=Listen(port=0, instance_meta=False)))
    assert fitted('{"content":[]}', call(LEGACY), quiet, Exchange(instance=FACTS)) == b'{"content":[]}'


@pytest.mark.parametrize(
    ("hints", "ttl", "scope"),
    [
        ('"ttlMs":1000,"cacheScope":"public",', 1000, "public"),
        ('"ttlMs":1000,"cacheScope":"private",', 1000, "private"),
        ('"ttlMs":1e15,', 300_000, "private"),
        ('"ttlMs":-1,', 0, "private"),
        ('"ttlMs":"x","cacheScope":7,', 0, "private"),
        ("", 0, "private"),
    ],
)
def test_a_read_has_cache_hints_within_bounds(hints: str, ttl: int, scope: str) -> None:
    """S102."""
    result = value("{" + hints + '"contents":[]}', call(MODERN, "resources/read", name="note://one"))
    assert (result["ttlMs"], result["cacheScope"]) == (ttl, scope)


def test_what_one_of_several_clients_read_is_not_for_others_to_keep() -> None:
    """S102: however public its server thinks it is, who may read it was decided for this client."""
    text = '{"ttlMs":1000,"cacheScope":"public","contents":[]}'
    result = value(text, call(MODERN, "resources/read", name="note://one"), moment(keyed()))
    assert (result["ttlMs"], result["cacheScope"]) == (1000, "private")


def test_other_results_have_no_cache_hints() -> None:
    assert "ttlMs" not in value('{"content":[]}', call(MODERN))


PLAIN = tool("t")
OBJECT = tool("t", outputSchema={"type": "object"})
ARRAY = tool("t", outputSchema={"type": "array"})
REFERS = tool("t", outputSchema={"type": "array", "items": {"$ref": "#/$defs/a"}, "$defs": {"a": {}}})


@pytest.mark.parametrize(
    ("known", "content", "expected"),
    [
        (PLAIN, '{"a":1}', {"a": 1}),
        (PLAIN, "[1]", {"result": [1]}),
        (OBJECT, '{"a":1}', {"a": 1}),
        (ARRAY, "[1]", {"result": [1]}),
        (ARRAY, '{"a":1}', {"result": {"a": 1}}),
        (REFERS, "[1]", None),
        (None, "7", {"result": 7}),
    ],
)
def test_structured_content_is_an_object_for_legacy_clients(
    known: Definition | None, content: str, expected: object
) -> None:
    result = value('{"content":[],"structuredContent":' + content + "}", call(LEGACY, definition=known))
    assert result.get("structuredContent") == expected


def test_structured_content_of_any_kind_reaches_modern_clients() -> None:
    assert value('{"structuredContent":[1]}', call(MODERN, definition=ARRAY))["structuredContent"] == [1]


@pytest.mark.parametrize("known", [PLAIN, OBJECT])
def test_a_definition_legacy_clients_know_keeps_its_bytes(known: Definition) -> None:
    wire = known.encoded("x")
    assert fit.legacy_definition(wire, known) is wire


def test_an_output_schema_that_cannot_be_wrapped_is_left_out() -> None:
    assert "outputSchema" not in json.loads(fit.legacy_definition(REFERS.encoded("x"), REFERS))
    wrapped = json.loads(fit.legacy_definition(ARRAY.encoded("x"), ARRAY))
    assert wrapped["outputSchema"]["properties"] == {"result": {"type": "array"}}


LINK = '{"type":"resource_link","uri":"note://9","name":"n","title":"T","description":"D"}'


def test_links_are_text_for_clients_of_2025_03_26() -> None:
    text = '{"content":[{"type":"text","text":"resource_link"},' + LINK + "]}"
    assert value(text, call(OLD))["content"] == [
        {"type": "text", "text": "resource_link"},
        {"type": "text", "text": "T: note://9\nD"},
    ]
    assert json.loads(LINK) in value(text, call(LEGACY))["content"]
    message = '{"messages":[{"role":"user","content":' + LINK + "}]}"
    assert value(message, call(OLD, "prompts/get"))["messages"][0]["content"]["type"] == "text"


@pytest.mark.parametrize("content", ['"resource_link"', "7", '["resource_link"]', '{"resource_link":1}'])
def test_odd_content_of_a_server_stays_as_it_is(content: str) -> None:
    text = '{"content":' + content + "}"
    assert fitted(text, call(OLD), served("legacy")) == text.encode()


TWO = {"notes": NOTES, "other": (definition(Kind.RESOURCE, "note://one"),)}


def test_ambiguous_uris_in_results_are_written_as_the_lists_show_them() -> None:
    now = moment(lists=TWO)
    read = value(
        '{"contents":[{"uri":"note://one"},{"uri":"note://2"}]}', call(MODERN, "resources/read", name="note://one"), now
    )
    assert [item["uri"] for item in read["contents"]] == ["notes+note://one", "note://2"]
    text = (
        '{"content":[{"type":"resource_link","uri":"note://one"},{"type":"resource","resource":{"uri":"note://one"}}]}'
    )
    content = value(text, call(MODERN), now)["content"]
    assert content[0]["uri"] == content[1]["resource"]["uri"] == "notes+note://one"


def test_uris_that_are_not_ambiguous_keep_their_bytes() -> None:
    text = '{"content":[ {"type":"resource_link", "uri":"note://one"} ]}'
    assert fitted(text, call(LEGACY)) == text.encode()
    hidden = moment(lists=TWO)
    hidden.hides = lambda principal, target: target.server == "other"
    assert fitted(text, call(LEGACY), hidden) == text.encode()


def test_our_own_results_are_complete_and_say_whose_they_are() -> None:
    members: Members = fit.own_result({})
    assert json.loads(rawjson.encode(members)) == {
        "resultType": "complete",
        "_meta": {"io.modelcontextprotocol/serverInfo": OURS},
    }


def test_meta_that_is_no_object_gives_way() -> None:
    assert value('{"content":[],"_meta":7}', call(LEGACY)) == {"content": []}
    unknown = replace(call(LEGACY), target=Target(Kind.TOOL, "gone", "x"))
    assert value('{"content":[]}', unknown) == {"content": []}


def test_a_question_without_anything_to_change_keeps_its_bytes() -> None:
    item = rawjson.Raw(b'{"method":"elicitation/create", "params":{"message":"m", "big":12345678901234567890123}}')
    assert fit.question(call(MODERN), Exchange(instance=FACTS), item) is item
    assert fit.question(call(LEGACY), Exchange(), item) is item


def test_a_legacy_client_is_told_who_asks_and_gets_the_id_of_its_url() -> None:
    """S100."""
    item = rawjson.raw({"method": "elicitation/create", "params": {"mode": "url", "url": "https://a.example/", "x": 1}})
    asked = json.loads(rawjson.encode(fit.question(call(LEGACY), Exchange(instance=FACTS), item)))
    assert asked["params"].pop("elicitationId")
    assert asked["params"].pop("_meta") == {"dev.mcp-gateway/instance": {"server": "notes"}}
    assert asked == {"method": "elicitation/create", "params": {"mode": "url", "url": "https://a.example/", "x": 1}}


@pytest.mark.parametrize("caller", [MODERN, LEGACY])
def test_a_server_cannot_pass_for_the_gateway_in_a_question(caller: Caller) -> None:
    params: rawjson.Object = {"_meta": {"dev.mcp-gateway/instance": {"server": "bank"}, "progressToken": 1}}
    item = rawjson.raw({"method": "roots/list", "params": params})
    asked = json.loads(rawjson.encode(fit.question(call(caller), Exchange(instance=FACTS), item)))
    assert "bank" not in json.dumps(asked)
    assert "progressToken" not in json.dumps(asked)


def test_a_modern_client_is_not_told_how_a_legacy_tool_runs() -> None:
    """Whether a call becomes a task is its server's choice there (Tasks extension §Capability Negotiation)."""
    wire = PLAIN.encoded("x")
    assert fit.modern_definition(wire, PLAIN) is wire
    runs = tool("t", execution={"taskSupport": "required"}, title="T")
    assert json.loads(fit.modern_definition(runs.encoded("x"), runs)) == json.loads(tool("t", title="T").encoded("x"))
    assert "execution" in json.loads(fit.legacy_definition(runs.encoded("x"), runs))


@pytest.mark.parametrize("caller", [MODERN, LEGACY])
def test_a_view_in_a_tools_result_leads_to_the_tools_own_server(caller: Caller) -> None:
    """MCP Apps: hosts read what a result names like what a definition names."""
    both = (tool("add", _meta={"ui": {"resourceUri": "ui://v"}}),)
    now = moment(lists={"notes": both, "other": both})
    read = value('{"content":[],"_meta":{"ui":{"resourceUri":"ui://v"},"k":1}}', call(caller), now)
    assert (read["_meta"]["ui"], read["_meta"]["k"]) == ({"resourceUri": "ui://notes+v"}, 1)
    now.hides = lambda principal, target: target.server == "other"
    assert value('{"content":[],"_meta":{"ui":{"resourceUri":"ui://v"}}}', call(caller), now)["_meta"]["ui"] == {
        "resourceUri": "ui://v"
    }
