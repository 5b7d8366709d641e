"""What a session's own requests change, and whether others must hear of it."""

from __future__ import annotations

import pytest

from gateway.endpoint.legacy import local
from gateway.endpoint.legacy.session import Session
from gateway.endpoint.updates import Updates
from gateway.errors import RequestError
from gateway.model.principal import ANONYMOUS
from gateway.protocol import methods
from gateway.protocol.rawjson import Object
from tests.kit.endpoint import FakeServices, moment


def parts() -> tuple[Session, Updates]:
    return Session("s" * 43, ANONYMOUS, None, "2025-11-25", {}, {}, 0.0), Updates(FakeServices(moment()))


async def test_a_level_is_news_only_when_it_is_another() -> None:
    session, updates = parts()
    assert local.serve(session, updates, methods.SET_LEVEL, {"level": "warning"})
    assert session.log_level == "warning"
    assert not local.serve(session, updates, methods.SET_LEVEL, {"level": "warning"})


async def test_a_subscription_that_is_given_up_is_gone_here_and_elsewhere() -> None:
    session, updates = parts()
    session.uris["note://1"] = session.elsewhere["note://2"] = ("notes", "note://1")
    for uri, known in (("note://1", True), ("note://2", True), ("note://3", False)):
        assert local.serve(session, updates, methods.RESOURCES_UNSUBSCRIBE, {"uri": uri}) is known
    assert (session.uris, session.elsewhere) == ({}, {})


async def test_everything_else_changes_nothing() -> None:
    session, updates = parts()
    assert not local.serve(session, updates, methods.PING, {})


@pytest.mark.parametrize(
    ("method", "params"),
    [
        (methods.SET_LEVEL, {}),
        (methods.SET_LEVEL, {"level": "loud"}),
        (methods.SET_LEVEL, {"level": 3}),
        (methods.RESOURCES_UNSUBSCRIBE, {}),
        (methods.RESOURCES_UNSUBSCRIBE, {"uri": 7}),
    ],
)
async def test_params_of_the_wrong_shape_are_refused(method: str, params: Object) -> None:
    session, updates = parts()
    with pytest.raises(RequestError):
        local.serve(session, updates, method, params)
