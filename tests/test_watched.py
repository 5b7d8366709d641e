"""What a verdict hides of a catalog and of calls."""

from __future__ import annotations

from gateway.model.catalog import Kind
from gateway.pinning.fingerprint import Fingerprint
from gateway.pinning.verify import Terms, Verdict
from gateway.watched import Watched, World, hold, withheld
from tests.kit.calls import call
from tests.kit.configs import loaded
from tests.kit.definitions import definition, tool

SERVER = loaded({"servers": {"a": {"command": "x"}}}).config.servers["a"]


def watched(verdict: Verdict, *names: str) -> Watched:
    definitions = {f"tool:{name}": tool(name) for name in names} if names else None
    return Watched(SERVER, Terms("tofu"), Fingerprint(definitions=definitions), verdict)


def test_a_catalog_hides_what_a_verdict_holds_and_all_of_a_server_that_is_barred() -> None:
    verdicts = {"a": Verdict(held={"tool:t": "changed", "resource:r": "no pin"}), "b": Verdict(hidden="quarantined")}
    assert hold(verdicts, "a", tool("t")) == "changed"
    assert hold(verdicts, "a", tool("u")) is None
    assert hold(verdicts, "a", definition(Kind.RESOURCE, "r")) is None
    assert hold(verdicts, "b", definition(Kind.RESOURCE, "r")) == "quarantined"
    assert hold(verdicts, "other", tool("t")) is None


def test_a_call_is_withheld_for_the_same_reasons_and_when_its_definition_is_gone() -> None:
    assert withheld(watched(Verdict(hidden="quarantined")), call(definition=tool("t"))) == "quarantined"
    assert withheld(watched(Verdict(held={"tool:t": "changed"}), "t"), call(definition=tool("t"))) == "changed"
    assert withheld(watched(Verdict(), "t"), call(definition=tool("t"))) == ""
    assert "does not list it" in withheld(watched(Verdict(), "u"), call(definition=tool("t")))
    assert withheld(watched(Verdict()), call(definition=tool("t"))) == ""


async def test_nobody_acts_on_verdicts_until_somebody_does() -> None:
    world = World()
    assert await world.settled("a")
    world.changed("a")
    world.sever("a", "reason")
    world.retry("a")
