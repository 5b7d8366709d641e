"""What tells one running gateway from every other, an earlier run of the same one included."""

from __future__ import annotations

import re
import secrets
from typing import Final

_ID: Final = re.compile(r"[0-9a-f]{12}")


def new_replica_id() -> str:
    """Mint the id of this process: 12 hex digits, which are no secret."""
    return secrets.token_hex(6)


def is_replica_id(text: str) -> bool:
    """Tell whether a text has the form of such an id."""
    return _ID.fullmatch(text) is not None
