from __future__ import annotations

from gateway.downstream.observer import NobodyWatches, Observer


def test_nobody_has_to_watch() -> None:
    observer: Observer = NobodyWatches()
    observer.stderr(5)
    observer.protocol_error("unknown_id")
    assert vars(observer) == {}
