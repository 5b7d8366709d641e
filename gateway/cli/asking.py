"""One request to the admin listener of a gateway, and its answer.

Blocks, and is made of the standard library alone: a client with an event loop takes longer to be loaded than the
gateway takes to answer.
"""

from __future__ import annotations

import http.client
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlencode

from gateway.config.root import Admin

CONNECT = 5.0
"""Seconds that connecting may take; whatever answers is on this machine or in its pod."""


class NoAnswer(Exception):
    """Nobody listens there, or nothing came back that is HTTP; the text says why where that is not plain."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is sent; with a ``body`` it is a POST. The answer may take ``patience`` seconds to begin, or to go on."""

    path: str
    patience: float
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    token: str = ""


def address_of(admin: Admin) -> tuple[str, int]:
    """Return where the admin listener of a config is asked from its own machine."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(admin.host, admin.host), admin.port  # noqa: S104 - what to dial instead.


def url_of(admin: Admin) -> str:
    """Return the same for people."""
    host, port = address_of(admin)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def send(admin: Admin, request: Request) -> tuple[int, bytes]:
    """Send it and return status and body.

    Raises:
        NoAnswer: there is none.
    """
    host, port = address_of(admin)
    connection = http.client.HTTPConnection(host, port, timeout=min(CONNECT, request.patience))
    headers = {"Authorization": f"Bearer {request.token}"} if request.token else {}
    if request.body is not None:
        headers["Content-Type"] = "application/json"
    path = request.path + (f"?{urlencode(request.query)}" if request.query else "")
    try:
        connection.connect()
        connection.sock.settimeout(request.patience)
        connection.request("GET" if request.body is None else "POST", path, request.body, headers)
        response = connection.getresponse()
        return response.status, response.read()
    except (ConnectionRefusedError, http.client.HTTPException, OSError, ValueError) as error:
        raise NoAnswer("" if isinstance(error, ConnectionRefusedError) else type(error).__name__) from None
    finally:
        connection.close()
