"""Who can call what: a matrix of it, the policies, and why a call would be allowed or not."""

from __future__ import annotations

import asyncio
from typing import Final

from gateway.admin.pages.facts import as_object, number, string
from gateway.admin.pages.json_text import laid_out
from gateway.admin.pages.markup import Html, el, join, link, name, text
from gateway.admin.pages.parts import MAX_PAGE, Field, Line, anchor, badge, notice, search, table
from gateway.admin.pages.visit import Answer, Gateway, Page, Visit
from gateway.admin.views import Corner, Explained, Matrix, Supposed
from gateway.protocol import rawjson
from gateway.protocol.rawjson import Object

MAX_POLICIES: Final = 100
_WORDS: Final = {
    "yes": ("yes", "good"),
    "no": ("–", "none"),
    "depends": ("depends", "warn"),
    "asks": ("asks", "warn"),
}
_LEGEND: Final = (
    "yes: may call it. asks: may, when a person says yes. "
    "depends: on arguments, hours or scopes. –: does not even see it."
)


async def policies(gateway: Gateway, visit: Visit) -> Answer:
    """Show the matrix and the policies."""
    server, words = visit.query.get("server", ""), visit.query.get("text", "")
    row, column = _number(visit, "row"), _number(visit, "column")
    matrix = await gateway.views.matrix(Corner(server, words, row, column))
    form = search("/policies", [Field("server", "server", server, "all"), Field("text", "tool has", words)], "Show")
    explain_link = anchor(link("/policies/explain"), "Explain one call")
    body = join(
        el("p", None, explain_link),
        el("h2", None, "Who can call what"),
        form,
        el("p", {"class": "hint"}, _LEGEND),
        table("Who can call what", ("tool", *map(_head, matrix.whos)), _lines(matrix)),
        _ways(visit, matrix, row, column),
        _weights(await gateway.views.weights()),
        el("h2", None, "Policies"),
        await asyncio.to_thread(_written, gateway),
    )
    return Page("Policies", body)


def _head(who: str) -> Html:
    return name(who, 40)


def _lines(matrix: Matrix) -> list[Line]:
    lines: list[Line] = []
    for tool, cells in zip(matrix.tools, matrix.cells, strict=True):
        shown = [
            el(
                "a",
                {"href": link("/policies/explain", principal=who, target=tool), "class": "cell"},
                badge(*_WORDS[cell]),
            )
            for who, cell in zip(matrix.whos, cells, strict=True)
        ]
        lines.append([name(tool, 160), *shown])
    return lines


def _ways(visit: Visit, matrix: Matrix, row: int, column: int) -> Html | None:
    """Lead to the rest of a large matrix, down and to the right."""
    kept = {key: value for key, value in visit.query.items() if key in ("server", "text")}
    height, width = max(len(matrix.tools), 1), max(len(matrix.whos), 1)
    ways = [
        (row > 0, "↑ tools before", max(0, row - 50), column),
        (row + height < matrix.total_tools, "tools after ↓", row + height, column),
        (column > 0, "← callers before", row, max(0, column - 12)),
        (column + width < matrix.total_whos, "callers after →", row, column + width),
    ]
    links = [
        anchor(link("/policies", **kept | {"row": str(down), "column": str(right)}), words)
        for fits, words, down, right in ways
        if fits
    ]
    if not links:
        return None
    said = f"{matrix.total_tools:,} tools, {matrix.total_whos:,} callers"
    return el("nav", {"class": "pager", "aria-label": "Parts of the matrix"}, links, el("span", None, said))


def _weights(weights: Object) -> Html | None:
    """Show how much of a model's context each client's list takes, the heaviest first."""
    if not weights:
        return None
    found = [(client, as_object(each)) for client, each in weights.items()]
    found.sort(key=lambda pair: -number(pair[1], "approx_tokens"))
    lines: list[Line] = [
        [name(client), f"{number(each, 'tools'):,}", f"{number(each, 'approx_tokens'):,}"] for client, each in found
    ]
    return table("What clients see without a view", ("client", "tools", "tokens, about"), lines)


def _written(gateway: Gateway) -> Html:
    found = gateway.views.policies()
    if not found:
        return el("p", {"class": "nothing"}, "No policy is configured: whoever may connect may call everything.")
    blocks = []
    for each in found[:MAX_POLICIES]:
        shadow = badge("shadow", "warn") if string(each, "mode") == "shadow" else None
        summary = el("summary", None, name(string(each, "name")), shadow)
        blocks.append(el("details", None, summary, laid_out(rawjson.encode(each).decode())))
    more = f"{len(found) - MAX_POLICIES:,} more are in the config." if len(found) > MAX_POLICIES else None
    return join(blocks, el("p", {"class": "nothing"}, more) if more else None)


async def explain(gateway: Gateway, visit: Visit) -> Answer:
    """Show the form and, once it is filled in, why."""
    given = {key: visit.query.get(key, "") for key in ("principal", "target", "view", "groups", "scopes")}
    arguments = visit.query.get("arguments", "") or "{}"
    form = search(
        "/policies/explain",
        [
            Field("principal", "Who", given["principal"], "a client's name, anonymous, or sub:ISSUER/SUBJECT"),
            Field("target", "calls what", given["target"], "server/tool, or prompt:server/name"),
            Field("arguments", "with arguments", arguments, tall=True, limit=4000),
            Field("groups", "also in groups", given["groups"], "a, b"),
            Field("scopes", "with scopes", given["scopes"], "a, b"),
            Field("view", "through view", given["view"], "none"),
        ],
        "Explain",
    )
    answer, status = None, 200
    if given["principal"] and given["target"]:
        try:
            answer = _explained(gateway.views.explain(_supposed(given, arguments)))
        except ValueError as error:
            answer, status = notice(text(str(error)), "bad"), 400
    return Page("Explain one call", join(form, answer), status)


def _supposed(given: dict[str, str], arguments: str) -> Supposed:
    """Read the form; a column of the matrix that is a group or scope stands for somebody with nothing else."""
    who = given["principal"]
    if who.startswith("group:"):
        return Supposed("sub:anybody", given["target"], arguments, given["view"], who[6:], given["scopes"])
    if who.startswith("scope:"):
        return Supposed("sub:anybody", given["target"], arguments, given["view"], given["groups"], who[6:])
    return Supposed(who, given["target"], arguments, given["view"], given["groups"], given["scopes"])


def _explained(found: Explained) -> Html:
    allowed = badge("allowed", "good") if found.allowed else badge("refused", "bad")
    visible = badge("visible", "good") if found.visible else badge("hidden", "bad")
    lines = [
        el("li", {"class": "inner" if line.startswith(" ") else None}, text(line.strip(), 600)) for line in found.lines
    ]
    return el(
        "section", {"class": "explained", "role": "status"}, el("p", None, allowed, visible), el("ol", None, lines)
    )


def _number(visit: Visit, key: str) -> int:
    given = visit.query.get(key, "")
    return min(int(given), MAX_PAGE) if given.isascii() and given.isdigit() and len(given) < 7 else 0
