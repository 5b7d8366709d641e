"""The HTTP side of ``connect``: what each message needs of headers, and how it is proved who sends it.

Reads of a message only what has to be mirrored (2026-07-28 streamable-http §Request Metadata) and changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from gateway.protocol import headers, jsonrpc, meta, methods
from gateway.protocol.headers import HeaderError, ParamHeader
from gateway.protocol.jsonrpc import Id
from gateway.protocol.rawjson import JsonError, Object, Value, decode_value

MAX_TOOLS: Final = 10_000
"""Tools with mirrored parameters that are remembered."""
BODY: Final = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
EVENTS: Final = {"Accept": "text/event-stream"}


class Credential(Protocol):
    """What a bridge shows at the endpoint."""

    async def headers(self) -> dict[str, str]:
        """Return the header, if there is one to show."""

    async def renewed(self, status: int, challenges: Sequence[str], shown: Mapping[str, str]) -> bool:
        """Tell whether there is a better one than ``shown`` after a 401 or 403 with these challenges."""

    async def aclose(self) -> None:
        """Let go of what it holds."""


@dataclass(frozen=True, slots=True)
class NoCredential:
    """Nothing: the endpoint lets anybody in, or says what is missing."""

    async def headers(self) -> dict[str, str]:
        """Return none."""
        return {}

    async def renewed(self, status: int, challenges: Sequence[str], shown: Mapping[str, str]) -> bool:
        """There is no other."""
        return False

    async def aclose(self) -> None:
        """Nothing is held."""


@dataclass(slots=True)
class Key:
    """A key. One that stands in a file is read again when it is refused, since it may have been replaced there."""

    text: str = field(repr=False)
    file: Path | None = None

    async def headers(self) -> dict[str, str]:
        """Return the key as a bearer token."""
        return {"Authorization": f"Bearer {self.text}"}

    async def renewed(self, status: int, challenges: Sequence[str], shown: Mapping[str, str]) -> bool:
        """Tell whether the file holds another key by now."""
        if self.file is None:
            return False
        try:
            self.text = read_key(self.file)
        except (OSError, ValueError):
            return False
        return await self.headers() != shown

    async def aclose(self) -> None:
        """Nothing is held."""


def read_key(path: Path) -> str:
    """Return the key that a file holds.

    Raises:
        OSError: it cannot be read.
        ValueError: it holds no key.
    """
    text = path.read_text(encoding="ascii").strip()
    if not text or not text.isprintable() or " " in text:
        raise ValueError("holds no key")
    return text


@dataclass(frozen=True, slots=True)
class Sent:
    """One message of the client: its bytes, and what was read of it. ``ids`` are those that want an answer."""

    line: bytes
    ids: tuple[Id, ...] = ()
    method: str = ""
    params: Object = field(default_factory=dict)

    @property
    def is_modern(self) -> bool:
        return meta.is_modern(self.params)


def read(line: bytes) -> Sent:
    """Read a message as far as it matters. Arrays of 2025-03-26 are one message with several ids.

    Raises:
        JsonError: it is no JSON.
    """
    value = decode_value(line)
    if isinstance(value, list):
        return Sent(line, tuple(found for item in value for found in _ids(item)))
    if not isinstance(value, dict):
        return Sent(line)
    method, params = value.get("method"), value.get("params")
    return Sent(
        line, _ids(value), method if isinstance(method, str) else "", params if isinstance(params, dict) else {}
    )


def _ids(value: Value) -> tuple[Id, ...]:
    if not isinstance(value, dict) or "method" not in value:
        return ()
    identifier = value.get("id")
    return (identifier,) if isinstance(identifier, (int, str)) and jsonrpc.valid_id(identifier) else ()


class Mirror:
    """Headers of modern requests; remembers which parameters of which tools are mirrored, as lists told."""

    def __init__(self) -> None:
        self._tools: dict[str, tuple[ParamHeader, ...]] = {}

    def headers(self, sent: Sent) -> dict[str, str]:
        """Return what stands in the head as well as in the body. What cannot be mirrored is left out: the endpoint
        then says what is wrong with it."""
        meant = sent.params.get("_meta")
        version = meant.get(meta.PROTOCOL_VERSION) if isinstance(meant, dict) else None
        found = {headers.METHOD: sent.method}
        row = methods.METHODS.get(sent.method)
        name = sent.params.get(row.target) if row is not None and row.target else None
        try:
            if isinstance(version, str):
                found[headers.VERSION] = headers.encode_value(version)
            if isinstance(name, str):
                found[headers.NAME] = headers.encode_value(name)
            if sent.method == methods.TOOLS_CALL and isinstance(name, str):
                found |= headers.render(sent.params.get("arguments"), self._tools.get(name, ()))
        except HeaderError:
            pass
        return found

    def learn(self, answer: bytes) -> None:
        """Remember the mirrored parameters in one page of tools."""
        try:
            value = decode_value(answer)
        except JsonError:
            return
        result = value.get("result") if isinstance(value, dict) else None
        tools = result.get("tools") if isinstance(result, dict) else None
        for tool in tools if isinstance(tools, list) else []:
            name = tool.get("name") if isinstance(tool, dict) else None
            if not isinstance(tool, dict) or not isinstance(name, str):
                continue
            try:
                mirrored = headers.param_headers(tool.get("inputSchema"))
            except HeaderError:
                mirrored = ()
            self._tools.pop(name, None)
            if mirrored and len(self._tools) < MAX_TOOLS:
                self._tools[name] = mirrored
