"""Fits a server's result to the version its client speaks (contract: Fitting). Pure functions on split results.

For a client of the server's own era the bytes stay, but for ``_meta`` and cache hints. What is not named here is never
read, so it cannot be lost.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final
from uuid import uuid4

from gateway import __version__
from gateway.endpoint.services import Moment
from gateway.model.call import Call
from gateway.model.catalog import Definition
from gateway.model.exchange import Exchange, InstanceFacts
from gateway.protocol import apps, meta, methods, rawjson, results, tasks, versions
from gateway.protocol.rawjson import JsonError, Members, Object, Raw, Value
from gateway.protocol.versions import Era

IDENTITY: Final[Object] = {"name": "aiohttp-mcp-gateway", "version": __version__}
"""What the gateway calls itself, in place of the servers behind it."""

_MODERN_MEMBERS: Final = ("resultType", "ttlMs", "cacheScope")
_LOCAL_REFERENCES: Final = (b'"$ref"', b'"$dynamicRef"', b'"$recursiveRef"', b'"$defs"', b'"definitions"', b'"$id"')
_STRUCTURED: Final = "structuredContent"
_OUTPUT_SCHEMA: Final = "outputSchema"


def own_result(members: Members) -> Members:
    """Finish a result of our own making for a modern client."""
    return meta.merge(results.with_type(members), {meta.SERVER_INFO: IDENTITY})


def result(moment: Moment, call: Call, exchange: Exchange, members: Members) -> Members:
    """Return a server's result as the caller may read it."""
    listing = moment.catalog.listings.get(call.target.server)
    foreign = listing is not None and listing.era not in ("", call.caller.era.value)
    fitted = _shown_uris(moment, call, meta.without_ours(members))
    modern = call.caller.era is Era.MODERN
    fitted = _modern(moment, call, fitted, foreign) if modern else _legacy(call, fitted, foreign)
    return marked(moment, call, exchange, fitted)


def carried(moment: Moment, call: Call, members: Members) -> Members:
    """Return a result that travels inside another one, between a client and a server of one era."""
    return _shown_uris(moment, call, meta.without_ours(members))


def marked(moment: Moment, call: Call, exchange: Exchange, members: Members) -> Members:
    """Return a result with the gateway's word on who answered."""
    additions: dict[str, Value] = {meta.SERVER_INFO: IDENTITY} if call.caller.era is Era.MODERN else {}
    if exchange.instance is not None and moment.config.listen.instance_meta:
        additions[meta.INSTANCE] = _instance(exchange.instance)
    return meta.merge(members, additions) if additions else members


def question(call: Call, exchange: Exchange, item: Raw) -> Raw:
    """Return a server's question as the caller may read it; bytes stay where nothing has to change.

    Reserved ``_meta`` keys of the server's hop go. A legacy client is told who asks in ``_meta``, since it sees no
    result (S100), and gets the ``elicitationId`` that URL mode had before 2026-07-28.
    """
    members = rawjson.decode_members(item)
    params = rawjson.decode_members(members["params"]) if "params" in members else {}
    fitted = meta.without_reserved(params)
    if call.caller.era is Era.LEGACY:
        if _mode(params) == "url" and "elicitationId" not in params:
            fitted = fitted | {"elicitationId": rawjson.raw(str(uuid4()))}
        if exchange.instance is not None:
            fitted = meta.merge(fitted, {meta.INSTANCE: {"server": exchange.instance.server}})
        if call.task is not None:
            fitted = tasks.relate(fitted, call.task.shown)
    if fitted is params:
        return item
    return rawjson.raw(members | {"params": rawjson.raw(fitted)})


def _mode(params: Members) -> Value:
    return rawjson.peek(params.get("mode"))


def _instance(facts: InstanceFacts) -> Object:
    return {"server": facts.server, "fingerprint": facts.fingerprint, "pin": facts.pin}


def _modern(moment: Moment, call: Call, members: Members, foreign: bool) -> Members:
    fitted = results.with_type(meta.without_reserved(members) if foreign else members)
    if call.method != methods.RESOURCES_READ:
        return fitted
    ttl, public = _own_hints(fitted)
    mine = call.target.server in moment.own
    scope = "public" if public and moment.loaded.anonymous and not mine else "private"
    return fitted | {"ttlMs": rawjson.raw(ttl), "cacheScope": rawjson.raw(scope)}


def _own_hints(members: Members) -> tuple[int, bool]:
    """Return a read's own hints within bounds; one that says nothing is stale at once."""
    try:
        ttl, public = results.cache_hints(members)
    except JsonError:
        return 0, False
    return results.bounded_ttl(ttl or 0), public


def _legacy(call: Call, members: Members, foreign: bool) -> Members:
    fitted = {key: item for key, item in members.items() if not (foreign and key in _MODERN_MEMBERS)}
    fitted.pop("resultType", None)
    if foreign:
        fitted = meta.without_reserved(fitted)
    if call.method == methods.TOOLS_CALL:
        fitted = _structured(call.definition, fitted)
    if call.caller.version == versions.OLDEST_LEGACY:
        fitted = _links_as_text(fitted)
    return fitted


def _is_object(item: Raw) -> bool:
    return rawjson.raw_bytes(item).lstrip().startswith(b"{")


def _wrap(definition: Definition | None) -> bool:
    """Tell whether values that are no objects are wrapped; a schema with references cannot be moved: it is left out."""
    schema = definition.members.get(_OUTPUT_SCHEMA) if definition is not None else None
    return schema is None or not any(word in rawjson.raw_bytes(schema) for word in _LOCAL_REFERENCES)


def _structured(definition: Definition | None, members: Members) -> Members:
    """Make ``structuredContent`` an object, as versions before 2026-07-28 demand."""
    item = members.get(_STRUCTURED)
    schema = definition.members.get(_OUTPUT_SCHEMA) if definition is not None else None
    if item is None or (_is_object(item) and (schema is None or _describes_object(schema))):
        return members
    if _wrap(definition):
        return members | {_STRUCTURED: rawjson.raw({"result": item})}
    return {key: value for key, value in members.items() if key != _STRUCTURED}


def _describes_object(schema: Raw) -> bool:
    try:
        kind = rawjson.decode_members(schema).get("type")
    except JsonError:
        return False
    return kind is not None and rawjson.is_text(kind, b'"object"')


def modern_definition(wire: bytes, definition: Definition) -> bytes:
    """Return a tool as 2026-07-28 knows it: whether it runs as a task is its server's choice, and not told here."""
    if "execution" not in definition.members:
        return wire
    return rawjson.encode({key: item for key, item in rawjson.decode_members(wire).items() if key != "execution"})


def legacy_definition(wire: bytes, definition: Definition) -> bytes:
    """Return a tool as versions before 2026-07-28 know it: with an ``outputSchema`` of an object, or none."""
    schema = definition.members.get(_OUTPUT_SCHEMA)
    if schema is None or _describes_object(schema):
        return wire
    members = rawjson.decode_members(wire)
    if not _wrap(definition):
        members.pop(_OUTPUT_SCHEMA, None)
        return rawjson.encode(members)
    wrapped = {"type": "object", "properties": {"result": schema}, "required": ["result"]}
    return rawjson.encode(members | {_OUTPUT_SCHEMA: rawjson.raw(wrapped)})


Edit = Callable[[Members], Members]
"""Takes a content item or resource contents, split one level, and returns it changed or the same object."""


def _links_as_text(members: Members) -> Members:
    """Replace ``resource_link`` content, which came with 2025-06-18."""
    return _edit_content(members, b'"resource_link"', _link_text)


def _link_text(item: Members) -> Members:
    if not _is_type(item, b'"resource_link"'):
        return item
    parts = [_string(item, key) for key in ("title", "name", "uri", "description")]
    title, name, uri, description = parts
    text = f"{title or name or 'Resource'}: {uri}" + (f"\n{description}" if description else "")
    return {"type": rawjson.raw("text"), "text": rawjson.raw(text)}


def _is_type(item: Members, name: bytes) -> bool:
    kind = item.get("type")
    return kind is not None and rawjson.is_text(kind, name)


def _string(item: Members, key: str) -> str:
    try:
        value = rawjson.decode_value(item[key]) if key in item else ""
    except JsonError:
        return ""
    return value if isinstance(value, str) else ""


def _edit_content(members: Members, marker: bytes, edit: Edit) -> Members:
    """Apply an edit to the content of a tool result or of prompt messages, if ``marker`` occurs in it at all."""
    for key, change in (("content", edit), ("messages", partial(_edit_message, edit))):
        item = members.get(key)
        if item is not None and marker in rawjson.raw_bytes(item):
            after = _edit_items(item, change)
            members = members if after is item else members | {key: after}
    return members


def _edit_message(edit: Edit, message: Members) -> Members:
    content = message.get("content")
    after = content if content is None else _edit_item(content, edit)
    return message if after is None or after is content else message | {"content": after}


def _edit_items(item: Raw, edit: Edit) -> Raw:
    """Edit the objects of an array; one that needs no change, or is none, stays byte for byte."""
    try:
        items = rawjson.decode_items(item)
        edited = [_edit_item(each, edit) for each in items]
    except JsonError:
        return item
    return item if all(after is before for after, before in zip(edited, items, strict=True)) else rawjson.raw(edited)


def _edit_item(item: Raw, edit: Edit) -> Raw:
    if not _is_object(item):
        return item
    before = rawjson.decode_members(item)
    after = edit(before)
    return item if after is before else rawjson.raw(after)


def _shown_uris(moment: Moment, call: Call, members: Members) -> Members:
    """Rewrite URIs that several servers visible to this principal list to the form the lists show."""
    shown = partial(_shown, moment, call)
    contents = members.get("contents")
    if call.method == methods.RESOURCES_READ and contents is not None:
        after = _edit_items(contents, shown)
        return members if after is contents else members | {"contents": after}
    if call.method == methods.TOOLS_CALL:
        members = apps.rewritten(members, lambda uri: _form(moment, call, uri))
    return _edit_content(members, b'"resource', partial(_embedded, shown))


def _shown(moment: Moment, call: Call, item: Members) -> Members:
    uri = _string(item, "uri")
    if not uri or call.target.server not in moment.catalog.claims(uri):
        return item
    form = _form(moment, call, uri)
    return item if form == uri else item | {"uri": rawjson.raw(form)}


def _form(moment: Moment, call: Call, uri: str) -> str:
    return moment.shown_uri(call.target.server, uri, call.principal, call.caller.view)


def _embedded(shown: Edit, item: Members) -> Members:
    """Look into a content item: a link has the URI itself, an embedded resource one level down."""
    if _is_type(item, b'"resource_link"'):
        return shown(item)
    inner = item.get("resource")
    after = inner if inner is None else _edit_item(inner, shown)
    return item if after is None or after is inner else item | {"resource": after}
