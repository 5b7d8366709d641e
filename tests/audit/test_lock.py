"""One writer for one log (S171)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gateway.audit.lock import LOCK_FILE, DirectoryLock
from gateway.errors import ConfigError

HOLDER = """
import fcntl, os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o600)
fcntl.flock(fd, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


def test_a_second_process_is_refused_until_the_first_is_gone(tmp_path: Path) -> None:
    lock = DirectoryLock(tmp_path)
    command = [sys.executable, "-c", HOLDER, str(tmp_path / LOCK_FILE)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(ConfigError, match="a running gateway"):
            lock.hold()
        holder.kill()
        holder.wait(5)

    lock.hold()
    lock.release()


def test_holding_twice_is_holding_once(tmp_path: Path) -> None:
    lock = DirectoryLock(tmp_path)
    lock.hold()
    lock.hold()
    with pytest.raises(ConfigError):
        DirectoryLock(tmp_path).hold()
    lock.release()
    lock.release()
    DirectoryLock(tmp_path).hold()


def test_a_replaced_directory_has_to_be_locked_anew(tmp_path: Path) -> None:
    (tmp_path / "audit").mkdir()
    lock = DirectoryLock(tmp_path / "audit")
    lock.hold()
    (tmp_path / "audit").rename(tmp_path / "old")
    with pytest.raises(FileNotFoundError):
        lock.hold()
    (tmp_path / "audit").mkdir()
    lock.hold()

    with pytest.raises(ConfigError):
        DirectoryLock(tmp_path / "audit").hold()
    lock.release()
