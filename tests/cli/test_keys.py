from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest

from gateway.cli.keys import new_key
from gateway.cli.main import main
from gateway.config.loader import load
from tests.kit.config_files import write

KEY = re.compile(r"mcpgw_[0-9a-z]{8}_[A-Za-z0-9_-]{43}")


def test_a_key_has_a_name_and_256_random_bits() -> None:
    """S33."""
    keys = {new_key().text for _ in range(50)}
    assert len(keys) == 50
    assert all(KEY.fullmatch(key) for key in keys)


def test_a_key_is_in_no_repr() -> None:
    """S156."""
    key = new_key()
    assert key.text not in repr(key)
    assert key.sha256 == hashlib.sha256(key.text.encode()).hexdigest()


def test_the_entry_can_be_pasted_and_knows_only_the_digest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """S33: what is kept is the SHA-256; the key is shown once."""
    words = ["keys", "new", "ci-bot", "--group", "automation", "--group", "on", "--expires", "2027-01-31"]
    assert main(words) == 0
    out = capsys.readouterr().out
    (key,) = KEY.findall(out)
    entry = out[out.index("clients:") :]
    assert key not in entry
    client = load(write(tmp_path, entry), {}).config.clients["ci-bot"]
    assert client.key_sha256 == [hashlib.sha256(key.encode()).hexdigest()]
    assert client.groups == ["automation", "on"]
    assert str(client.expires) == "2027-01-31"


@pytest.mark.parametrize("name", ["0", "1e5", "null", "user@example.com", "2027-01-01", "a.b"])
def test_names_that_yaml_would_misread_are_quoted(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["keys", "new", name, "--group", "a: b #", "--group", 'q"']) == 0
    out = capsys.readouterr().out
    client = load(write(tmp_path, out[out.index("clients:") :]), {}).config.clients[name]
    assert client.groups == ["a: b #", 'q"']


def test_programs_get_one_value(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["keys", "new", "bot", "--group", "g", "--expires", "2027-01-31", "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert KEY.fullmatch(value["key"])
    digest = hashlib.sha256(value["key"].encode()).hexdigest()
    assert value["clients"] == {"bot": {"key_sha256": [digest], "expires": "2027-01-31", "groups": ["g"]}}


@pytest.mark.parametrize(
    "words",
    [["anonymous"], ["a b"], ["a:b"], ["*"], [""], ["x" * 65], ["bot", "--group", ""], ["bot", "--group", " g"]],
)
def test_names_nobody_may_have_make_no_key(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["keys", "new", *words]) == 2
    streams = capsys.readouterr()
    assert streams.out == ""
    assert streams.err.startswith("keys new: ")


def test_a_day_that_is_none_makes_no_key(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["keys", "new", "bot", "--expires", "soon"]) == 2
    assert capsys.readouterr().out == ""
