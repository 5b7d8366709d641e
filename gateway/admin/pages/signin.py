"""The page on which a user shows a token, and gets a session for it."""

from __future__ import annotations

from gateway.admin.pages.markup import Attribute, Html, Url, el, join, link
from gateway.admin.pages.parts import button, notice

WRONG = "That is nobody's token."
MANY = "Too many attempts. Wait a moment."
UNRECORDED = "The audit log cannot be written, so nobody can sign in."


def sign_in(to: Url, problem: str = "") -> Html:
    """Return the form; ``to`` is the page that was wanted.

    A browser that comes from elsewhere keeps its cookie to itself until a link of ours is followed.
    """
    label = el("label", {"for": "f-token"}, "Your admin token")
    attributes = {"type": "password", "name": "token", "id": "f-token", "autocomplete": "current-password"}
    # For password keepers: there is one name for all tokens.
    user: dict[str, Attribute] = {"type": "text", "name": "user", "value": "mcp-gateway", "hidden": True}
    field = el("input", {**attributes, "required": True, "autofocus": True, "maxlength": 4096})
    form = el(
        "form",
        {"method": "post", "action": link("/sign-in"), "class": "sign-in"},
        el("input", {**user, "autocomplete": "username"}),
        el("input", {"type": "hidden", "name": "to", "value": to.text}),
        label,
        field,
        button("Sign in", "primary"),
    )
    where = el(
        "p",
        {"class": "hint"},
        "The token of one of admin.users, or without users the one in the state folder, in admin.token. "
        "A client's key does not open this.",
    )
    on = el("p", None, el("a", {"href": to}, "Signed in already? Go on"))
    return join(notice(problem, "bad") if problem else None, form, where, on)
