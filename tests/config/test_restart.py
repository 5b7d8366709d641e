from __future__ import annotations

from gateway.config.restart import restart_needed
from gateway.config.root import Config


def config(text: dict[str, object]) -> Config:
    return Config.model_validate(text)


def test_settings_that_need_a_restart_are_named() -> None:
    """S184."""
    running = config({"listen": {"port": 1, "path": "/a"}, "audit": {"dir": "/a"}})
    wanted = config({"listen": {"port": 2, "path": "/a"}, "audit": {"dir": "/b"}, "state": {"dir": "/c"}})
    assert restart_needed(running, wanted) == ["listen.port", "state.dir", "audit.dir"]


def test_settings_that_reload_need_none() -> None:
    key = {"key": "k" * 40}
    wanted = config({"servers": {"a": {"command": "x"}}, "clients": {"c": key}, "limits": {"in_flight": 2}})
    assert restart_needed(Config(), wanted) == []


def test_changed_secrets_are_noticed_without_being_shown() -> None:
    wanted = config({"admin": {"metrics_token": "0123456789abcdef"}})
    assert restart_needed(Config(), wanted) == ["admin.metrics_token"]
