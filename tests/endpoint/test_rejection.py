"""Rejections render as JSON-RPC errors or as nothing."""

from __future__ import annotations

import json

from gateway.endpoint.rejection import Rejected, Rejection


def test_a_rejection_is_a_json_rpc_error_with_the_id_of_its_request() -> None:
    rejection = Rejection(400, -32600, "Invalid request", "jsonrpc", "7", {"k": 1})
    assert json.loads(rejection.body()) == {
        "jsonrpc": "2.0",
        "id": "7",
        "error": {"code": -32600, "message": "Invalid request", "data": {"k": 1}},
    }


def test_a_rejection_without_a_code_has_no_body() -> None:
    assert Rejection(404, None, "", "path").body() == b""


def test_the_exception_carries_the_rejection_and_shows_only_its_reason() -> None:
    rejection = Rejection(404, None, "", "path")
    assert Rejected(rejection).rejection is rejection
    assert str(Rejected(rejection)) == "path"
