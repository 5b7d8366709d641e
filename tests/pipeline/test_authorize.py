"""What may be called is what the policies say, at the time of the call."""

from __future__ import annotations

from dataclasses import replace

from gateway.errors import Reason
from gateway.model.call import TaskRef
from gateway.model.outcome import Failure
from gateway.pipeline.authorize import Authorize
from gateway.policy.engine import Engine
from gateway.telemetry.metrics import Metrics
from tests.kit.calls import OK, Next, call, passage
from tests.kit.configs import loaded

POLICY = {
    "name": "readers",
    "clients": ["bot"],
    "allow": [{"tools": "a/*", "when": "!has(args.path) || args.path.startsWith('/data')"}],
    "deny": ["a/drop"],
}


def step(metrics: Metrics | None = None) -> Authorize:
    return Authorize(Engine.build(loaded({"policies": [POLICY]})), metrics or Metrics())


async def test_an_allowed_call_goes_on_with_its_decision() -> None:
    way, rest = passage(), Next()
    assert await step()(call("read"), way, rest) is OK
    assert way.decision is not None
    assert (way.decision.policy, way.decision.allowed) == ("readers", True)


async def test_a_denied_call_stops_here_and_says_so_readably() -> None:
    metrics, way, rest = Metrics(), passage(), Next()
    ended = await step(metrics)(call("read", arguments={"path": "/etc/passwd"}), way, rest)
    assert isinstance(ended, Failure)
    assert (ended.reason, ended.may_have_run) == (Reason.DENIED, False)
    assert "did not run" in ended.text
    assert "/etc/passwd" not in ended.text
    assert rest.calls == []
    assert 'policy_decisions_total{decision="deny",reason="condition"} 1.0' in metrics.render("")[0].decode()


async def test_deny_wins_over_allow() -> None:
    """S58."""
    assert isinstance(await step()(call("drop"), passage(), Next()), Failure)


async def test_another_servers_tool_of_the_same_name_is_not_covered() -> None:
    """G071: decided on the resolved pair, never on joined strings."""
    assert isinstance(await step()(call("read", server="ab"), passage(), Next()), Failure)


async def test_a_task_is_decided_without_the_arguments_it_began_with() -> None:
    """S59: it goes on for as long as its tool may be called at all."""
    closed = {**POLICY, "allow": [{"tools": "a/*", "when": "args.path.startsWith('/data')"}]}
    authorize = Authorize(Engine.build(loaded({"policies": [closed]})), Metrics())
    about = call("read", method="tasks/get", task=TaskRef("own", "sealed"))
    assert isinstance(await authorize(replace(about, task=None), passage(), Next()), Failure)
    assert await authorize(about, passage(), Next()) is OK
    gone = call("drop", method="tasks/get", task=TaskRef("own", "sealed"))
    assert isinstance(await authorize(gone, passage(), Next()), Failure)
