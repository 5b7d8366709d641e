from __future__ import annotations

import pytest

from gateway.config.places import Document, Places, Tree, at, dotted, find, put, shown


def test_places_are_written_as_people_write_them() -> None:
    assert dotted(("servers", "my files", "args", 0)) == 'servers."my files".args[0]'
    assert dotted(("policies", 3, "allow", 1, "tools")) == "policies[3].allow[1].tools"
    assert dotted(("a.b", "x\ny")) == '"a.b"."x\\ny"'
    assert dotted(()) == ""


def test_names_are_shown_escaped_and_cut() -> None:
    assert shown("a\x1b[31m\u202eb") == "a\\x1b[31m\\u202eb"
    assert shown("x" * 500) == "x" * 128 + "…"


def test_a_problem_is_placed_where_it_was_written() -> None:
    main = Document("main.yaml", {}, {("policies",): 4, ("policies", 0): 5})
    other = Document("p.yaml", {}, {("policies", 2): 9, ("policies", 2, "name"): 10})
    places = Places(main)
    places.graft(("policies", 0), other, ("policies", 2))
    inner = places.problem(("policies", 0, "name"), "is wrong", "do better")
    assert str(inner) == "p.yaml:10: policies[2].name: is wrong (do better)"
    assert str(places.problem(("policies", 0, "mode"), "x")) == "p.yaml:9: policies[2].mode: x"
    assert str(places.problem(("policies",), "x")) == "main.yaml:4: policies: x"
    assert str(places.problem(("listen",), "x")) == "main.yaml:1: listen: x"


def test_values_are_found_by_pattern_in_order() -> None:
    tree: Tree = {"s": {"a": {"x": 1}, "b": {"x": 2}, "c": {"y": 3}}, "l": [{"x": 4}, 5]}
    assert find(tree, ("s", "*", "x")) == [(("s", "a", "x"), 1), (("s", "b", "x"), 2)]
    assert find(tree, ("l", "*", "x")) == [(("l", 0, "x"), 4)]
    assert find(tree, ("nothing", "*")) == []


def test_values_are_looked_up_and_replaced_in_place() -> None:
    tree: Tree = {"a": [{"b": 1}]}
    assert at(tree, ("a", 0, "b")) == 1
    assert at(tree, ("a", 1, "b")) is None
    assert at(tree, ("a", "b")) is None
    put(tree, ("a", 0, "b"), 2)
    put(tree, ("a", 0), {"b": 3})
    assert tree == {"a": [{"b": 3}]}
    with pytest.raises(KeyError):
        put(tree, ("a", "b"), 1)
