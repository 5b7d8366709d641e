"""Official clients whose connection breaks while a call runs come back for the answer (2025-11-25 basic/transports)."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.kit.cutting import cutting
from tests.kit.peers import Farm, driver

TOOL = "everything__trigger-long-running-operation"


@pytest.mark.parametrize("client", ["mcp1-legacy", "mcp2-legacy", "ts1-legacy", "ts2-legacy"])
def test_a_call_whose_stream_is_cut_is_answered_all_the_same(farm: Farm, client: str, tmp_path: Path) -> None:
    """The cut comes right behind the event that primes the stream of the call."""
    address = urlsplit(farm.gateway.url)
    assert address.port is not None
    with cutting(address.port, b"id: c") as cutter:
        url = f"http://127.0.0.1:{cutter.port}{address.path}"
        with driver(client, url, tmp_path / "stderr") as connected:
            answer = connected.ok("call", name=TOOL, arguments={"duration": 1, "steps": 2})
            assert "Long running operation completed" in answer["content"][0]["text"]
        assert cutter.cuts == 1
