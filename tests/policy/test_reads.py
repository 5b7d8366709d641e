"""What a condition reads is known from its text, rather too much than too little."""

from __future__ import annotations

import pytest

from gateway.policy.conditions import compile_condition
from gateway.policy.reads import CLAIMS, IDENTITY, Path, reads


@pytest.mark.parametrize(
    ("expression", "paths"),
    [
        ("args.a == 1", [("a",)]),
        ("args.a.b.c > 1 && args.d == 'args.x'", [("a", "b", "c"), ("d",)]),
        ("args['a']['b'] == 1", [("a", "b")]),
        ('args["a b"].c == 1', [("a b", "c")]),
        ("has(args.a) && !has(args.b.c)", [("a",), ("b", "c")]),
        ("args.sql.matches('x') || args.sql.contains(args.other)", [("sql",), ("other",)]),
        ("args.items.all(i, i.args.x > 1)", [("items",)]),
        ("args.list[0] == 1", [("list",)]),
        ("args[principal.id] == 1", [()]),
        ("size(args) < 3 && args.a == 1", [()]),
        ("'a' in args", [()]),
        ("args.a == 1 && args.a.b == 2", [("a",)]),
        ("args . a . b == 1", [("a", "b")]),
        ("args['a\\'b'] == 1", [()]),
        ("// args.comment\nargs.a == 1", [("a",)]),
        ("args.path.inside('/x')", [("path",)]),
        ("args.t == '''args.x''' && args.u == r'\\args.y'", [("t",), ("u",)]),
        ("tool.name == 'args.a'", []),
        ("principal.claims.args.a == 1", []),
    ],
)
def test_paths_of_arguments(expression: str, paths: list[Path]) -> None:
    compiled = compile_condition(expression)
    assert list(reads(expression)) == paths
    assert list(compiled.reads) == paths


@pytest.mark.parametrize(
    ("expression", "claims", "identity"),
    [
        ("principal.claims.dept == 'x'", [("dept",)], False),
        ("principal.claims['https://x/y'].z == 1 && principal.claims.a == 1", [("https://x/y", "z"), ("a",)], False),
        ("'dept' in principal.claims", [()], False),
        ("principal.claims[args.x] == 1", [()], False),
        ("principal.id == 'sub:x/y' && 'g' in principal.groups", [], True),
        ("args.principal.claims.dept == 'principal.id'", [], False),
    ],
)
def test_claims_and_identity(expression: str, claims: list[Path], identity: bool) -> None:
    assert list(reads(expression, CLAIMS)) == claims
    assert bool(reads(expression, IDENTITY)) is identity
    assert list(compile_condition(expression).claims) == claims
