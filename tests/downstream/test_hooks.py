"""The defaults of what the pool tells."""

from __future__ import annotations

from gateway.downstream.hooks import Hooks
from gateway.model.catalog import Kind


def test_nobody_needs_to_listen() -> None:
    hooks = Hooks()
    hooks.on_change("a", frozenset({Kind.TOOL}))
    hooks.on_down("a", "ended")
    hooks.on_resource_updated("a", "file:///x")
