"""What a server was given and nobody else may learn, and how it is taken out of what the server says went wrong (S151).

A server that complains about its key says the key. What it says otherwise is its own affair and is left as it is.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final
from urllib.parse import quote, unquote, urlsplit

from gateway.config.servers import Server
from gateway.model.outcome import Complete, Failure, Outcome
from gateway.protocol import rawjson
from gateway.protocol.jsonrpc import ErrorObject
from gateway.protocol.rawjson import Raw
from gateway.text import secrets

SHORTEST_SECRET: Final = 12
"""Characters from which on a value that a server was given is masked; shorter ones are words."""
_MASK: Final = b"***"
_MADE_UP: Final = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])[!-~]{20,}")
"""An argument that nobody would write by hand."""
_LONGEST: Final = 8192
_MOST: Final = 256
"""Values that are looked for; a server has fewer."""


class Lent:
    """The values that one server was given."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        long = [value for value in values if SHORTEST_SECRET <= len(value) <= _LONGEST and not value.startswith("/")]
        forms = {form for value in long[:_MOST] for form in _forms(value)}
        self._forms = sorted(forms, key=len, reverse=True)

    @classmethod
    def of(cls, server: Server) -> Lent:
        """Return what the config gives a server: variables, arguments, header fields, parts of its address."""
        return cls([*_given(server)])

    def also(self, *values: str) -> Lent:
        """Return these values and more."""
        more = Lent(values)
        more._forms = sorted({*self._forms, *more._forms}, key=len, reverse=True)
        return more

    def masked(self, data: bytes) -> bytes:
        """Return what a server said without them."""
        for form in self._forms:
            if form in data:
                data = data.replace(form, _MASK)
        return data

    def without(self, outcome: Outcome) -> Outcome:
        """Return how a call ended as a client may be told it: errors and failed tools are masked, nothing else is."""
        match outcome:
            case Failure(error=ErrorObject() as error):
                data = self._item(error.data) if error.data is not None else None
                message = self.masked(error.message.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")
                return replace(outcome, error=replace(error, message=message, data=data))
            case Complete(result) if rawjson.peek(result.get("isError")) is True:
                return Complete({name: self._item(item) for name, item in result.items()})
            case _:
                return outcome

    def _item(self, item: Raw) -> Raw:
        data = rawjson.raw_bytes(item)
        after = self.masked(data)
        return item if after == data else Raw(after)


def _forms(value: str) -> Iterator[bytes]:
    """Yield a value as it is, as it stands in a URL, and as it stands in a JSON text."""
    for text in (value, quote(value, safe=""), quote(value), rawjson.encode(value).decode()[1:-1]):
        yield text.encode("utf-8", "surrogatepass")
    yield value.replace("/", "\\/").encode("utf-8", "surrogatepass")


def _given(server: Server) -> Iterator[str]:
    yield from (value.get_secret_value() for value in server.env.values())
    yield from _arguments(server.args)
    for header in server.headers.values():
        text = header.get_secret_value()
        # A scheme such as Bearer stands before the credential itself.
        yield from (text, text.rpartition(" ")[2])
    for address in (server.url.get_secret_value() if server.url is not None else "", server.document_url):
        yield from _of_address(address)


def _of_address(address: str) -> Iterator[str]:
    parts = urlsplit(address)
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    yield from (user, password)
    if user or password:
        yield base64.b64encode(f"{user}:{password}".encode()).decode()
    for pair in parts.query.split("&"):
        value = pair.rpartition("=")[2]
        yield from (value, unquote(value))


def _arguments(words: list[str]) -> Iterator[str]:
    """Yield the arguments that are most likely secrets: those a flag says so of, and those that look like it."""
    before = ""
    for word in words:
        name, assigned, value = word.partition("=")
        if assigned and secrets.is_secret_name(name):
            yield value
        elif secrets.is_secret_name(before) or secrets.find(word) or _MADE_UP.fullmatch(word):
            yield word
        before = word if word.startswith("-") and not assigned else ""
