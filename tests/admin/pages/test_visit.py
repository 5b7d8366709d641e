"""Who may do what on a page."""

from __future__ import annotations

import pytest

from gateway.admin.access import Refused
from gateway.admin.operations import Act
from tests.kit.pages import visit


def test_a_role_is_needed_for_what_needs_one_and_none_to_look() -> None:
    looker = visit(roles=("view",))
    looker.need("view")
    visit(roles=()).need("view")
    visit(roles=("pins",)).need("pins")
    with pytest.raises(Refused) as refused:
        looker.need("pins")
    assert refused.value.status == 403


def test_who_acts_is_who_is_signed_in() -> None:
    assert visit().act == Act("alice", "127.0.0.1")
