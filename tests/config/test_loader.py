from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path
from textwrap import dedent

import pytest

from gateway.config import loader
from gateway.config.document import parse
from gateway.config.loader import Unreadable, load
from gateway.config.reading import Reading
from gateway.errors import ConfigError
from tests.kit.config_files import CANARY, KEY, loaded, only, problems, write

DOCS = Path(__file__).parents[2] / "docs"

BROKEN = parse((Path(__file__).parent / "broken.yaml").read_bytes(), "broken.yaml").root["cases"]


def broken() -> list[dict[str, str | int]]:
    assert isinstance(BROKEN, list)
    cases = []
    for case in BROKEN:
        assert isinstance(case, dict)
        cases.append({key: value for key, value in case.items() if isinstance(value, (str, int))})
    return cases


@pytest.mark.parametrize("case", broken(), ids=lambda case: str(case["what"]))
def test_a_broken_config_is_answered_with_place_and_suggestion(tmp_path: Path, case: dict[str, str | int]) -> None:
    """S180, G126, G074, G096: each names the right key and line, no traceback, no secret."""
    text = str(case["text"]).replace("«KEY»", KEY).replace("«SHA»", hashlib.sha256(KEY.encode()).hexdigest())
    found = problems(tmp_path, text)
    fitting = [one for one in found if (one.path, one.line) == (case["path"], case["line"])]
    whole = "\n".join(map(str, found))
    assert any(str(case["says"]) in f"{one.message} ({one.hint})" for one in fitting), whole
    assert CANARY not in whole
    assert KEY not in whole
    assert all(one.file == str(tmp_path / "gateway.yaml") for one in found)
    assert "Traceback" not in whole
    assert "pydantic" not in whole


def test_there_are_at_least_sixty_broken_configs() -> None:
    assert len({case["what"] for case in broken()}) == len(broken()) >= 60


def test_all_problems_are_reported_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    found = problems(
        tmp_path,
        """
        listen: {prot: 1}
        servers:
          a: {comand: x}
          b: {command: x}
          B: {command: x}
        clients:
          bot: {key: short}
        policies:
          - {name: p, clients: [bat], allow: [c/x], mode: of}
        state: {url: http://x}
        """,
    )
    assert [(one.line, one.path) for one in found] == [
        (1, "listen.prot"),
        (3, "servers.a.comand"),
        (5, "servers.B"),
        (7, "clients.bot.key"),
        (9, "policies[0].mode"),
        (9, "policies[0].clients[0]"),
        (9, "policies[0].allow[0]"),
        (10, "state.url"),
    ]


def test_a_config_with_only_servers_is_enough(tmp_path: Path) -> None:
    config = loaded(tmp_path, "servers:\n  files:\n    command: npx\n    args: [-y, '8080']\n")
    assert config.config.servers["files"].args == ["-y", "8080"]
    assert config.anonymous
    assert not config.enforcing
    assert config.path == tmp_path / "gateway.yaml"
    assert config.config.state.dir == str(tmp_path / "state")
    assert config.config.audit.dir == str(tmp_path / "audit")


def test_the_example_of_the_documentation_loads() -> None:
    config = load(DOCS / "gateway.example.yaml", {"WIKI_TOKEN": "x"})
    assert list(config.config.servers) == ["files", "wiki"]
    assert config.config.policies[0].hours
    assert not config.anonymous


def test_words_that_older_yaml_takes_for_truth_values_stay_words(tmp_path: Path) -> None:
    config = loaded(
        tmp_path, "servers:\n  a: {command: x, validate: off, text: off, pin: {mode: off}, args: [no, on]}\n"
    )
    server = config.config.servers["a"]
    assert (server.validate_, server.text, server.pin.mode, server.args) == ("off", "off", "off", ["no", "on"])


def test_a_server_with_an_unset_variable_is_off_and_the_rest_is_served(tmp_path: Path) -> None:
    """G125: the reason names field and variable, never a value."""
    config = loaded(
        tmp_path,
        """
        servers:
          wiki:
            url: https://wiki.example.com/mcp
            headers: {Authorization: "Bearer ${WIKI_TOKEN}", X-Other: "${OTHER}"}
          files: {command: x}
        """,
        {"OTHER": CANARY},
    )
    assert config.off == {"wiki": "headers.Authorization: the variable WIKI_TOKEN is not set"}
    assert list(config.config.servers) == ["files"]
    assert CANARY not in repr(config)


def test_a_server_that_is_off_is_still_judged_for_what_is_not_missing(tmp_path: Path) -> None:
    found = problems(tmp_path, "servers:\n  a: {command: '${X}', concurrency: '${N}', qeue: 1}\n")
    assert only(found).path == "servers.a.qeue"


def test_a_selector_may_name_a_server_that_is_off(tmp_path: Path) -> None:
    config = loaded(
        tmp_path, "servers:\n  a: {command: '${X}'}\npolicies:\n  - {name: p, clients: [anonymous], allow: [a/*]}\n"
    )
    assert list(config.off) == ["a"]


def test_variables_are_expanded_in_numbers_and_switches_too(tmp_path: Path) -> None:
    config = loaded(
        tmp_path,
        "listen: {port: '${PORT}', instance_meta: '${META:-false}', drain: '${DRAIN:-5s}'}\n",
        {"PORT": "8181"},
    )
    listen = config.config.listen
    assert (listen.port, listen.instance_meta, listen.drain) == (8181, False, 5.0)


def test_the_digest_changes_with_the_text_and_not_with_the_values(tmp_path: Path) -> None:
    text = "servers:\n  a: {command: x, env: {A: '${A:-b}'}}\n"
    first = loaded(tmp_path, text, {"A": CANARY})
    assert first.digest == loaded(tmp_path, text, {"A": "other"}).digest
    assert first.digest != loaded(tmp_path, text + "# more\n").digest
    assert len(first.digest) == 64


def test_every_file_that_was_read_is_listed(tmp_path: Path) -> None:
    policy = write(tmp_path, "policies:\n  - {name: p, clients: [anonymous]}\n", "policies/p.yaml")
    secret = write(tmp_path, "s3\n", "secret")
    secret.chmod(0o600)
    config = loaded(tmp_path, "policies: [policies/*.yaml]\nservers:\n  a: {command: x, env: {K: '${file:secret}'}}\n")
    assert list(config.sources.files) == [tmp_path / "gateway.yaml", policy, secret]


def test_secrets_are_masked_in_every_repr(tmp_path: Path) -> None:
    """S156."""
    config = loaded(
        tmp_path,
        f"""
        servers:
          a: {{url: "https://u:{CANARY}@x/?k={CANARY}", headers: {{X: {CANARY}}}}}
          b: {{command: x, env: {{K: {CANARY}}}, args: [--token, {CANARY}]}}
        clients: {{bot: {{key: {CANARY}-{"k" * 32}}}}}
        admin: {{metrics_token: {CANARY}-0123456789}}
        state: {{sealing_keys: [{CANARY}-{"k" * 32}]}}
        """,
    )
    assert CANARY not in repr(config)
    assert CANARY not in str(config.config)
    assert config.config.servers["b"].env["K"].get_secret_value() == CANARY


def test_a_key_written_in_the_file_is_noted(tmp_path: Path) -> None:
    assert "clients.bot.key: is written in the file" in loaded(tmp_path, f"clients: {{bot: {{key: {KEY}}}}}\n").notes[0]
    assert loaded(tmp_path, "clients: {bot: {key: '${K}'}}\n", {"K": KEY}).notes == []


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: None, "does not exist"),
        (lambda path: path.mkdir(), "is a directory"),
        (lambda path: os.mkfifo(path), "is not a regular file"),
        (lambda path: path.write_bytes(b"a" * (1024 * 1024 + 1)), "is longer than 1024 KiB"),
        (lambda path: path.symlink_to(path), "is a loop of symbolic links"),
    ],
    ids=["missing", "directory", "pipe", "too long", "loop"],
)
def test_a_file_that_cannot_be_read_is_no_finding_about_its_content(tmp_path: Path, make: object, said: str) -> None:
    path = tmp_path / "gateway.yaml"
    assert callable(make)
    make(path)
    with pytest.raises(Unreadable) as caught:
        load(path, {})
    assert str(caught.value) == f"{path}: {said}"


def test_an_empty_file_is_never_taken_for_an_empty_config(tmp_path: Path) -> None:
    """S185: a truncating editor leaves an empty file for a moment; without policies everything would be open."""
    path = tmp_path / "gateway.yaml"
    for text in ("", "\n", "# nothing\n", "---\n"):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(ConfigError, match="is empty"):
            load(path, {})


def test_a_load_whose_files_change_meanwhile_is_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S185: a policy file swapped by rename between two reads never leads to a mix of old and new."""
    write(tmp_path, "policies:\n  - {name: old, clients: [anonymous]}\n", "p.yaml")
    new = write(tmp_path, "policies:\n  - {name: new, clients: [anonymous]}\n", "p.new")
    path = write(tmp_path, "policies: [p.yaml]\n")
    real = Reading.unchanged
    swapped = threading.Event()

    def swap_first(reading: Reading) -> bool:
        if not swapped.is_set():
            swapped.set()
            new.rename(tmp_path / "p.yaml")
        return real(reading)

    monkeypatch.setattr(Reading, "unchanged", swap_first)
    assert [policy.name for policy in load(path, {}).config.policies] == ["new"]


def test_files_that_never_stand_still_are_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, "servers: {}\n")
    attempts: list[int] = []

    def never(reading: Reading) -> bool:
        attempts.append(1)
        return False

    monkeypatch.setattr(Reading, "unchanged", never)
    with pytest.raises(ConfigError, match="kept changing"):
        load(path, {})
    assert len(attempts) == loader.ATTEMPTS


def test_json_with_comments_and_tabs_is_a_config(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text('{\n\t"servers": {\n\t\t// a server\n\t\t"a": {"command": "x"},\n\t},\n}\n', encoding="utf-8")
    assert list(load(path, {}).config.servers) == ["a"]


def test_problems_of_later_checks_are_found_where_they_were_written(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
        policies:
          - name: first
            clients: [anonymous]
          - name: second
            clients: [anonymous]
            hours: "some day"
        """,
        "policies/p.yaml",
    )
    config = loaded(tmp_path, "listen: {port: 1}\npolicies:\n  - policies/p.yaml\n")
    assert config.positions["policies[second].hours"] == (
        str(tmp_path / "policies/p.yaml"),
        6,
        "policies[1].hours",
    )
    assert config.positions["listen.port"] == (str(tmp_path / "gateway.yaml"), 1, "listen.port")


def test_a_relative_config_path_is_resolved_against_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "etc", dedent("servers:\n  a: {command: ./run, cwd: data}\n"))
    monkeypatch.chdir(tmp_path)
    config = load(Path("etc/gateway.yaml"), {})
    server = config.config.servers["a"]
    assert (server.command, server.cwd) == (str(tmp_path / "etc/run"), str(tmp_path / "etc/data"))
