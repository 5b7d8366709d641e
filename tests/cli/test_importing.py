from __future__ import annotations

import json
from pathlib import Path

import pytest

from gateway.cli.main import main
from gateway.config.loader import load
from tests.kit.config_files import CANARY, write

FILE = json.dumps(
    {
        "mcpServers": {
            "wiki": {"type": "http", "url": "https://w.example/mcp", "headers": {"Authorization": f"Bearer {CANARY}"}},
            "files": {"command": "npx", "args": ["-y", "server-files"], "env": {"LOG": "warn"}},
        }
    }
)


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder that holds nothing but the other program's file."""
    monkeypatch.chdir(tmp_path)
    return write(tmp_path, FILE, "claude_desktop_config.json")


def test_servers_are_printed_as_a_section_and_the_rest_is_said_aside(
    source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["import", str(source)]) == 0
    streams = capsys.readouterr()
    assert streams.out == (
        "servers:\n  wiki:\n    url: https://w.example/mcp\n    headers:\n      Authorization: Bearer ${WIKI_TOKEN}\n"
        "  files:\n    command: npx\n    args: [-y, server-files]\n    env:\n      LOG: warn\n"
    )
    assert "WIKI_TOKEN  wiki: headers.Authorization  as in the file" in streams.err
    assert "still holds secrets" in streams.err
    assert CANARY not in streams.out + streams.err
    assert not Path("gateway.yaml").exists()


def test_a_config_is_made_and_can_be_served(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", str(source), "--write"]) == 0
    assert "gateway.yaml: 2 servers added: wiki, files" in capsys.readouterr().err
    loaded = load(Path("gateway.yaml"), {"WIKI_TOKEN": CANARY})
    assert loaded.config.servers["wiki"].headers["Authorization"].get_secret_value() == f"Bearer {CANARY}"
    assert load(Path("gateway.yaml"), {}).off == {
        "wiki": "headers.Authorization: the variable WIKI_TOKEN is not set",
    }
    assert Path("gateway.yaml").stat().st_mode & 0o777 == 0o600


def test_what_a_config_has_stays_as_it_is(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = write(source.parent, "# mine\nservers:\n  wiki:\n    command: mine  # kept\nlisten: {port: 1}\n")
    config.chmod(0o640)
    assert main(["import", str(source), "--write"]) == 1
    said = capsys.readouterr().err
    assert "wiki: gateway.yaml has another server of this name, which stays as it is" in said
    assert "1 server added: files" in said
    text = config.read_text()
    assert text.startswith("# mine\nservers:\n  wiki:\n    command: mine  # kept\n  files:\n")
    assert text.endswith("listen: {port: 1}\n")
    assert config.stat().st_mode & 0o777 == 0o640
    assert sorted(path.name for path in source.parent.iterdir()) == ["claude_desktop_config.json", "gateway.yaml"]


def test_a_second_time_nothing_is_written(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", str(source), "--write"]) == 0
    before = Path("gateway.yaml").read_bytes()
    assert main(["import", str(source), "--write"]) == 0
    assert "wiki: gateway.yaml has it already" in capsys.readouterr().err
    assert Path("gateway.yaml").read_bytes() == before


def test_a_config_in_another_layout_is_not_touched(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = write(source.parent, '{"servers": {"a": {"command": "b"}}}')
    assert main(["import", str(source), "--write"]) == 2
    assert "paste them" in capsys.readouterr().err
    assert config.read_text() == '{"servers": {"a": {"command": "b"}}}'


def test_programs_get_everything_as_one_value(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", str(source), "--json", "--write"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert value["added"] == ["wiki", "files"]
    assert value["variables"] == [{"name": "WIKI_TOKEN", "for": "wiki: headers.Authorization", "in_file": True}]
    assert (value["conflicts"], value["unchanged"]) == ([], [])


def test_a_file_that_is_not_there_or_is_ours_is_no_answer(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", "missing.json"]) == 2
    assert "missing.json: cannot be read: does not exist" in capsys.readouterr().err
    ours = write(source.parent, "servers: {a: {command: b}}\n", "ours.yaml")
    assert main(["import", str(ours)]) == 2
    assert "holds no servers of another program" in capsys.readouterr().err
