"""The systemd unit: read by systemd itself, judged by its own measure of exposure, in step with the drain."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from gateway.config.root import Listen
from tests.kit.gateway import COMMAND, ROOT

UNIT = ROOT / "deploy" / "mcp-gateway.service"
PROGRAM = "/opt/gateway/bin/mcp-gateway"
MOST_EXPOSED = 2.0
"""Of 10; systemd calls anything below 2.5 well protected."""


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """Return the unit with a program that is installed here."""
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not here")
    file = tmp_path / UNIT.name
    file.write_text(UNIT.read_text().replace(PROGRAM, str(COMMAND)))
    return file


def analyze(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["systemd-analyze", *arguments], capture_output=True, text=True, timeout=30, check=False)


def test_systemd_takes_it(unit: Path) -> None:
    done = analyze("verify", "--man=no", unit)

    assert done.returncode == 0, done.stderr
    assert UNIT.name not in done.stderr

    unit.write_text(unit.read_text().replace("KillMode=mixed", "KillMode=mix"))
    assert "mix" in analyze("verify", "--man=no", unit).stderr


def test_it_is_well_protected(unit: Path) -> None:
    done = analyze("security", "--offline=true", unit)
    level = re.search(r"exposure level for .*: ([0-9.]+)", done.stdout)

    assert level is not None, done.stdout + done.stderr
    assert float(level[1]) <= MOST_EXPOSED


def service(section: str = "Service") -> dict[str, str]:
    parser = configparser.RawConfigParser(strict=False, interpolation=None)
    # Names of settings are told apart by case.
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # reason: how configparser is told so.
    parser.read(UNIT)
    return dict(parser[section])


def test_it_is_started_again_for_as_long_as_a_start_fails() -> None:
    """Without the database of several replicas a start ends with code 2; a limit would leave the unit stopped then."""
    assert service("Unit")["StartLimitIntervalSec"] == "0"
    assert service()["Restart"] == "on-failure"
    assert int(service()["RestartSec"]) >= 5


def test_it_is_given_time_to_end_and_the_gateway_ends_its_servers() -> None:
    """S186."""
    assert int(service()["TimeoutStopSec"]) >= Listen().drain + 15
    assert service()["KillMode"] == "mixed"
    assert service()["ExecReload"] == "/bin/kill -HUP $MAINPID"


def test_servers_may_list_network_interfaces() -> None:
    """Without it `os.networkInterfaces()` of Node fails."""
    assert set(service()["RestrictAddressFamilies"].split()) == {"AF_INET", "AF_INET6", "AF_UNIX", "AF_NETLINK"}


def test_it_runs_as_nobody_else_and_writes_to_its_own_folders_alone() -> None:
    """S189, S191."""
    found = service()

    assert found["DynamicUser"] == "yes"
    assert found["ProtectSystem"] == "strict"
    assert (found["StateDirectory"], found["StateDirectoryMode"]) == ("mcp-gateway", "0700")
    assert found["UMask"] == "0077"
    assert found["ExecStart"] == f"{PROGRAM} serve -c {found['WorkingDirectory']}/gateway.yaml"
