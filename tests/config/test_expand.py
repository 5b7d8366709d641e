from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from gateway.config.expand import Expansion, Source
from gateway.config.places import Tree
from gateway.config.reading import Reading
from gateway.config.shape import is_secret
from tests.kit.config_files import CANARY, loaded, only, problems, write


def expansion(environ: Mapping[str, str], base: Path = Path("/nonexistent"), *, inputs: bool = False) -> Expansion:
    return Expansion(Source(environ, base, Reading(), is_secret, inputs))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("plain", "plain"),
        ("${A}", "one"),
        ("${env:A}", "one"),
        ("x${A}y${B}z", "xoneytwoz"),
        ("${A}${A}", "oneone"),
        ("${NONE:-default}", "default"),
        ("${env:NONE:-default}", "default"),
        ("${EMPTY:-default}", "default"),
        ("${A:-default}", "one"),
        ("${NONE:-}", ""),
        ("${NONE:-a:-b}", "a:-b"),
        ("${NONE:-http://x/$y}", "http://x/$y"),
        ("$${A}", "${A}"),
        ("$$${A}", "$${A}"),
        ("$A", "$A"),
        ("$", "$"),
        ("$$", "$$"),
        ("{A}", "{A}"),
        ("100%", "100%"),
        ("${TRICK}", "${A}"),
        ("^\\s*${A}$", "^\\s*one$"),
    ],
)
def test_every_form_of_an_expansion(text: str, value: str) -> None:
    one = expansion({"A": "one", "B": "two", "EMPTY": "", "TRICK": "${A}"})
    assert one.expand(text) == value
    assert one.failures == []


@pytest.mark.parametrize(
    "text", ["${}", "${A", "${a b}", "${1A}", "${A:+x}", "${A:-${B}}", "${file:}", "${input:x}", "${env:}"]
)
def test_a_form_that_does_not_exist_is_malformed_and_shows_nothing(text: str) -> None:
    one = expansion({"A": CANARY, "B": CANARY})
    assert one.expand(text, ("x",)) in ("", "}")
    assert all(failure.malformed for failure in one.failures)
    assert CANARY not in str(one.failures)
    assert len(one.failures) == 1


def test_an_unset_variable_fails_the_string_and_keeps_the_others() -> None:
    one = expansion({"A": "one"})
    assert one.expand({"x": "${A}", "y": ["${NONE}", "z"], "n": 5, "t": True, "none": None}) == {
        "x": "one",
        "y": ["", "z"],
        "n": 5,
        "t": True,
        "none": None,
    }
    (failure,) = one.failures
    assert (failure.loc, failure.text, failure.malformed) == (("y", 0), "the variable NONE is not set", False)


def test_keys_are_never_expanded() -> None:
    assert expansion({"A": "one"}).expand({"${A}": "x"}) == {"${A}": "x"}


def test_an_empty_variable_is_noted_and_remembered() -> None:
    one = expansion({"A": ""})
    assert one.expand({"x": "${A}", "y": "Bearer ${A}"}) == {"x": "", "y": "Bearer "}
    assert one.emptied == {("x",)}
    assert one.referring == {("x",), ("y",)}
    assert one.notes == [(("x",), "the variable A is set but empty"), (("y",), "the variable A is set but empty")]


@pytest.mark.parametrize(
    ("content", "value"), [("s3", "s3"), ("s3\n", "s3"), ("s3\r\n", "s3"), ("a\nb\n\n", "a\nb\n"), ("", "")]
)
def test_a_file_gives_its_text_without_one_newline(tmp_path: Path, content: str, value: str) -> None:
    (tmp_path / "secret").write_bytes(content.encode())
    assert expansion({}, tmp_path).expand("${file:secret}") == value
    assert expansion({}, Path("/")).expand("${file:" + str(tmp_path / "secret") + "}") == value


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: None, "does not exist"),
        (lambda path: path.mkdir(), "is a directory"),
        (lambda path: path.write_bytes(b"\xff"), "is not UTF-8"),
        (lambda path: path.write_bytes(b"x" * 65537), "is longer than 64 KiB"),
    ],
    ids=["missing", "directory", "binary", "too long"],
)
def test_a_file_that_cannot_be_used_says_why(tmp_path: Path, make: object, said: str) -> None:
    assert callable(make)
    make(tmp_path / "secret")
    one = expansion({}, tmp_path)
    one.expand("${file:secret}", ("x",))
    assert [failure.text for failure in one.failures] == [f"the file secret {said}"]


def test_a_secret_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    """S150."""
    secret = write(tmp_path, f"{CANARY}-{'k' * 32}", "secret")
    secret.chmod(0o644)
    problem = only(problems(tmp_path, "clients: {bot: {key: '${file:secret}'}}\n"))
    assert str(problem).endswith(
        "gateway.yaml:1: clients.bot.key: the file secret may be read by everybody (chmod 600 it: it holds a secret)"
    )
    secret.chmod(0o600)
    client = loaded(tmp_path, "clients: {bot: {key: '${file:secret}'}}\n").config.clients["bot"]
    assert client.key is not None
    assert CANARY in client.key.get_secret_value()


def test_a_server_whose_secret_others_may_read_is_off(tmp_path: Path) -> None:
    """S150."""
    write(tmp_path, CANARY, "secret").chmod(0o640)
    config = loaded(tmp_path, "servers:\n  a: {command: x, env: {TOKEN: '${file:secret}'}}\n")
    assert config.off == {"a": "env.TOKEN: the file secret may be read by its group"}


def test_a_file_that_holds_no_secret_may_be_readable_and_is_noted(tmp_path: Path) -> None:
    write(tmp_path, "verbose\n", "flag").chmod(0o644)
    config = loaded(tmp_path, "servers:\n  a: {command: x, args: ['${file:flag}']}\n")
    assert config.config.servers["a"].args == ["verbose"]
    assert config.notes == [f"{tmp_path}/gateway.yaml:2: servers.a.args[0]: the file flag may be read by everybody"]


def test_expansion_reaches_every_kind_of_string(tmp_path: Path) -> None:
    """G125: the same rules in env, header, url, args and everywhere else."""
    write(
        tmp_path,
        "policies:\n  - {name: p, clients: ['${WHO}'], allow: ['${S}/*', {tools: '${S}/x', when: 'true'}]}\n",
        "p.yaml",
    )
    config = loaded(
        tmp_path,
        """
        listen: {port: "${PORT}", allowed_hosts: ["${HOST}"], tls: {cert: "${DIR}/c.pem", key: "${DIR}/k.pem"}}
        servers:
          a: {command: "${S}", args: ["--x=${S}"], env: {V: "${S}"}, cwd: "${DIR}", timeouts: {call: "${SECS}s"}}
          b: {url: "https://${HOST}/mcp", headers: {X: "v ${S}"}, namespace: "${S}ns", concurrency: "${PORT}"}
        policies: ["${P}.yaml"]
        """,
        {"PORT": "81", "HOST": "h.example", "DIR": "/d", "S": "a", "SECS": "3", "P": "p", "WHO": "anonymous"},
    ).config
    a, b = config.servers["a"], config.servers["b"]
    assert config.listen.tls is not None
    assert (config.listen.port, config.listen.allowed_hosts, config.listen.tls.key) == (81, ["h.example"], "/d/k.pem")
    assert (a.command, a.args, a.env["V"].get_secret_value(), a.cwd, a.timeouts.call) == (
        "a",
        ["--x=a"],
        "a",
        "/d",
        3.0,
    )
    assert b.url is not None
    assert (b.url.get_secret_value(), b.headers["X"].get_secret_value()) == ("https://h.example/mcp", "v a")
    assert (b.namespace, b.concurrency) == ("ans", 81)
    assert config.policies[0].clients == ["anonymous"]
    assert config.policies[0].allow[0] == "a/*"


def test_an_input_is_the_variable_of_its_name_or_of_its_form_for_a_shell() -> None:
    tree: Tree = ["${input:api-key}", "${input:exact}", "${A}"]
    assert expansion({"API_KEY": "k", "exact": "e", "A": "a"}, inputs=True).expand(tree) == ["k", "e", "a"]
    one = expansion({}, inputs=True)
    one.expand("${input:api-key}", ("x",))
    assert (one.failures[0].text, one.failures[0].malformed) == ("the variable API_KEY is not set", False)
