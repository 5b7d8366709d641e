from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.config_files import loaded, only, problems, write


@pytest.mark.parametrize("name", ["a", "My Wiki", "0-x_y.z", "a" * 64])
def test_names_of_servers(tmp_path: Path, name: str) -> None:
    assert name in loaded(tmp_path, f"servers: {{'{name}': {{command: x}}}}\n").config.servers


@pytest.mark.parametrize("name", ["", " a", "-a", "a/b", "a*", "é", "a" * 65, "a\\tb"])
def test_names_no_server_may_have(tmp_path: Path, name: str) -> None:
    """S65."""
    problem = only(problems(tmp_path, f'servers: {{"{name}": {{command: x}}}}\n'))
    assert problem.message == "cannot be a server's name"


def test_servers_that_differ_only_in_their_writing_are_refused(tmp_path: Path) -> None:
    """S65: equal slugs, also with namespaces of their own and when one of them is off."""
    text = "servers:\n  a b: {command: x, namespace: one}\n  A-B: {command: '${UNSET}', namespace: two}\n"
    problem = only(problems(tmp_path, text))
    assert (problem.path, problem.line) == ("servers.A-B", 3)
    assert problem.message == "has the same short name as the server 'a b': a-b"


def test_several_servers_may_expose_bare_names(tmp_path: Path) -> None:
    text = "servers:\n  a: {command: x, namespace: ''}\n  b: {command: y, namespace: ''}\n"
    assert len(loaded(tmp_path, text).config.servers) == 2


def test_a_namespace_may_not_be_the_slug_of_another_server(tmp_path: Path) -> None:
    problem = only(problems(tmp_path, "servers:\n  a: {command: x, namespace: b}\n  b: {command: y}\n"))
    assert (problem.path, problem.hint) == ("servers.b", "choose another one")


def test_namespaces_that_look_nested_are_noted(tmp_path: Path) -> None:
    """G071: routing never splits a name, but people do."""
    config = loaded(tmp_path, "servers:\n  db: {command: x}\n  admin: {command: y, namespace: db__admin}\n")
    assert config.notes == [
        f"{tmp_path}/gateway.yaml:3: servers.admin: names of 'admin' look as if they were of 'db'; "
        "routing tells them apart"
    ]


def test_commands_and_their_words_are_taken_literally(tmp_path: Path) -> None:
    """S103, S104: an argument vector, never a shell line."""
    words = ["$(touch /x/p)", "; id", "`id`", "a b", "*"]
    config = loaded(tmp_path, f"servers: {{a: {{command: /usr/bin/x, args: {words!r}}}}}\n")
    assert config.config.servers["a"].args == words


@pytest.mark.parametrize("command", ["npx -y x", "a | b", "a && b", "a; b"])
def test_a_shell_line_as_a_command_is_refused(tmp_path: Path, command: str) -> None:
    assert only(problems(tmp_path, f"servers: {{a: {{command: '{command}'}}}}\n")).hint == "put the arguments into args"


@pytest.mark.parametrize(
    ("entry", "path"),
    [
        ("command: ''", "servers.a.command"),
        ('command: "x\\0y"', "servers.a.command"),
        ('command: x, args: [y, "\\0"]', "servers.a.args[1]"),
        ('command: x, env: {A: "\\0"}', "servers.a.env.A"),
        ('command: x, env: {"": b}', 'servers.a.env.""'),
        ('command: x, cwd: "a\\0"', "servers.a.cwd"),
        ('command: x, sandbox: ["\\0"]', "servers.a.sandbox[0]"),
    ],
)
def test_what_no_process_can_be_given_is_refused(tmp_path: Path, entry: str, path: str) -> None:
    assert only(problems(tmp_path, f"servers: {{a: {{{entry}}}}}\n")).path == path


@pytest.mark.parametrize(
    "name", ["Content-Length", "transfer-encoding", "MCP-Session", "Mcp-Anything", "Accept", "Connection"]
)
def test_headers_that_frame_our_own_requests_are_refused(tmp_path: Path, name: str) -> None:
    text = f"servers: {{a: {{url: 'http://x', headers: {{{name}: v}}}}}}\n"
    assert "the gateway sets itself" in only(problems(tmp_path, text)).message


@pytest.mark.parametrize("value", ["a\\r\\nB: c", "a\\0", "\\u007f", "\\u20ac"])
def test_header_values_that_cannot_be_sent_are_refused(tmp_path: Path, value: str) -> None:
    text = f"servers: {{a: {{url: 'http://x', headers: {{A: \"{value}\"}}}}}}\n"
    assert "cannot be sent" in only(problems(tmp_path, text)).message


@pytest.mark.parametrize(
    ("entry", "key"),
    [
        ("command: x, transport: http", "transport"),
        ("command: x, tls: {ca: y}", "tls"),
        ("command: x, redirects: none", "redirects"),
        ("url: 'http://x', cwd: y", "cwd"),
        ("url: 'http://x', env: {A: b}", "env"),
        ("url: 'http://x', limits: {open_files: 64}", "limits"),
    ],
)
def test_a_key_that_would_do_nothing_is_refused(tmp_path: Path, entry: str, key: str) -> None:
    """G126."""
    assert only(problems(tmp_path, f"servers: {{a: {{{entry}}}}}\n")).path == f"servers.a.{key}"


def test_verification_may_be_switched_off_on_loopback_only(tmp_path: Path) -> None:
    text = "servers: {a: {url: 'https://127.0.0.1:8443/', tls: {insecure: true}}}\n"
    assert loaded(tmp_path, text).config.servers["a"].tls.insecure
    assert only(problems(tmp_path, text.replace("127.0.0.1", "10.0.0.1"))).path == "servers.a.tls.insecure"


@pytest.mark.parametrize(("protocol", "refused"), [("auto", False), ("legacy", False), ("modern", True)])
def test_the_oldest_transport_has_no_modern_protocol(tmp_path: Path, protocol: str, refused: bool) -> None:
    text = f"servers: {{a: {{url: 'http://x', transport: sse, protocol: {protocol}}}}}\n"
    if refused:
        assert only(problems(tmp_path, text)).message == "is older than the modern protocol"
    else:
        assert loaded(tmp_path, text).config.servers["a"].transport == "sse"


API = "openapi: 'http://127.0.0.1:1/openapi.json'"


@pytest.mark.parametrize(
    "entry",
    ["asks: [roots]", "park: false", "protocol: modern", "transport: http", "command: x", "env: {A: b}", "cwd: x"],
)
def test_what_only_a_server_that_speaks_mcp_can_do_is_refused_of_an_api(tmp_path: Path, entry: str) -> None:
    problem = only(problems(tmp_path, f"servers: {{a: {{{API}, {entry}}}}}\n"))
    if entry.startswith("command"):
        assert "found command and openapi" in problem.message
    else:
        assert problem.path == f"servers.a.{entry.partition(':')[0]}"
        assert problem.message == "means nothing for a server with openapi"


def test_everything_else_may_be_said_of_an_api(tmp_path: Path) -> None:
    entries = (
        API,
        "url: 'http://127.0.0.1:1/v1?key=k', headers: {X-Key: k}, redirects: none, namespace: n, isolation: principal",
        "max_instances: 2, tools: {include: [a]}, timeouts: {call: 5s}, concurrency: 2, queue: 1, max_result: 1MiB",
        "instructions: forward, idempotent: [a], validate: warn, text: strip, allow_networks: [10.0.0.0/8]",
        "results: {secrets: redact}, pin: {mode: strict, files: [gateway.yaml]}",
    )
    text = f"servers: {{a: {{{', '.join(entries)}}}}}\n"
    assert loaded(tmp_path, text).config.servers["a"].kind == "openapi"


def test_a_token_for_an_api_needs_the_address_that_it_is_for(tmp_path: Path) -> None:
    auth = "auth: {client_credentials: {client_id: c, client_secret: s, token_url: 'https://as.example/token'}}"
    problem = only(problems(tmp_path, f"servers: {{a: {{{API}, {auth}}}}}\n"))
    assert (problem.path, problem.message[:9]) == ("servers.a.auth", "needs url")
    assert loaded(tmp_path, f"servers: {{a: {{{API}, {auth}, url: 'https://api.example'}}}}\n").config.servers


def test_what_is_sent_with_a_file_needs_the_address_that_it_is_for(tmp_path: Path) -> None:
    """Whoever can write the file must not be able to choose where a key goes."""
    write(tmp_path, "openapi: 3.0.0\nservers: [{url: 'http://127.0.0.1:1'}]\n", "api.yaml")
    file = "openapi: api.yaml"
    problem = only(problems(tmp_path, f"servers: {{a: {{{file}, headers: {{X-Key: k}}}}}}\n"))
    assert (problem.path, problem.message[:9]) == ("servers.a.headers", "needs url")
    for fine in (file, f"{file}, url: 'http://127.0.0.1:1', headers: {{X-Key: k}}", f"{API}, headers: {{X-Key: k}}"):
        assert loaded(tmp_path, f"servers: {{a: {{{fine}}}}}\n").config.servers


def test_verification_of_an_api_may_be_switched_off_on_loopback_only(tmp_path: Path) -> None:
    text = "servers: {a: {openapi: 'https://127.0.0.1:1/o.json', tls: {insecure: true}}}\n"
    assert loaded(tmp_path, text).config.servers["a"].tls.insecure
    for bad in (text.replace("127.0.0.1", "10.0.0.1"), text.replace("tls:", "url: 'https://10.0.0.1', tls:")):
        assert only(problems(tmp_path, bad)).path == "servers.a.tls.insecure"
