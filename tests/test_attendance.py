"""Servers that come and go, as the audit log tells it."""

from __future__ import annotations

from gateway.attendance import Attendance
from gateway.downstream.dialect import Hello
from gateway.protocol.rawjson import Object
from gateway.protocol.versions import Era


def test_a_server_comes_once_until_it_leaves() -> None:
    entries: list[Object] = []
    attendance = Attendance(entries.append)
    hello = Hello(Era.MODERN, "2026-07-28", {"name": "x", "version": "1"})
    attendance.left("a", "refused")
    attendance.came("a", hello)
    attendance.came("a", hello)
    attendance.circuit("a", "open")
    attendance.left("a", "ended")
    attendance.came("a", None)
    assert [(entry["event"], entry["downstream"]) for entry in entries] == [
        ("downstream.failed", {"reason": "refused"}),
        ("downstream.started", {"era": "modern", "version": "2026-07-28", "product": "x/1"}),
        ("downstream.circuit", {"state": "open"}),
        ("downstream.exited", {"reason": "ended"}),
        ("downstream.started", {}),
    ]
