"""Cross checks of ``views``: names that can stand in an address, selectors of servers that there are."""

from __future__ import annotations

import re
from typing import Final

from gateway.config.places import Loc
from gateway.config.policy_rules import judge_selector
from gateway.config.subject import Findings, Subject

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def judge_views(subject: Subject, findings: Findings) -> None:
    """Check every view. A view's name is the last step of its address, and of the resource that tokens are for."""
    for name, view in subject.config.views.items():
        loc: Loc = ("views", name)
        if not _NAME.fullmatch(name):
            hint = "it ends an address: a letter or digit, then up to 63 letters, digits, _ and -"
            findings.problem(loc, "cannot be a view's name", hint)
        if not view.include:
            findings.note((*loc, "include"), "is empty: the view shows nothing")
        for index, selector in enumerate(view.include):
            judge_selector(subject, selector, (*loc, "include", index), findings)
