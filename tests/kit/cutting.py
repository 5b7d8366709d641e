"""A relay of bytes on loopback that cuts a connection when a given text has passed to the client, a few times."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

MAX_CONNECTIONS = 100
PIECE = 65536


@dataclass
class Cutter:
    """Cuts the connection on which ``text`` comes from the server, ``times`` times. ``cuts`` counts."""

    target: int
    text: bytes
    times: int = 1
    cuts: int = 0
    port: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def relay(self, client: socket.socket) -> None:
        """Pass bytes both ways until either side ends or the connection is cut."""
        with client, socket.create_connection(("127.0.0.1", self.target)) as server:
            other = {client: server, server: client}
            while True:
                readable, _, _ = select.select([client, server], [], [], 20)
                for source in readable:
                    try:
                        data = source.recv(PIECE)
                        if not data:
                            return
                        other[source].sendall(data if source is server else data.replace(*self._hosts))
                    except OSError:
                        return
                    if source is server and self.text in data and self._may_cut():
                        return
                if not readable:
                    return

    @property
    def _hosts(self) -> tuple[bytes, bytes]:
        """The host that clients name, and the one that the server knows itself by."""
        return b"127.0.0.1:%d" % self.port, b"127.0.0.1:%d" % self.target

    def _may_cut(self) -> bool:
        with self.lock:
            if self.cuts == self.times:
                return False
            self.cuts += 1
            return True


@contextmanager
def cutting(target: int, text: bytes) -> Iterator[Cutter]:
    """Relay to a loopback port for a block."""
    cutter = Cutter(target, text)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        cutter.port = listener.getsockname()[1]
        threads: list[threading.Thread] = []

        def accept() -> None:
            for _ in range(MAX_CONNECTIONS):
                try:
                    client, _ = listener.accept()
                except OSError:
                    return
                thread = threading.Thread(target=cutter.relay, args=(client,), daemon=True)
                threads.append(thread)
                thread.start()

        accepting = threading.Thread(target=accept, daemon=True)
        accepting.start()
        try:
            yield cutter
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            accepting.join(5)
