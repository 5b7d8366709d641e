"""News reach everybody who listens, for as long as they do."""

from __future__ import annotations

from gateway.audience import Audience


def test_everybody_who_listens_is_told_and_nobody_who_has_left() -> None:
    heard: list[tuple[str, str, int]] = []
    audience = Audience[str, int]()
    leave = audience.add(lambda name, number: heard.append(("first", name, number)))
    audience.add(lambda name, number: heard.append(("second", name, number)))
    audience.tell("a", 1)
    leave()
    audience.tell("b", 2)
    assert heard == [("first", "a", 1), ("second", "a", 1), ("second", "b", 2)]


def test_a_listener_may_leave_or_bring_another_while_it_is_told() -> None:
    heard: list[str] = []
    audience = Audience[str]()

    def once(news: str) -> None:
        heard.append(news)
        leave()
        audience.add(lambda later: heard.append(f"later {later}"))

    leave = audience.add(once)
    audience.tell("a")
    audience.tell("b")
    assert heard == ["a", "later b"]
