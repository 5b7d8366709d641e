"""The official suite's servers behind the gateway: what it finds of the gateway as a client.

``client`` in ``expectations.yaml`` says which scenarios are run, and how many checks of each must be good.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from queue import SimpleQueue
from typing import Final, TypeAlias

import pytest

from tests.conformance.drive import lend
from tests.conformance.expected import CLIENT_RUNS, Leg, client_checks, client_differences, named
from tests.conformance.suite import Tally, run_client
from tests.kit.gateway import Gateway, serving

Loans: TypeAlias = SimpleQueue[Gateway]

AT_ONCE: Final = 2
"""Scenarios at once: some measure time, and some machines have no more processors."""


@pytest.fixture(scope="module")
def gateways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loans]:
    """Run a gateway for each scenario that runs at the same time."""
    free: Loans = SimpleQueue()
    with ExitStack() as stack:
        for _ in range(AT_ONCE):
            gateway = stack.enter_context(serving(tmp_path_factory.mktemp("gateway"), {}))
            lend(gateway)
            free.put(gateway)
        yield free


@pytest.mark.parametrize("leg", CLIENT_RUNS, ids=named)
def test_the_official_suite_finds_the_gateway_a_good_client(leg: Leg, gateways: Loans, tmp_path: Path) -> None:
    def one(scenario: str) -> Tally:
        gateway = gateways.get()
        try:
            folder = tmp_path / scenario.replace("/", "-")
            return run_client(*leg, scenario, folder, {"GATEWAY": str(gateway.folder)})
        finally:
            gateways.put(gateway)

    scenarios = list(client_checks(leg))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = dict(zip(scenarios, pool.map(one, scenarios), strict=True))

    assert client_differences(leg, found) == []
