"""A receiver of alerts: a real HTTP server that a test can take down, bring back on its port, and have refuse."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.kit.gateway import Json, free_port


class Receiver:
    """Keeps what it gets; answers with ``statuses`` first, one each, then with 204."""

    def __init__(self) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/hook/secret-path"
        self.got: list[Json] = []
        self.statuses: list[int] = []
        self._server: ThreadingHTTPServer | None = None

    def up(self) -> None:
        """Listen, again on the same port."""
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = receiver.statuses.pop(0) if receiver.statuses else 204
                if status == 204:
                    receiver.got.append(json.loads(body))
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name.
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def down(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def of(self, kind: str) -> list[Json]:
        """Return the alerts of a kind."""
        return [each for each in self.got if each["kind"] == kind]


@contextmanager
def receiving() -> Iterator[Receiver]:
    """Run one for a block."""
    receiver = Receiver()
    receiver.up()
    try:
        yield receiver
    finally:
        receiver.down()
