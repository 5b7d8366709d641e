"""The sign-in page."""

from __future__ import annotations

from gateway.admin.pages.markup import link
from gateway.admin.pages.signin import WRONG, sign_in
from tests.kit.pages import check


def test_the_form_asks_for_a_token_and_never_shows_one() -> None:
    shown = sign_in(link("/audit", server="a"), WRONG)
    check(shown)
    assert 'type="password"' in shown.text
    assert "That is nobody" in shown.text
    assert 'href="/ui/audit?server=a"' in shown.text
    assert "notice" not in sign_in(link("")).text
