"""Asking the admin listener."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from gateway.cli import remote
from gateway.cli.remote import Question, Unreachable
from gateway.errors import ConfigError
from tests.kit.configs import loaded
from tests.kit.gateway import Gateway


async def ask(port: int, folder: Path, question: Question) -> tuple[int, object]:
    return await asyncio.to_thread(remote.ask, loaded({"admin": {"port": port}}, folder), question)


async def test_the_token_of_the_state_directory_is_sent(tmp_path: Path) -> None:
    seen: list[str | None] = []

    async def handler(request: web.Request) -> web.Response:
        seen.append(request.headers.get("Authorization"))
        return web.json_response({"path": request.path_qs, "method": request.method})

    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", handler)
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "admin.token").write_text("secret\n")
    async with TestServer(app) as server:
        assert server.port is not None
        answer = await ask(server.port, tmp_path, Question("/tools", {"as": "a b"}))
        assert answer == (200, {"path": "/tools?as=a+b", "method": "GET"})
        answer = await ask(server.port, tmp_path, Question("/call", body={"x": 1}))
        assert answer == (200, {"path": "/call", "method": "POST"})
    assert seen == ["Bearer secret", "Bearer secret"]


async def test_what_is_no_admin_listener_is_told_plainly(tmp_path: Path) -> None:
    async def handler(request: web.Request) -> web.Response:
        return web.Response(text="<html>")

    app = web.Application()
    app.router.add_get("/status", handler)
    async with TestServer(app) as server:
        assert server.port is not None
        with pytest.raises(Unreachable, match="is it running"):
            await ask(server.port, tmp_path, Question("/status"))
    with pytest.raises(Unreachable, match="is it running"):
        await ask(1, tmp_path, Question("/status"))


def test_a_refusal_names_the_variable_for_a_token(
    gateway: Gateway, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCP_GATEWAY_ADMIN_TOKEN", "nobody's")
    arguments = argparse.Namespace(config=gateway.file)
    assert remote.inquire("call", arguments, Question("/call", body={"as": "bot", "target": "a/b"})) is None
    assert "MCP_GATEWAY_ADMIN_TOKEN" in capsys.readouterr().err


def test_a_config_that_was_broken_since_still_says_where_its_gateway_is(
    gateway: Gateway, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was refused at a reload is told by ``status``, which must not need the good file for it."""
    broken = tmp_path / "gateway.yaml"
    broken.write_text(gateway.file.read_text().replace('"policies"', '"polices"'))
    answer = remote.inquire("status", argparse.Namespace(config=broken), Question("/status"))
    assert answer is not None
    assert answer["ready"] is True
    assert "gateway.yaml has mistakes (see check)" in capsys.readouterr().err


@pytest.mark.parametrize("text", ['{"admin": {"port": "x"}}', "admin: [", '{"admin": {"prot": 1}}'])
def test_a_config_that_does_not_say_where_the_gateway_is_is_an_error(text: str, tmp_path: Path) -> None:
    broken = tmp_path / "gateway.yaml"
    broken.write_text(text)
    with pytest.raises(ConfigError):
        remote.inquire("status", argparse.Namespace(config=broken), Question("/status"))
