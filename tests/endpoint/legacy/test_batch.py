"""Arrays are a matter of one version, and each element one of its own (S30, G064)."""

from __future__ import annotations

import pytest

from gateway.endpoint.legacy import batch
from gateway.endpoint.rejection import Rejected
from gateway.protocol.jsonrpc import Invalid, Notification, Request
from gateway.protocol.rawjson import Value

PING: dict[str, Value] = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


def refused(value: list[Value], version: str | None = "2025-03-26") -> int | None:
    with pytest.raises(Rejected) as caught:
        batch.elements(value, version)
    assert caught.value.rejection.status == 400
    return caught.value.rejection.code


@pytest.mark.parametrize("version", [None, "2025-06-18", "2025-11-25"])
def test_other_versions_have_no_arrays(version: str | None) -> None:
    assert refused([PING], version) == -32600


HELLO: dict[str, Value] = {"jsonrpc": "2.0", "id": 2, "method": "initialize"}


@pytest.mark.parametrize("value", [[], [PING] * 51, [PING, HELLO]])
def test_an_array_is_neither_empty_nor_long_nor_a_handshake(value: list[Value]) -> None:
    assert refused(value) == -32600


def test_every_element_is_read_by_itself() -> None:
    read = batch.elements([PING, 7, [PING], {"jsonrpc": "2.0", "method": "x"}, {"id": 3}], "2025-03-26")
    assert [type(item) for item in read] == [Request, Invalid, Invalid, Notification, Invalid]


def test_fifty_elements_are_served() -> None:
    assert len(batch.elements([PING] * 50, "2025-03-26")) == 50


def test_an_element_that_is_no_message_has_an_error_of_its_own() -> None:
    body = batch.invalid_element(Invalid("x", 3))
    assert body == b'{"jsonrpc":"2.0","id":3,"error":{"code":-32600,"message":"Invalid request: x"}}'
    assert batch.join([b"1", b"2"]) == b"[1,2]"
