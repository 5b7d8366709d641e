from __future__ import annotations

from pathlib import Path

from gateway.config.paths import make_absolute
from gateway.config.places import Mapping
from tests.kit.config_files import loaded


def test_relative_paths_are_relative_to_the_config_file(tmp_path: Path) -> None:
    config = loaded(
        tmp_path / "etc",
        """
        listen: {tls: {cert: tls/c.pem, key: ../k.pem}}
        servers:
          a: {command: ./bin/run, args: [./stays], cwd: data, sandbox: [bin/wrap, ./stays]}
          b: {command: npx, sandbox: [bwrap]}
          c: {url: "https://x/", tls: {ca: ca.pem}}
        state: {dir: ../state}
        audit: {dir: /var/log/audit}
        """,
    ).config
    etc = tmp_path / "etc"
    assert config.listen.tls is not None
    assert (config.listen.tls.cert, config.listen.tls.key) == (f"{etc}/tls/c.pem", f"{tmp_path}/k.pem")
    a, b, c = config.servers.values()
    assert (a.command, a.args, a.cwd) == (f"{etc}/bin/run", ["./stays"], f"{etc}/data")
    assert a.sandbox == [f"{etc}/bin/wrap", "./stays"]
    assert (b.command, b.sandbox) == ("npx", ["bwrap"])
    assert c.tls.ca == f"{etc}/ca.pem"
    assert (config.state.dir, config.audit.dir) == (f"{tmp_path}/state", "/var/log/audit")


def test_defaults_are_made_absolute_too() -> None:
    tree: Mapping = {}
    make_absolute(tree, Path("/etc/gateway"))
    assert tree == {"state": {"dir": "/etc/gateway/state"}, "audit": {"dir": "/etc/gateway/audit"}}


def test_the_files_of_a_pin_are_paths() -> None:
    tree: Mapping = {"servers": {"a": {"pin": {"files": ["f.lock"]}}}}
    make_absolute(tree, Path("/etc/gateway"))
    assert tree["servers"] == {"a": {"pin": {"files": ["/etc/gateway/f.lock"]}}}


def test_addresses_and_empty_values_are_no_paths() -> None:
    tree: Mapping = {
        "servers": {"a": {"openapi": "https://x/y.json", "cwd": "", "tls": {"ca": ""}}},
        "state": "broken",
        "audit": {"dir": 5},
    }
    make_absolute(tree, Path("/etc"))
    assert tree == {
        "servers": {"a": {"openapi": "https://x/y.json", "cwd": "", "tls": {"ca": ""}}},
        "state": "broken",
        "audit": {"dir": 5},
    }
