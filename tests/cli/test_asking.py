"""One request to a server on this machine: what is sent, and what comes of every way not to answer."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gateway.cli.asking import NoAnswer, Request, address_of, send, url_of
from gateway.config.root import Admin
from tests.kit.gateway import free_port


@contextmanager
def answering(answer: bytes) -> Iterator[tuple[Admin, list[bytes]]]:
    """Answer one connection with these bytes and close it; yields what arrived."""
    arrived: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(5)

        def serve() -> None:
            peer, _ = listener.accept()
            with peer:
                peer.settimeout(5)
                arrived.append(peer.recv(65536))
                peer.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield Admin(port=listener.getsockname()[1]), arrived
        thread.join(5)


def test_a_question_is_a_get_with_its_query_and_token() -> None:
    with answering(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}") as (admin, arrived):
        assert send(admin, Request("/tools", 5, {"as": "a b&c"}, token="secret")) == (200, b"{}")
    (head,) = arrived
    assert head.startswith(b"GET /tools?as=a+b%26c HTTP/1.1\r\n")
    assert b"\r\nAuthorization: Bearer secret\r\n" in head


def test_one_with_a_body_is_a_post() -> None:
    with answering(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n") as (admin, arrived):
        assert send(admin, Request("/call", 5, body=b'{"x":1}')) == (403, b"")
    (head,) = arrived
    assert head.startswith(b"POST /call HTTP/1.1\r\n")
    assert b"\r\nContent-Type: application/json\r\n" in head
    assert b"Authorization" not in head


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"", "RemoteDisconnected"),
        (b"SSH-2.0-x\r\n", "BadStatusLine"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx", "IncompleteRead"),
    ],
)
def test_what_is_no_answer_is_named(answer: bytes, why: str) -> None:
    with answering(answer) as (admin, _), pytest.raises(NoAnswer, match=why):
        send(admin, Request("/status", 5))


def test_nobody_there_needs_no_word_and_silence_ends_in_time() -> None:
    with pytest.raises(NoAnswer, match=r"^$"):
        send(Admin(port=free_port()), Request("/status", 5))
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(NoAnswer, match="TimeoutError"):
        send(Admin(port=silent.getsockname()[1]), Request("/healthz", 0.05))


def test_a_listener_on_every_address_is_asked_on_loopback() -> None:
    assert address_of(Admin(host="0.0.0.0", port=1)) == ("127.0.0.1", 1)
    assert url_of(Admin(host="::", port=1)) == "http://[::1]:1"
