"""Who calls, as proven by ``auth``. ``clientInfo`` never counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gateway.protocol.rawjson import Value

ANONYMOUS_ID: Final = "anonymous"


@dataclass(frozen=True, slots=True)
class Principal:
    """The authenticated caller.

    ``id`` is ``key:NAME``, ``sub:ISSUER/SUB``, ``client:ISSUER/CLIENT_ID``, ``cert:SAN`` or ``anonymous``.
    ``label`` is the configured client's name or the issuer's alias: safe as a metric label.
    ``credential`` names the credential used (a key's short id) and is no secret. ``expires`` is when it ends, in
    seconds since the epoch, None where it says nothing of that; ``terms`` names the settings it was accepted under.
    """

    id: str
    kind: str
    label: str
    groups: frozenset[str] = frozenset()
    scopes: frozenset[str] = frozenset()
    claims: Mapping[str, Value] = field(default_factory=dict)
    credential: str = ""
    expires: float | None = None
    terms: str = ""
    token: str = field(default="", repr=False, compare=False)
    """The caller's own token where a server needs one in exchange for it: sent to that token endpoint alone (S48)."""

    @property
    def is_anonymous(self) -> bool:
        return self.id == ANONYMOUS_ID


ANONYMOUS: Final = Principal(ANONYMOUS_ID, "anonymous", ANONYMOUS_ID)
