"""Values that look like secrets are found by their forms; ordinary text is left alone (S148, S168)."""

from __future__ import annotations

import time

import pytest

from gateway.text import secrets
from gateway.text.pieces import pieces

# Put together here, so that no scanner takes the test's own text for a leak.
BODY = "Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4zAb3dEf6hIj9kLm2nOp5qRs8tUv1wXy4z"
SAMPLES = {
    "aws_key": "AK" + "IAIOSFODNN7EXAMPLE",
    "github_token": "gh" + "p_" + BODY[:36],
    "gitlab_token": "gl" + "pat-" + BODY[:20],
    "slack_token": "xo" + "xb-123456789012-" + BODY[:24],
    "google_key": "AI" + "za" + BODY[:35],
    "stripe_key": "sk" + "_live_" + BODY[:24],
    "model_key": "sk" + "-ant-" + BODY[:40],
    "package_token": "np" + "m_" + BODY[:36],
    "service_token": "SG" + "." + BODY[:22] + "." + BODY[:43],
    "gateway_key": "mcp" + "gw_abcd1234_" + BODY[:43],
    "jwt": "ey" + "JhbGciOiJIUzI1NiJ9.ey" + "JzdWIiOiIxMjM0NSJ9." + BODY[:30],
    "private_key": "-----BEGIN " + "PRIVATE KEY-----\nMIIE\nabc=\n-----END PRIVATE KEY-----",
    "url_password": "alice:hunter2",
    "bearer": "Bearer " + BODY[:30],
    "assigned": "password = hunter2hunter2",
}


def test_there_is_a_sample_of_every_kind() -> None:
    assert set(SAMPLES) == set(secrets.KINDS)


@pytest.mark.parametrize("kind", SAMPLES)
def test_each_kind_is_found_and_redacted(kind: str) -> None:
    sample = SAMPLES[kind]
    text = f"before https://{sample}@host/ after" if kind == "url_password" else f"before {sample} after"
    assert secrets.find(text) == (kind,)
    redacted = secrets.redact(text)
    assert sample not in redacted
    assert f"[redacted: {kind}]" in redacted
    assert redacted.startswith("before ")
    assert redacted.rstrip().endswith("after")


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ('{"password": "hunter2hunter2", "n": 1}', '{"password": "[redacted: assigned]", "n": 1}'),
        ("api_key=abcdefgh1234; next", "api_key=[redacted: assigned]; next"),
    ],
)
def test_what_names_a_secret_stays_and_so_does_the_form_of_the_text(text: str, after: str) -> None:
    assert secrets.find(text) == ("assigned",)
    assert secrets.redact(text) == after


@pytest.mark.parametrize(
    "text", ["eyJ-", "eyJaaaaaaaaa.eyJ-", "SG.a", "-----BEGIN A ", "://a:", "bearer ", "password "]
)
def test_a_text_of_nothing_but_beginnings_takes_little_time(text: str) -> None:
    """S148: a search holds everybody up; some of these took seconds."""
    started = time.process_time()
    for part in pieces(text * 10_000):
        secrets.redact(part)
    assert time.process_time() - started < 1


@pytest.mark.parametrize(
    "text",
    [
        "the token count is 5, the secret of good code is care",
        "https://example.com/a:b@c and user@example.com",
        "git commit 3f785adf0b8c4d2e9f1a7b6c5d4e3f2a1b0c9d8e",
        "550e8400-e29b-41d4-a716-446655440000",
        "bearer of news; a skill; sk-learn; npm_config; eyJ",
        "password: ",
        "def api_key(self) -> str:",
    ],
)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert secrets.find(text) == ()
    assert secrets.redact(text) == text


@pytest.mark.parametrize(
    "name", ["password", "apiKey", "api_key", "userToken", "otp", "client_secret", "Authorization"]
)
def test_names_of_fields_with_secrets_are_known(name: str) -> None:
    assert secrets.is_secret_name(name)


@pytest.mark.parametrize("name", ["author", "spinner", "path", "tokenizer", "opinion", "passport_country"])
def test_other_names_are_not(name: str) -> None:
    assert not secrets.is_secret_name(name)
