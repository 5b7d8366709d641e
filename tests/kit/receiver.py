"""A webhook's receiver on loopback, in a thread: keeps what is posted, and can be taken down and brought up again."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.kit.gateway import Json


class Receiver:
    """Keeps the JSON objects that were posted, in order. Down, it refuses connections on its port."""

    def __init__(self) -> None:
        self.got: list[Json] = []
        self.statuses: list[int] = []
        """The next answers, 200 after them; what is refused is not kept."""
        self._server: ThreadingHTTPServer | None = None
        self._port = 0
        self.up()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/secret-path"

    def of(self, kind: str) -> list[Json]:
        """Return those of one kind."""
        return [each for each in self.got if each.get("kind") == kind]

    def up(self) -> None:
        """Listen, on the same port as before."""
        got, statuses = self.got, self.statuses_to_come

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                status = statuses()
                if status == 200:
                    got.append(body)
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", self._port), Handler)
        self._port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def statuses_to_come(self) -> int:
        """Return the next answer."""
        return self.statuses.pop(0) if self.statuses else 200

    def down(self) -> None:
        """Stop listening."""
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()


@contextmanager
def receiving() -> Iterator[Receiver]:
    """Receive while the block runs."""
    receiver = Receiver()
    yield receiver
    receiver.down()
