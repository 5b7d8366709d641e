"""What an expression of Prometheus names: metrics, and the labels that are asked of them. Enough for our own files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from gateway.telemetry.labels import Closed, Known, SeriesGuard
from gateway.telemetry.metrics import Metrics

_SELECTOR = re.compile(r"(?<![\w.$\"])([a-z][a-z0-9_]*_[a-z0-9_]+|up)(?:\{([^}]*)\})?(?![\w(])")
_MATCHER = re.compile(r'(\w+)(=~|!~|!=|=)"([^"]*)"')
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring)\s*\(([^)]*)\)")
_FUNCTIONS = frozenset({"label_values"})
SCRAPED = frozenset({"job", "instance", "namespace", "pod"})
"""Labels that Prometheus adds to every series, the last two in Kubernetes only."""
FOREIGN = frozenset({"up"})
"""Metrics of Prometheus itself."""


@dataclass(frozen=True, slots=True)
class Selector:
    """One metric in an expression, and what is asked of its labels: name to the texts of its matchers."""

    metric: str
    matchers: tuple[tuple[str, str, str], ...]


def selectors(expression: str) -> Iterator[Selector]:
    """Yield every metric of an expression."""
    plain = _GROUPING.sub(" ", expression)
    for name, inside in _SELECTOR.findall(plain):
        if name not in _FUNCTIONS and not name.endswith("_over_time") and name != "group_left":
            yield Selector(name, tuple(_MATCHER.findall(inside)))


def grouped_by(expression: str) -> set[str]:
    """Return every label that an expression groups or matches series by."""
    return {label.strip() for group in _GROUPING.findall(expression) for label in group.split(",") if label.strip()}


def strangers(expression: str) -> list[str]:
    """Return what an expression says of metrics that the gateway does not have: names, labels and values of labels."""
    metrics, types = _known()
    found: list[str] = []
    known_labels = SCRAPED | {"le"}
    for selector in selectors(expression):
        base = re.sub(r"_(bucket|count|sum)$", "", selector.metric)
        name = selector.metric if selector.metric in types else base
        if name not in types:
            found += [] if name in FOREIGN else [name]
            continue
        guard = _guard(metrics, name)
        labels = frozenset(guard.names) if guard is not None else frozenset()
        known_labels |= labels
        for label, operator, text in selector.matchers:
            if label not in labels | SCRAPED:
                found.append(f"{name}{{{label}}}")
            elif guard is not None and label in labels:
                found += [f"{name}{{{label}={value}}}" for value in _unknown(guard, label, operator, text)]
    return found + [f"by {label}" for label in sorted(grouped_by(expression) - known_labels)]


@cache
def _known() -> tuple[Metrics, frozenset[str]]:
    metrics = Metrics()
    lines = metrics.render("")[0].decode().splitlines()
    return metrics, frozenset(line.split()[2] for line in lines if line.startswith("# TYPE "))


def _guard(metrics: Metrics, name: str) -> SeriesGuard | None:
    metric = getattr(metrics, name.removeprefix("mcp_gateway_"), None)
    guard = getattr(metric, "_guard", None)
    return guard if isinstance(guard, SeriesGuard) else None


def _unknown(guard: SeriesGuard, label: str, operator: str, text: str) -> list[str]:
    """Return the values that this label can never have."""
    domain = guard._domains[label]
    values = text.split("|") if operator in ("=~", "!~") else [text]
    if isinstance(domain, Known) or text.startswith("$") or text == "":
        return []
    return [value for value in values if isinstance(domain, Closed) and value not in domain.values]
