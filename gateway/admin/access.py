"""Who may read and act on the admin listener. A client's key is never good for anything here."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass

from gateway.config.root import AdminUser
from gateway.config.types import is_loopback

_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?")
_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})


class Refused(Exception):
    """A request the admin listener does not serve; ``status`` is the HTTP status to answer with."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


@dataclass(frozen=True, slots=True)
class Access:
    """The rules of one listener.

    Reading is open on a loopback bind; elsewhere it needs a user's token. Acts always need one, with the role.
    """

    host: str
    users: Mapping[str, AdminUser]
    metrics_token: str = ""

    @property
    def loopback(self) -> bool:
        return is_loopback(self.host)

    def check_host(self, host: str, origin: str | None) -> None:
        """Stop DNS rebinding and cross-site requests.

        Raises:
            Refused: a Host that is none or not this listener's, or any Origin that is not its own.
        """
        match = _HOST.fullmatch(host)
        if match is None:
            raise Refused(400, "Host is not host[:port]")
        if self.loopback and match[1].lower() not in _LOOPBACK_NAMES:
            raise Refused(421, "Host not allowed")
        if origin is not None and origin not in (f"http://{host}", f"https://{host}"):
            raise Refused(403, "Origin not allowed")

    def reader(self, authorization: str | None) -> str:
        """Return the name of who reads.

        Raises:
            Refused: a token is needed, or the given one is nobody's.
        """
        if authorization is None and self.loopback:
            return "local"
        return self.user(authorization, "view")

    def scraper(self, authorization: str | None) -> None:
        """Let a scraper read the metrics, by its own token or as a reader.

        Raises:
            Refused: neither.
        """
        token = _token(authorization)
        if self.metrics_token and token and hmac.compare_digest(token.encode(), self.metrics_token.encode()):
            return
        if self.metrics_token and authorization is None:
            raise Refused(401, "A token is needed")
        self.reader(authorization)

    def user(self, authorization: str | None, role: str) -> str:
        """Return the name of the user whose token this is.

        Raises:
            Refused: nobody's token, or a user without the role.
        """
        token = _token(authorization)
        if token is None:
            raise Refused(401, "A token is needed")
        digest = hashlib.sha256(token.encode()).hexdigest()
        found = [name for name, user in self.users.items() if hmac.compare_digest(user.token_sha256, digest)]
        if not found:
            raise Refused(401, "Unknown token")
        if role != "view" and role not in self.users[found[0]].roles:
            raise Refused(403, f"Role {role} is needed")
        return found[0]


def _token(authorization: str | None) -> str | None:
    if authorization is None:
        return None
    scheme, _, token = authorization.partition(" ")
    return token.strip() if scheme.lower() == "bearer" and token.strip() else None
