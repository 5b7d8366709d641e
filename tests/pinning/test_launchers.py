"""Programs that run others, and the words that name something that can change under its name."""

from __future__ import annotations

import pytest

from gateway.pinning.launchers import is_interpreter, mutable


@pytest.mark.parametrize(
    "path", ["/usr/bin/python3.11", "/opt/node", "/bin/sh", "/bin/bash", "uvx", "/usr/bin/npx", "/usr/bin/docker"]
)
def test_known_interpreters_and_launchers(path: str) -> None:
    assert is_interpreter(path)


@pytest.mark.parametrize("path", ["/usr/bin/mcp-server", "/opt/nodejs-server", "/usr/bin/pythonic", "", "/bin/shx"])
def test_any_other_program_is_the_server_itself(path: str) -> None:
    assert not is_interpreter(path)


@pytest.mark.parametrize(
    ("words", "loose"),
    [
        ("npx -y some-server", "some-server"),
        ("npx -y @scope/server", "@scope/server"),
        ("npx -y @scope/server@latest", "@scope/server@latest"),
        ("npx -y server@^1.2.3", "server@^1.2.3"),
        ("npx -y server@1.2", "server@1.2"),
        ("npx -y --package=server run", "server"),
        ("/usr/bin/npx -p server@1.0.0 -p other run", "other"),
        ("npm exec server", "server"),
        ("pnpm dlx server", "server"),
        ("bunx server", "server"),
        ("uvx server", "server"),
        ("uvx --from server thing", "server"),
        ("uvx git+https://example.com/x", "git+https://example.com/x"),
        ("uvx server@latest", "server@latest"),
        ("uv tool run server", "server"),
        ("pipx run server", "server"),
        ("docker run -i --rm image:latest", "image:latest"),
        ("docker run -i -e TOKEN image", "image"),
        ("podman run image@sha256:short", "image@sha256:short"),
    ],
)
def test_what_can_change_is_named(words: str, loose: str) -> None:
    """S134."""
    assert mutable(words.split()) == loose


@pytest.mark.parametrize(
    "words",
    [
        "npx -y server@1.2.3 --flag x",
        "npx -y @scope/server@2026.8.31 /srv",
        "npx --package=server@1.2.3 run",
        "uvx server==1.2.3",
        "uvx server@1.2.3",
        "uvx --from server[extra]==1.2 thing",
        "uvx --python 3.12 server==1",
        "npx ./local",
        f"docker run -i --rm -e TOKEN image@sha256:{'a' * 64}",
        "docker exec container server",
        "python -m server",
        "/opt/server",
        "npx",
    ],
)
def test_exact_versions_and_local_programs_are_fine(words: str) -> None:
    assert mutable(words.split()) == ""


def test_nothing_names_nothing() -> None:
    assert mutable([]) == ""
