"""Results split one level: what is read from them, and what the gateway adds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gateway.protocol import meta, rawjson
from gateway.protocol.rawjson import Members, Object, Raw, Value

COMPLETE: Final = "complete"
INPUT_REQUIRED: Final = "input_required"
TASK: Final = "task"

MAX_TTL_MS: Final = 300_000
"""The longest that clients are told they may keep a result."""

_COMPLETE = rawjson.raw(COMPLETE)


def result_type(result: Members) -> str:
    """Return ``resultType``; a server of an older version that sends none means "complete" (basic §ResultType)."""
    item = result.get("resultType")
    if item is None:
        return COMPLETE
    value = rawjson.peek(item)
    return value if isinstance(value, str) else ""


def is_error(result: Members) -> bool:
    """Tell whether a tool result says of itself that the tool failed."""
    item = result.get("isError")
    return item is not None and rawjson.is_text(item, b"true")


def with_type(result: Members) -> Members:
    """Return the result with a ``resultType``, added as a member where it has none."""
    return result if "resultType" in result else {"resultType": _COMPLETE, **result}


def refusal(text: str, facts: Object, *, modern: bool) -> Members:
    """Write a refused ``tools/call`` as a result that a model can read, with the facts for programs."""
    content: Value = [{"type": "text", "text": text}]
    body: dict[str, Value] = {"content": content, "isError": True, "_meta": {meta.REFUSAL: facts}}
    members = {key: rawjson.raw(value) for key, value in body.items()}
    return {"resultType": _COMPLETE, **members} if modern else members


def list_page(key: str, items: Iterable[bytes], extra: Object) -> Members:
    """Join encoded definitions to one page of a list, without reading them again."""
    return {key: Raw(b"[" + b",".join(items) + b"]")} | {name: rawjson.raw(value) for name, value in extra.items()}


def bounded_ttl(ttl_ms: int) -> int:
    """Bound a time that a server told us (S102)."""
    return max(0, min(ttl_ms, MAX_TTL_MS))


def cache_hints(result: Members) -> tuple[int | None, bool]:
    """Return a result's ``ttlMs`` (None where it is missing or no number) and whether its scope is public.

    A negative ``ttlMs`` counts as 0 (server/utilities/caching §Time-to-Live).
    """
    ttl, scope = rawjson.peek(result.get("ttlMs")), rawjson.peek(result.get("cacheScope"))
    if isinstance(ttl, bool) or not isinstance(ttl, (int, float)):
        return None, scope == "public"
    return max(0, int(ttl)), scope == "public"
