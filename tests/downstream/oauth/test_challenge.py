from __future__ import annotations

import time

import pytest

from gateway.downstream.oauth.challenge import MAX_CHALLENGE, MAX_SCOPES, Challenge, parse, scopes

METADATA = "https://a.example/.well-known/oauth-protected-resource"


@pytest.mark.parametrize(
    ("header", "found"),
    [
        (f'Bearer resource_metadata="{METADATA}"', Challenge(METADATA)),
        (f"bearer resource_metadata={METADATA}", Challenge(METADATA)),
        ('Bearer error="insufficient_scope", scope="a b"', Challenge("", ("a", "b"), "insufficient_scope")),
        ('Basic realm="x", Bearer scope="a"', Challenge("", ("a",))),
        ("Negotiate abc==, Bearer scope=a", Challenge("", ("a",))),
        ('Bearer realm="a \\"b\\" c", error=invalid_token', Challenge("", (), "invalid_token")),
        ('Bearer scope="a" , scope="b"', Challenge("", ("a",))),
        ("Bearer", Challenge()),
        ('DPoP scope="a"', Challenge()),
        ("", Challenge()),
        ('Bearer scope="unfinished', Challenge()),
    ],
)
def test_the_bearer_challenge_is_found_among_others(header: str, found: Challenge) -> None:
    assert parse([header]) == found


def test_challenges_of_several_headers_are_taken_together() -> None:
    assert parse(['Basic realm="x"', 'Bearer scope="a"']).scopes == ("a",)


def test_what_is_no_scope_is_left_out_and_each_counts_once() -> None:
    assert scopes('a b a "quoted" c\\d') == ("a", "b")
    assert len(scopes(" ".join(f"s{number}" for number in range(500)))) == MAX_SCOPES


def test_an_endless_header_is_read_in_bounded_time_and_length() -> None:
    began = time.process_time()
    for text in (
        "Bearer " + "a=b, " * 100_000,
        "Bearer " + "=" * 500_000,
        'Bearer x="' + "\\" * 500_000,
        "," * 500_000,
    ):
        parse([text])
    assert time.process_time() - began < 1
    assert parse(["Bearer " + "x" * MAX_CHALLENGE + ' scope="late"']).scopes == ()
