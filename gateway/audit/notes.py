"""What commands did with the log, left in ``state.dir`` for the one who may write it: the gateway, now or at its start.

So that also who read or checked the log stands in it (S172). Blocking.
"""

from __future__ import annotations

import secrets
import time
from pathlib import Path
from typing import Final

from gateway.protocol import rawjson
from gateway.protocol.rawjson import JsonError, Object
from gateway.state.files import secure_directory, write_atomic

FOLDER: Final = "audit-notes"
PREFIX: Final = "admin.audit_"
"""How the events of acts begin that are about the log itself."""
MAX_NOTES: Final = 1_000
"""Notes that may wait for a gateway; later ones are not left."""
MAX_BYTES: Final = 4_096


def leave(state_dir: Path, record: Object) -> bool:
    """Leave a record; False where that is not possible: the log can be read by who may not write ``state.dir``."""
    folder = state_dir / FOLDER
    try:
        if not state_dir.is_dir():
            return False
        secure_directory(folder)
        if sum(1 for _ in folder.iterdir()) >= MAX_NOTES:
            return False
        write_atomic(folder / f"{time.time_ns():020d}-{secrets.token_hex(4)}.json", rawjson.encode(record))
    except OSError:
        return False
    return True


def collect(state_dir: Path) -> list[Object]:
    """Take the records that were left, oldest first.

    Raises:
        OSError: they cannot be read or removed.
    """
    folder = state_dir / FOLDER
    if not folder.is_dir():
        return []
    found: list[Object] = []
    for path in sorted(folder.glob("*.json"))[:MAX_NOTES]:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES)
        path.unlink()
        try:
            record = rawjson.decode_value(data)
        except JsonError:
            continue
        if isinstance(record, dict):
            found.append(record)
    return found
