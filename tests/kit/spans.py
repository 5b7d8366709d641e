"""A tracer that remembers what it was told, for tests of who tells it."""

from __future__ import annotations

from dataclasses import dataclass, field

from gateway.telemetry.spans import Carrier, Fact, Facts, Side, Span

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}


@dataclass(slots=True)
class Noted:
    """One span."""

    side: Side
    title: str
    parent: dict[str, str]
    facts: dict[str, Fact]
    carrier: dict[str, str]
    links: list[dict[str, str]] = field(default_factory=list)
    error: str | None = None
    """None until it has ended."""

    def name(self, name: str) -> None:
        self.title = name

    def note(self, facts: Facts) -> None:
        self.facts |= facts

    def link(self, carrier: Carrier) -> None:
        self.links.append(dict(carrier))

    def end(self, error: str = "") -> None:
        assert self.error is None, "ended twice"
        self.error = error


@dataclass(slots=True)
class Recorder:
    """Keeps spans in the order in which they began."""

    on: bool = True
    spans: list[Noted] = field(default_factory=list)

    def begin(self, side: Side, name: str, parent: Carrier, facts: Facts) -> Span:
        trace = parent["traceparent"].split("-")[1] if parent else f"{len(self.spans) + 1:032x}"
        carrier = {"traceparent": f"00-{trace}-{len(self.spans) + 1:016x}-01"}
        made = Noted(side, name, dict(parent), dict(facts), carrier)
        self.spans.append(made)
        return made

    def pseudonym(self, secret: str) -> str:
        return f"hash of {len(secret)}"

    @property
    def only(self) -> Noted:
        """The one span there is."""
        (span,) = self.spans
        return span
