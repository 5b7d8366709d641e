from __future__ import annotations

import pytest

from gateway.config.names import ANONYMOUS, CLIENT_NAME


@pytest.mark.parametrize("name", ["a", "7", "ci-bot", "alice@example.org", "a" * 64, ANONYMOUS])
def test_names_of_people_and_programs_may_be_written(name: str) -> None:
    assert CLIENT_NAME.fullmatch(name)


@pytest.mark.parametrize("name", ["", "-a", ".a", "a b", "a/b", "é", "a" * 65, "a\n"])
def test_what_would_not_fit_on_a_line_may_not(name: str) -> None:
    assert not CLIENT_NAME.fullmatch(name)
