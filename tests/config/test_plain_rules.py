"""Secrets in the config itself are noted, and refused where a server is held strictly (S150)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.config_files import loaded, only, problems

SECRET = "s3cret-canary-of-thirty-two-chars"
NOTED = "is written in the file: use ${NAME} or ${file:/path}"


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (f"admin: {{metrics_token: {SECRET}}}", "admin.metrics_token"),
        (f"state: {{sealing_keys: [{SECRET}]}}", "state.sealing_keys[0]"),
        (f"audit: {{sinks: ['postgres://me:{SECRET}@db/x']}}", "audit.sinks[0]"),
        (f"state: {{database: 'postgres://me:{SECRET}@db/x', sealing_keys: ['${{PATH}}']}}", "state.database"),
        (f"state: {{url: 'redis://:{SECRET}@cache', sealing_keys: ['${{PATH}}']}}", "state.url"),
        (f"servers: {{a: {{command: x, env: {{API_KEY: {SECRET}}}}}}}", "servers.a.env.API_KEY"),
        (f"servers: {{a: {{url: 'https://h', headers: {{Authorization: Bearer {SECRET}}}}}}}", "headers.Authorization"),
        (
            "servers: {a: {url: 'https://h', auth: {client_credentials: "
            f"{{client_id: me, client_secret: {SECRET}, issuer: 'https://i'}}}}}}}}",
            "servers.a.auth.client_credentials.client_secret",
        ),
    ],
)
def test_a_secret_that_is_written_down_is_noted(tmp_path: Path, text: str, path: str) -> None:
    (note,) = [note for note in loaded(tmp_path, text + "\n", {"PATH": SECRET}).notes if "written in the file" in note]
    assert note.endswith(f"{path}: {NOTED}")
    assert SECRET not in note


@pytest.mark.parametrize(
    "text",
    [
        "servers: {a: {command: x, env: {API_KEY: '${PATH}', LOG_LEVEL: very-verbose, TOKEN: short}}}",
        "servers: {a: {url: 'https://h', headers: {X-Tenant: production-eu}}}",
        "state: {database: 'postgres://me:${PATH}@db/x', sealing_keys: ['${PATH}']}",
        "state: {database: 'postgres://me@db/x?sslmode=verify-full', sealing_keys: ['${PATH}']}",
        "servers: {a: {command: x, pin: {mode: strict}, env: {API_KEY: '${PATH}', LOG_LEVEL: very-verbose}}}",
    ],
)
def test_what_comes_from_elsewhere_or_is_no_secret_is_fine(tmp_path: Path, text: str) -> None:
    assert [note for note in loaded(tmp_path, text + "\n", {"PATH": SECRET}).notes if "written" in note] == []


def test_a_strict_server_takes_none(tmp_path: Path) -> None:
    text = f"servers: {{a: {{command: x, pin: {{mode: strict}}, env: {{API_KEY: {SECRET}}}}}}}\n"
    problem = only(problems(tmp_path, text))
    assert problem.path == "servers.a.env.API_KEY"
    assert SECRET not in str(problem)
