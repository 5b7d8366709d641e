from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.config_files import loaded, only, problems

SERVER = "servers: {wiki: {command: x}}\n"


@pytest.mark.parametrize("name", ["a/b", "-a", "a b", "é", "a.b", "x" * 65, "'..'"])
def test_a_name_that_cannot_stand_in_an_address_is_refused(tmp_path: Path, name: str) -> None:
    problem = only(problems(tmp_path, f"{SERVER}views: {{{name}: {{include: ['wiki/*']}}}}\n"))
    assert problem.message == "cannot be a view's name"


@pytest.mark.parametrize(
    ("selector", "message"),
    [("wik/*", "no server is called 'wik'"), ("wiki", "is no selector"), ("tool:wiki/*", "'tool:' is no kind")],
)
def test_a_selector_that_leads_nowhere_is_refused_where_it_stands(tmp_path: Path, selector: str, message: str) -> None:
    problem = only(problems(tmp_path, f"{SERVER}views:\n  v:\n    include:\n      - {selector}\n"))
    assert message in problem.message
    assert (problem.path, problem.line) == ("views.v.include[0]", 5)


def test_a_view_that_shows_nothing_is_noted(tmp_path: Path) -> None:
    notes = loaded(tmp_path, f"{SERVER}views: {{v: {{include: []}}}}\n").notes
    assert any("views.v.include: is empty: the view shows nothing" in note for note in notes)


def test_views_are_taken(tmp_path: Path) -> None:
    text = f"{SERVER}views: {{a-1_B: {{include: ['wiki/*', 'prompt:*/x', 'any:wiki/*'], mode: search}}}}\n"
    assert loaded(tmp_path, text).config.views["a-1_B"].mode == "search"
