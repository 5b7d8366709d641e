"""What a verdict hides of a catalog and of calls."""

from __future__ import annotations

from dataclasses import replace

from gateway.downstream.oauth import signin
from gateway.model.call import Target
from gateway.model.catalog import Definition, Kind
from gateway.pinning.approval import recorded
from gateway.pinning.fingerprint import Fingerprint
from gateway.pinning.forms import Forms
from gateway.pinning.verify import Terms, Verdict
from gateway.watched import Watched, World, differing, hold, withheld
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


TWO = tool("t", description="two")
PIN = recorded(
    Fingerprint(definitions={"tool:t": tool("t"), "template:x://{a}": definition(Kind.TEMPLATE, "x://{a}")}), ""
)


def own(verdict: Verdict, **definitions: Definition) -> Watched:
    """Return a server of which the caller is listed these."""
    items = {f"{each.kind}:{each.name}": each for each in definitions.values()}
    return Watched(SERVER, Terms("tofu", several=True), Fingerprint().with_own(call().principal.id, items), verdict)


def test_of_a_server_that_lists_by_who_asks_each_form_is_judged_by_itself() -> None:
    verdict = Verdict(forms=Forms(PIN, new=False))
    assert hold({"a": verdict}, "a", tool("t")) is None
    assert hold({"a": verdict}, "a", TWO) is not None
    assert hold({"a": verdict}, "a", definition(Kind.RESOURCE, "r")) is None
    assert hold({"a": replace(verdict, hidden="quarantined")}, "a", tool("t")) == "quarantined"
    assert withheld(own(verdict), call(definition=tool("t"))) == ""
    assert withheld(own(verdict), call(definition=TWO)) != ""
    held = definition(Kind.TEMPLATE, "y://{a}")
    reading = call("y://1", target=Target(Kind.RESOURCE, "a", "y://1"))
    assert withheld(own(verdict, held=held), reading) != ""
    assert withheld(own(verdict), reading) == ""


def test_another_form_on_the_connection_is_called_where_it_was_approved_too() -> None:
    strange = "another definition on this principal's own connection"
    verdict = Verdict(forms=Forms(PIN, new=False))
    assert differing(own(verdict), PIN, tool("t"), tool("t").digest) == ""
    assert differing(own(verdict), PIN, TWO, tool("t").digest) == ""
    assert differing(own(verdict), PIN, tool("t"), TWO.digest) == strange
    assert differing(watched(Verdict()), PIN, TWO, tool("t").digest) == ""
    assert differing(watched(Verdict()), PIN, tool("t"), TWO.digest) == strange
    assert differing(watched(Verdict()), None, tool("t"), TWO.digest) == strange


def test_signing_in_is_withheld_only_where_the_server_is_not_who_it_was() -> None:
    asked = call("sign_in", definition=signin.tool("a"))
    own = SERVER.model_copy(update={"catalog": "principal"})
    assert withheld(replace(watched(Verdict(hidden="not approved yet")), server=own), asked) == ""
    assert withheld(replace(watched(Verdict(hidden="quarantined", barred=True)), server=own), asked) == "quarantined"
    # Where lists are everybody's it is a server's, though it looks like the gateway's.
    assert withheld(watched(Verdict(hidden="no pin")), asked) == "no pin"
