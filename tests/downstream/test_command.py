from __future__ import annotations

import os
from pathlib import Path

import pytest

from gateway.config.servers import Server
from gateway.downstream.command import INHERITED, Command, encode, find, plan
from gateway.errors import DownstreamError, Reason

FOREIGN = ("LD_PRELOAD", "PYTHONPATH", "AWS_SECRET_ACCESS_KEY", "HTTPS_PROXY", "path", "MCP_GATEWAY_TOKEN")


def of(**settings: object) -> Server:
    return Server.model_validate(settings)


@pytest.fixture
def tool(tmp_path: Path) -> Path:
    """An executable in a folder of its own."""
    path = tmp_path / "bin" / "some-tool"
    path.parent.mkdir()
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_the_environment_is_the_allowlist_plus_what_is_declared() -> None:
    """S105"""
    environ = {name: f"own-{name}" for name in INHERITED} | {"PATH": "/bin:/usr/bin"} | dict.fromkeys(FOREIGN, "secret")
    command = plan(of(command="sh", env={"LOG": "warn", "HOME": "/srv"}), environ)
    assert command.env == {name: environ[name] for name in INHERITED} | {"LOG": "warn", "HOME": "/srv"}


def test_what_the_gateway_does_not_have_is_not_invented() -> None:
    assert plan(of(command="/bin/sh"), {}).env == {}


def test_arguments_are_passed_as_they_are() -> None:
    """S104"""
    args = ["$(touch /x/p)", "; id", "`id`", "a b", "", "*"]
    assert plan(of(command="/bin/sh", args=args), {}).argv == ("/bin/sh", *args)


def test_a_bare_name_is_looked_up_in_the_path_the_process_gets(tool: Path) -> None:
    server = of(command="some-tool", env={"PATH": str(tool.parent)})
    assert plan(server, {"PATH": "/nonexistent"}).argv == (str(tool),)


def test_a_relative_path_is_resolved_from_the_working_directory(tool: Path) -> None:
    server = of(command="bin/some-tool", cwd=str(tool.parents[1]))
    assert plan(server, {}).argv == (str(tool),)
    assert plan(server, {}).cwd == str(tool.parents[1])


@pytest.mark.parametrize("command", ["no-such-tool", "/secret/folder/no-such-tool", "./no-such-tool"])
def test_a_missing_command_is_named_without_its_folder_or_arguments(command: str) -> None:
    with pytest.raises(DownstreamError) as caught:
        plan(of(command=command, args=["--token=s3cret"]), {"PATH": "/bin"})
    assert caught.value.message == "command not found: no-such-tool"
    assert caught.value.reason is Reason.UNAVAILABLE
    assert not caught.value.may_have_run


def test_a_file_that_is_not_executable_is_not_found(tool: Path) -> None:
    tool.chmod(0o644)
    assert find(str(tool), "", "/") is None
    assert find("some-tool", str(tool.parent), "/") is None
    assert find(str(tool.parent), "", "/") is None


def test_a_sandbox_comes_first_and_its_command_may_exist_only_inside(tool: Path) -> None:
    """S117"""
    server = of(command="only-inside", args=["x"], sandbox=["some-tool", "--ro"], env={"PATH": str(tool.parent)})
    assert plan(server, {}).argv == (str(tool), "--ro", "only-inside", "x")
    with pytest.raises(DownstreamError, match="command not found: bwrap"):
        plan(of(command="sh", sandbox=["bwrap"], env={"PATH": str(tool.parent)}), {})


def test_a_command_outside_is_resolved_for_the_sandbox_too() -> None:
    server = of(command="sh", sandbox=["/usr/bin/env"])
    assert plan(server, {"PATH": "/bin"}).argv == ("/usr/bin/env", "/bin/sh")


@pytest.mark.parametrize(
    "server",
    [
        of(command="/bin/sh", args=["a\0b"]),
        of(command="/bin/sh", env={"A": "\0"}),
        of(command="/bin/sh", env={"A=B": "x"}),
        of(command="/bin/sh", env={"": "x"}),
    ],
)
def test_what_no_process_can_be_given_is_refused_without_showing_it(server: Server) -> None:
    with pytest.raises(DownstreamError, match="no process can be given"):
        plan(server, {})


def test_limits_are_taken_over() -> None:
    command = plan(of(command="/bin/sh", limits={"memory": 2**20, "open_files": 64}), {})
    assert (command.memory, command.open_files) == (2**20, 64)


def test_orders_carry_everything_with_their_length_in_front() -> None:
    command = Command(("/bin/sh", "é"), {"A": "1=2"}, "/srv", memory=5, open_files=7)
    body = "/srv\0005\0007\0002\0/bin/sh\0é\0A=1=2".encode()
    assert encode(command, memory=True) == b"%08d" % len(body) + body


def test_a_memory_limit_that_a_cgroup_holds_is_left_out() -> None:
    assert encode(Command(("/bin/sh",), {}, "/", memory=5), memory=False)[8:] == b"/\0\0\x001\0/bin/sh"


def test_orders_beyond_any_argument_list_are_refused() -> None:
    with pytest.raises(DownstreamError, match="too long"):
        encode(Command(("/bin/sh", "x" * 10_000_000), {}, "/"), memory=True)


def test_a_strange_name_is_escaped() -> None:
    assert Command((f"{os.sep}bin{os.sep}a\x1b[31m",), {}, "/").name == "a\\x1b[31m"
