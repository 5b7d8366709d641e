"""The official suite's protected servers behind the gateway: what it finds of the gateway as an OAuth client.

``authorization.yaml`` says how many checks of each scenario must be good; none may be anything else. A scenario that
walks a way of another one with other words is run only with ``ALL_SCENARIOS`` set, and so is most of the legacy
revision, where nothing but the messages behind the token differs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from queue import SimpleQueue
from typing import Final, TypeAlias

import pytest
import yaml

from tests.conformance.drive import lend
from tests.conformance.suite import Tally, run_client
from tests.kit.gateway import Gateway, serving

Loans: TypeAlias = SimpleQueue[Gateway]

WANTED: Final[dict[str, dict[str, int]]] = yaml.safe_load(
    Path(__file__).with_name("authorization.yaml").read_text("utf-8")
)
REVISIONS: Final = {"legacy": "2025-11-25", "modern": "2026-07-28"}
LEGACY: Final = frozenset({"auth/metadata-var2", "auth/scope-step-up", "auth/pre-registration"})
ALIKE: Final = frozenset(
    f"auth/{name}"
    for name in (
        "metadata-default",
        "metadata-var1",
        "metadata-var3",
        "scope-from-scopes-supported",
        "scope-omitted-when-undefined",
        "token-endpoint-auth-basic",
        "offline-access-not-supported",
        "iss-not-advertised",
        "client-credentials-basic",
    )
)
AT_ONCE: Final = 2
GROUP: Final = 6
"""Scenarios of one test, which keeps it well under the time limit."""


def groups() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield an era and some of its scenarios."""
    for era, wanted in WANTED.items():
        sample = LEGACY if era == "legacy" else wanted.keys() - ALIKE
        chosen = [name for name in wanted if name in sample or os.environ.get("ALL_SCENARIOS")]
        for start in range(0, len(chosen), GROUP):
            yield era, tuple(chosen[start : start + GROUP])


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


@pytest.mark.parametrize(("era", "scenarios"), list(groups()))
def test_the_official_suite_finds_the_gateway_a_good_oauth_client(
    era: str, scenarios: tuple[str, ...], gateways: Loans, tmp_path: Path
) -> None:
    def one(scenario: str) -> Tally:
        gateway = gateways.get()
        try:
            folder = tmp_path / scenario.replace("/", "-")
            return run_client("0.2", REVISIONS[era], scenario, folder, {"GATEWAY": str(gateway.folder)})
        finally:
            gateways.put(gateway)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = dict(zip(scenarios, pool.map(one, scenarios), strict=True))

    assert {name: tally.others for name, tally in found.items() if tally.others} == {}
    assert {name: tally.good for name, tally in found.items()} == {name: WANTED[era][name] for name in scenarios}
