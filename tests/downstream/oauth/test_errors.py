from __future__ import annotations

from gateway.downstream.dialect import Unserved
from gateway.downstream.oauth.errors import ConsentNeeded, NoToken
from gateway.errors import Reason


def test_a_missing_token_is_unavailable_and_nothing_ran() -> None:
    for error in (NoToken("no"), ConsentNeeded("sign in", "ticket")):
        assert isinstance(error, Unserved)
        assert (error.reason, error.may_have_run) == (Reason.UNAVAILABLE, False)


def test_a_consent_is_looked_for_less_often_than_a_server_that_is_down() -> None:
    assert ConsentNeeded("sign in", "ticket").patience > NoToken("no").patience
    assert "ticket" not in str(ConsentNeeded("sign in", "ticket"))
