from __future__ import annotations

from pathlib import Path

from gateway.config.reading import Reading
from gateway.config.restart import RESTART_SECTIONS, restart_needed, with_running_files, with_running_sections
from gateway.config.root import Config, LoadedConfig


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


def test_another_collector_needs_one_where_audit_records_go_there_too() -> None:
    """S184."""
    running = config({"telemetry": {"otlp": "https://a"}})
    wanted = config({"telemetry": {"otlp": {"url": "https://a", "headers": {"X-Key": "k"}}}})
    assert restart_needed(running, wanted) == []
    audit = {"audit": {"sinks": ["otlp"]}}
    assert restart_needed(config({"telemetry": {"otlp": "https://a"}, **audit}), wanted) == [
        "audit.sinks",
        "telemetry.otlp",
    ]


def test_changed_secrets_are_noticed_without_being_shown() -> None:
    wanted = config({"admin": {"metrics_token": "0123456789abcdef"}})
    assert restart_needed(Config(), wanted) == ["admin.metrics_token"]


def test_a_reload_takes_everything_but_what_needs_a_restart() -> None:
    running = LoadedConfig(config=config({"listen": {"port": 1}}), path=Path("a"), digest="1")
    sections: dict[str, object] = {"listen": {"port": 2}, "limits": {"in_flight": 7}}
    wanted = LoadedConfig(config=config(sections), path=Path("b"), digest="2")
    made = with_running_sections(running, wanted)
    assert (made.config.listen.port, made.config.limits.in_flight, made.digest) == (1, 7, "2")
    assert restart_needed(running.config, made.config) == []
    assert {name.partition(".")[0] for name in restart_needed(running.config, wanted.config)} <= set(RESTART_SECTIONS)


def test_files_of_what_needs_a_restart_stay_among_those_that_a_load_drew_on(tmp_path: Path) -> None:
    before, after = Reading(), Reading()
    for name in ("old", "new", "ca", "gone"):
        (tmp_path / name).write_text(name)
    before.refer(("listen", "tls", "cert"), tmp_path / "old")
    before.refer(("servers", "a", "tls", "ca"), tmp_path / "gone")
    running = before.sources()
    (tmp_path / "old").write_text("renewed")
    after.refer(("listen", "tls", "cert"), tmp_path / "new")
    after.refer(("servers", "b", "tls", "ca"), tmp_path / "ca")
    made = with_running_files(running, after.sources())
    assert set(made.files) == {tmp_path / "old", tmp_path / "new", tmp_path / "ca"}
    assert made.referred == {
        ("listen", "tls", "cert"): tmp_path / "old",
        ("servers", "b", "tls", "ca"): tmp_path / "ca",
    }
    # As it is now, or it would look changed for ever.
    assert made.files[tmp_path / "old"].digest != running.files[tmp_path / "old"].digest
