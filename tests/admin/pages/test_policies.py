"""The pages of policies."""

from __future__ import annotations

from dataclasses import replace

from gateway.admin.pages import policies
from gateway.admin.views import Corner, Supposed
from tests.kit.pages import HOSTILE, SHOWN, Told, page, visit


async def test_who_can_call_what_is_a_matrix_whose_cells_lead_to_the_reason() -> None:
    told = Told()
    shown = page(await policies.policies(told.gateway, visit("/policies"))).body.text
    assert SHOWN in shown
    assert "/ui/policies/explain?principal=bot&amp;target=a%2Fx" in shown
    assert all(f">{word}</span>" in shown for word in ("yes", "asks", "depends", "–"))
    assert "shadow" in shown
    assert told.asked == [("matrix", Corner())]


async def test_what_each_clients_list_weighs_is_shown_the_heaviest_first() -> None:
    shown = page(await policies.policies(Told().gateway, visit("/policies"))).body.text
    weights = shown[shown.index("What clients see without a view") :]
    assert 0 < weights.index("2,000,000") < weights.index("1,200")
    assert SHOWN in weights


async def test_a_large_matrix_is_walked_in_both_directions() -> None:
    told = Told()
    shown = page(await policies.policies(told.gateway, visit("/policies", row="50", column="12", text="x"))).body.text
    assert told.asked == [("matrix", Corner("", "x", 50, 12))]
    assert "10,000 tools" in shown
    for way in ("row=0&amp;column=12", "row=52&amp;column=12", "row=50&amp;column=0", "row=50&amp;column=14"):
        assert f"/ui/policies?text=x&amp;{way}" in shown


async def test_a_call_is_explained_in_lines() -> None:
    told = Told()
    asked = {"principal": "bot", "target": "a/x", "arguments": '{"q":1}', "groups": "g", "view": "v"}
    shown = page(await policies.explain(told.gateway, replace(visit("/policies/explain"), query=asked))).body.text
    assert told.asked == [("explain", Supposed("bot", "a/x", '{"q":1}', "v", "g", ""))]
    assert "refused" in shown
    assert "visible" in shown
    assert SHOWN in shown
    assert "{&quot;q&quot;:1}" in shown


async def test_a_group_or_scope_of_the_matrix_is_somebody_with_nothing_else() -> None:
    told = Told()
    for who in ("group:analysts", "scope:crm.write"):
        await policies.explain(told.gateway, visit("/policies/explain", principal=who, target="a/x"))
    assert told.asked == [
        ("explain", Supposed("sub:anybody", "a/x", "{}", "", "analysts", "")),
        ("explain", Supposed("sub:anybody", "a/x", "{}", "", "", "crm.write")),
    ]


async def test_an_empty_form_asks_nothing_and_a_wrong_one_says_what_is_wrong() -> None:
    told = Told()
    page(await policies.explain(told.gateway, visit("/policies/explain")))
    assert told.asked == []
    told.fails = ValueError(HOSTILE)
    wrong = page(await policies.explain(told.gateway, visit("/policies/explain", principal="x", target="y")))
    assert wrong.status == 400
    assert SHOWN in wrong.body.text
