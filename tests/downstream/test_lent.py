"""What a server was given is taken out of what it says went wrong, and out of nothing else (S151)."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest

from gateway.config.servers import Server
from gateway.downstream.lent import SHORTEST_SECRET, Lent
from gateway.errors import Reason
from gateway.model.outcome import Complete, Failure, InputRequired, Outcome, Started
from gateway.protocol import rawjson
from gateway.protocol.jsonrpc import ErrorObject

SECRET = 'top-secret/"0123~/+'


@pytest.mark.parametrize(
    "server",
    [
        {"command": "x", "env": {"KEY": SECRET}},
        {"command": "x", "args": ["--token", SECRET]},
        {"command": "x", "args": [f"--api-key={SECRET}"]},
        {"url": "https://h/mcp", "headers": {"Authorization": f"Bearer {SECRET}"}},
        {"url": f"https://{quote(SECRET, safe='')}@h/mcp"},
        {"url": f"https://user:{quote(SECRET, safe='')}@h/mcp"},
        {"url": f"https://h/mcp?a=b&key={quote(SECRET, safe='')}"},
        {"openapi": f"https://h/openapi.json?key={quote(SECRET, safe='')}", "url": "https://h"},
    ],
)
def test_it_is_found_wherever_it_was_given_and_however_it_is_written(server: dict[str, object]) -> None:
    lent = Lent.of(Server.model_validate(server))
    for form in (SECRET, quote(SECRET, safe=""), quote(SECRET), json.dumps(SECRET)[1:-1]):
        assert lent.masked(f"bad key {form}!".encode()) == b"bad key ***!", form


def test_arguments_that_are_no_secrets_are_left_as_they_are() -> None:
    words = ["-y", "@modelcontextprotocol/server-filesystem", "/srv/data/2026", "--verbose", "mcp-server-git"]
    lent = Lent.of(Server(command="npx", args=[*words, "k3yOfSomebodyWhoWritesIt"]))
    said = " ".join(words).encode()
    assert lent.masked(said + b" k3yOfSomebodyWhoWritesIt") == said + b" ***"


def test_words_and_paths_are_no_secrets() -> None:
    lent = Lent(["production", "x" * (SHORTEST_SECRET - 1), "/srv/data/notes/of/many"])
    said = b"production " + b"x" * SHORTEST_SECRET + b" /srv/data/notes/of/many"
    assert lent.masked(said) == said


def test_the_longer_of_two_is_taken_first_and_a_token_may_come_later() -> None:
    lent = Lent(["secret-of-the-day"]).also("secret-of-the-day-and-night")
    assert lent.masked(b"secret-of-the-day-and-night, secret-of-the-day") == b"***, ***"


ERROR = ErrorObject(-32000, f"refused {SECRET}", rawjson.raw({"sent": [SECRET]}))


def failed(text: str) -> Complete:
    return Complete({"content": rawjson.raw([{"type": "text", "text": text}]), "isError": rawjson.raw(True)})


def test_errors_of_servers_and_failed_tools_are_masked() -> None:
    lent = Lent([SECRET])
    masked = lent.without(Failure(Reason.PROTOCOL_ERROR, "", error=ERROR))
    assert isinstance(masked, Failure)
    assert masked.error == ErrorObject(-32000, "refused ***", rawjson.raw({"sent": ["***"]}))
    assert lent.without(failed(SECRET)) == failed("***")


@pytest.mark.parametrize(
    "outcome",
    [
        Complete({"content": rawjson.raw([{"type": "text", "text": SECRET}])}),
        Complete({"content": rawjson.raw([SECRET]), "isError": rawjson.raw(False)}),
        failed("nothing of it"),
        Failure(Reason.TIMEOUT, "late"),
        Failure(Reason.PROTOCOL_ERROR, "", error=ErrorObject(-1, "no", None)),
        Started({"task": rawjson.raw({"taskId": SECRET})}),
        InputRequired({"q": rawjson.raw({"text": SECRET})}, SECRET),
    ],
)
def test_everything_else_is_as_the_server_said_it(outcome: Outcome) -> None:
    assert Lent([SECRET]).without(outcome) == outcome
