"""``health`` against a running gateway, and without one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gateway.cli.main import main
from tests.kit.gateway import Gateway, free_port, serving


def test_a_gateway_that_lives_and_takes_calls_is_fine(gateway: Gateway, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["health", "-c", str(gateway.file)]) == 0
    assert capsys.readouterr().out == "ok\n"
    assert main(["health", "--ready", "-c", str(gateway.file)]) == 0
    assert capsys.readouterr().out == "ready\n"


def test_without_a_gateway_it_is_a_finding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "gateway.yaml"
    config.write_text(f"admin: {{port: {free_port()}}}\n")

    assert main(["health", "--json", "-c", str(config)]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["ok"] is False
    assert told["reasons"][0].startswith("no gateway answers at http://127.0.0.1:")


def test_it_needs_nothing_of_the_config_but_the_admin_listener_and_no_token(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    digest = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"
    with serving(tmp_path, {"admin": {"users": {"alice": {"token_sha256": digest}}}}) as gateway:
        broken = tmp_path / "broken.yaml"
        broken.write_text(f"admin: {{host: 0.0.0.0, port: {gateway.admin_port}}}\nservers: 7\nclints: {{}}\n")

        assert main(["health", "--ready", "-c", str(broken)]) == 0


def test_a_config_that_does_not_say_where_cannot_be_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "gateway.yaml"
    config.write_text("admin: {port: many}\n")

    assert main(["health", "-c", str(config)]) == 2
    assert "admin.port" in capsys.readouterr().err
