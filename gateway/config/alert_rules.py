"""Cross checks of ``alerts``: selectors that lead somewhere, and addresses on which alerts can be told safely."""

from __future__ import annotations

from gateway.config.places import find
from gateway.config.policy_rules import judge_selector
from gateway.config.subject import Findings, Subject
from gateway.config.types import is_loopback, split_http_url


def judge_alerts(subject: Subject, findings: Findings) -> None:
    """Check selectors and addresses. Hours are read where they are given meaning."""
    for loc, selector in find(subject.tree, ("alerts", "sensitive", "*")):
        if isinstance(selector, str):
            judge_selector(subject, selector, loc, findings)
    if subject.config.alerts.rate.window <= 0:
        findings.problem(("alerts", "rate", "window"), "must be longer than nothing")
    for index, url in enumerate(subject.config.alerts.to):
        parts = split_http_url(url.get_secret_value())
        if parts.scheme.lower() != "https" and not is_loopback(parts.hostname or ""):
            findings.problem(("alerts", "to", index), "must be https: alerts say who calls what")
