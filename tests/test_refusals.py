"""Every refusal tells the truth about whether the call may have run, in its text and for programs alike."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.kit import wire
from tests.kit.field import scripted
from tests.kit.gateway import Gateway, Json, eventually, serving
from tests.kit.wire import EraName

SOURCE: Final = Path(__file__).parents[1] / "gateway"
RAN: Final = ("may have run",)
DID_NOT: Final = ("did not run", "not run.", "nothing ran")


def _texts(node: ast.AST) -> str:
    parts = (part.value for part in ast.walk(node) if isinstance(part, ast.Constant))
    return " ".join(part for part in parts if isinstance(part, str))


def refusals() -> Iterator[tuple[str, str, ast.expr | None]]:
    """Yield place, words and ``may_have_run`` of every failure that is made in the source."""
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("Failure", "DownstreamError"):
                named = {keyword.arg: keyword.value for keyword in node.keywords}
                third = node.args[2] if len(node.args) > 2 else None
                place = f"{path.relative_to(SOURCE)}:{node.lineno}"
                yield place, _texts(node), named.get("may_have_run", third)


FOUND: Final = list(refusals())


def test_there_are_refusals_to_look_at() -> None:
    assert len(FOUND) > 40


@pytest.mark.parametrize(("place", "words", "flag"), [pytest.param(*each, id=each[0]) for each in FOUND])
def test_text_and_flag_of_a_refusal_agree(place: str, words: str, flag: ast.expr | None) -> None:
    constant = flag.value if isinstance(flag, ast.Constant) else None
    if any(word in words for word in DID_NOT):
        assert flag is None or constant is False, place
    if any(word in words for word in RAN):
        assert flag is not None, place
        assert constant is not False, place


KEY: Final = "k" * 40
ERAS: Final[tuple[EraName, ...]] = ("modern", "legacy")
# Server, its mode, the call, the reason; all of them fail after the request was sent.
AFTER: Final[dict[str, tuple[list[str], str, str]]] = {
    "exits": (["exit-on-call=3"], "unavailable", "unavailable"),
    "silent": (["silent-on-call"], "timeout", "timeout"),
    "floods": (["flood"], "too_large", "too_large"),
    "wrongid": (["wrongid"], "timeout", "timeout"),
    "garbled": (["badutf8"], "protocol_error", "protocol_error"),
}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    servers: Json = {
        name: scripted(*modes, timeouts={"call": "1s", "max": "1s"}, max_result="64KiB")
        for name, (modes, _, _) in AFTER.items()
    }
    config = {"servers": servers, "clients": {"bot": {"key": KEY}}}
    with serving(tmp_path_factory.mktemp("refusals"), config) as running:
        running.await_servers(*AFTER)
        yield running


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("name", AFTER)
async def test_a_call_that_reached_its_server_may_have_run_and_its_record_says_so(
    gateway: Gateway, name: str, era: EraName
) -> None:
    before = len(gateway.records())
    async with wire.http_client(gateway.url, era, KEY) as client:
        # A server that ended with the call before is started again; one that did not answer is only suspected.
        eventually(lambda: gateway.status()["servers"][name]["state"] in ("up", "degraded"), f"{name} is up", 20)
        answer = await wire.call(client, f"{name}__echo", {"word": era})
    assert answer.refusal["mayHaveRun"] is True, answer.result
    assert answer.refusal["reason"] in AFTER[name][1:], answer.result
    assert "may have run" in answer.result["content"][0]["text"]

    def ends() -> list[Json]:
        return [record["outcome"] for record in gateway.records()[before:] if record["event"] == "call.end"]

    eventually(ends, "the end is written")
    [outcome] = ends()
    assert (outcome["status"], outcome["may_have_run"]) == (AFTER[name][2], True)
