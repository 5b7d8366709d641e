"""What a reload is refused for, although a start would go on without it."""

from __future__ import annotations

from pathlib import Path

from gateway.config.loader import load
from gateway.config.reload_rules import reload_problems, renewed
from gateway.config.root import LoadedConfig
from gateway.config.start_rules import start_problems

TEXT = """
servers:
  a:
    url: http://127.0.0.1:1/mcp
    headers: {X-Token: "${file:token}"}
    tls: {ca: ca.pem}
  b: {command: b}
"""


def prepared(folder: Path) -> LoadedConfig:
    (folder / "gateway.yaml").write_text(TEXT)
    (folder / "token").write_text("t")
    (folder / "token").chmod(0o600)
    (folder / "ca.pem").write_text("first")
    return load(folder / "gateway.yaml", {})


def test_a_server_that_runs_is_not_switched_off_for_want_of_a_secret(tmp_path: Path) -> None:
    """S182."""
    running = prepared(tmp_path)
    assert sorted(running.config.servers) == ["a", "b"]
    (tmp_path / "token").unlink()
    (problem,) = reload_problems(running, load(tmp_path / "gateway.yaml", {}))
    assert (problem.path, problem.line) == ("servers.a", 3)
    assert "X-Token" in problem.message
    assert "does not exist" in problem.message


def test_a_server_that_never_ran_stays_off_until_its_secret_is_there(tmp_path: Path) -> None:
    whole = prepared(tmp_path)
    (tmp_path / "token").unlink()
    without = load(tmp_path / "gateway.yaml", {})
    assert reload_problems(without, load(tmp_path / "gateway.yaml", {})) == []
    assert reload_problems(without, whole) == []


def test_a_certificate_that_is_gone_is_a_reason_and_one_that_never_was_is_none(tmp_path: Path) -> None:
    """S182."""
    running = prepared(tmp_path)
    (tmp_path / "ca.pem").unlink()
    without = load(tmp_path / "gateway.yaml", {})
    (problem,) = reload_problems(running, without)
    assert (problem.path, problem.line) == ("servers.a.tls.ca", 6)
    assert "does not exist" in problem.message
    assert reload_problems(without, load(tmp_path / "gateway.yaml", {})) == []


def test_servers_whose_files_have_another_content_are_renewed(tmp_path: Path) -> None:
    running = prepared(tmp_path)
    assert renewed(running, load(tmp_path / "gateway.yaml", {})) == frozenset()
    (tmp_path / "ca.pem").write_text("second")
    assert renewed(running, load(tmp_path / "gateway.yaml", {})) == {"a"}


DOORS = """
listen: {host: %s, public_url: "https://mcp.example.com/mcp", behind_tls_proxy: true}
%s
"""
CLIENTS = "clients: {bot: {key_sha256: [%s]}}" % ("a" * 64)


def test_authorities_of_a_server_that_runs_have_to_be_readable(tmp_path: Path) -> None:
    """S182: unreadable CA. One that is new may wait for its file, as at a start."""
    running = prepared(tmp_path)
    (tmp_path / "ca.pem").write_text("half a fi")
    (problem,) = reload_problems(running, load(tmp_path / "gateway.yaml", {}))
    assert (problem.path, problem.line) == ("servers.a.tls.ca", 6)
    assert "cannot be read as certificates" in problem.message
    (tmp_path / "ca.pem").write_text("first")
    (tmp_path / "gateway.yaml").write_text(TEXT.replace("ca.pem", "other.pem"))
    (problem,) = reload_problems(running, load(tmp_path / "gateway.yaml", {}))
    assert "does not exist" in problem.message
    (tmp_path / "gateway.yaml").write_text(TEXT.replace("a:", "c:", 1).replace("ca.pem", "other.pem"))
    assert reload_problems(running, load(tmp_path / "gateway.yaml", {})) == []


def test_what_only_a_restart_makes_safe_is_a_reason(tmp_path: Path) -> None:
    """S182, S184: the address stays open until then, and everybody who reaches it could call everything."""
    file = tmp_path / "gateway.yaml"
    file.write_text(DOORS % ("0.0.0.0", CLIENTS))
    running = load(file, {})
    file.write_text(DOORS % ("127.0.0.1", ""))
    wanted = load(file, {})
    assert start_problems(wanted) == []
    (problem,) = reload_problems(running, wanted)
    assert (problem.path, problem.line) == ("listen.host", 2)
    assert "needs authentication" in problem.message
    assert "restart" in problem.hint
    file.write_text(DOORS % ("127.0.0.1", CLIENTS))
    assert reload_problems(running, load(file, {})) == []


def test_what_a_start_would_refuse_is_told_once(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text(DOORS % ("0.0.0.0", CLIENTS))
    running = load(file, {})
    file.write_text(DOORS % ("0.0.0.0", ""))
    wanted = load(file, {})
    assert len(start_problems(wanted)) == 1
    assert reload_problems(running, wanted) == []
