"""Turns what an API answered into a tool's result. Pure.

A refusal of the API is a result too: a model reads why, and can call again with better arguments. Nothing of the
request is in it but what the API itself repeats.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from gateway.downstream.openapi.operations import Operation
from gateway.downstream.openapi.output import WRAPPED, is_json, media_of
from gateway.protocol import rawjson, results
from gateway.protocol.rawjson import JsonError, Members, Object, Value
from gateway.telemetry.text import printable

MAX_REFUSAL: Final = 8 * 1024
"""Characters shown of what an API says about a call that it refused."""
_TEXT: Final = re.compile(
    r"text/.*|application/(?:.*\+)?(?:xml|yaml|x-yaml|x-ndjson|jsonl|json-seq|javascript|graphql|sql|toml"
    r"|x-www-form-urlencoded)"
)
_CHARSET: Final = re.compile(r";\s*charset=\"?([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE)
_CODECS: Final[Mapping[str, str]] = (
    {name: name for name in ("utf-8", "utf-16", "utf-16-le", "utf-16-be", "iso-8859-1", "iso-8859-15", "cp1252")}
    | {name: name for name in ("ascii", "shift-jis", "euc-jp", "gb18030", "gbk", "big5", "euc-kr")}
    | {"utf8": "utf-8", "utf-16le": "utf-16-le", "utf-16be": "utf-16-be", "us-ascii": "ascii"}
    | {"latin-1": "iso-8859-1", "latin1": "iso-8859-1", "windows-1252": "cp1252"}
)
"""What answers are read by. Python knows more, of which some are slow, raise, or are no charset of texts at all."""
_COMPLETE: Final = rawjson.raw(results.COMPLETE)


@dataclass(frozen=True, slots=True)
class Answered:
    """One answer: its status, its header fields by names in lower case, and its whole body."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def kind(self) -> str:
        """The value of ``Content-Type``."""
        return self.headers.get("content-type", "")


def result_of(operation: Operation, answered: Answered) -> Members:
    """Write the result of a call."""
    if not 200 <= answered.status < 300:
        return _result([_text(_refusal(answered))], is_error=True)
    content, values = _content(operation, answered)
    output = operation.output
    if not values:
        return _result([content], None if output is None else {})
    (value,) = values
    plain: Object = value if isinstance(value, dict) else {WRAPPED: value}
    return _result([content], plain if output is None else output.fitted(value))


def _result(content: list[Value], structured: Object | None = None, *, is_error: bool = False) -> Members:
    members = {"resultType": _COMPLETE, "content": rawjson.raw(content)}
    if structured is not None:
        members["structuredContent"] = rawjson.raw(structured)
    return members | ({"isError": rawjson.raw(True)} if is_error else {})


def _content(operation: Operation, answered: Answered) -> tuple[Value, tuple[Value, ...]]:
    """Return an answer as a block of content, and as one value where it is JSON."""
    media = media_of(answered.kind)
    if not answered.body:
        return _text(f"The server answered {_status(answered.status)}, without a body."), ()
    if is_json(media):
        try:
            value = rawjson.decode_value(answered.body)
            return _text(rawjson.encode(value).decode()), (value,)
        except JsonError:
            return _text(_decoded(answered)), ()
    if media.startswith(("image/", "audio/")) and media != "image/svg+xml":
        data = base64.b64encode(answered.body).decode()
        return {"type": media.partition("/")[0], "data": data, "mimeType": media}, ()
    if _TEXT.fullmatch(media) or media == "image/svg+xml" or (not media and _is_text(answered.body)):
        return _text(_decoded(answered)), ()
    resource: Object = {
        "uri": f"urn:mcp-gateway:answer:{re.sub(r'[^A-Za-z0-9_.-]', '_', operation.definition.name)}",
        "mimeType": media or "application/octet-stream",
        "blob": base64.b64encode(answered.body).decode(),
    }
    return {"type": "resource", "resource": resource}, ()


def _text(text: str) -> Value:
    return {"type": "text", "text": text}


def _is_text(body: bytes) -> bool:
    try:
        return "\0" not in body.decode("utf-8")
    except UnicodeDecodeError:
        return False


def _decoded(answered: Answered) -> str:
    named = _CHARSET.search(answered.kind)
    charset = named[1].lower().replace("_", "-") if named else ""
    return answered.body.decode(_CODECS.get(charset, "utf-8"), "replace")


def _status(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def _refusal(answered: Answered) -> str:
    """Say what an API refused and why, with as much of its own words as is of use."""
    said = [f"The server answered {_status(answered.status)}."]
    wait = answered.headers.get("retry-after", "")
    if re.fullmatch(r"[0-9]{1,7}", wait):
        said.append(f"It asks to wait {int(wait)} seconds before the next try.")
    elif wait:
        said.append(f"It asks to wait until {printable(wait, 64)} before the next try.")
    media = media_of(answered.kind)
    readable = is_json(media) or _TEXT.fullmatch(media) is not None or not media
    words = _decoded(answered).strip() if answered.body and readable else ""
    if len(words) > MAX_REFUSAL:
        words = words[:MAX_REFUSAL] + "…"
    return " ".join(said) + (f"\n{words}" if words else "")
