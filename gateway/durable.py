"""Opens what must never expire where the config says it is, and follows what other replicas change there.

The key that pins are keyed with is one of these things: replicas that digest with different keys would never agree.
What an earlier gateway kept in ``state.dir`` moves along once, when there is nothing in the shared place yet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final, TypeAlias

from gateway.approvals.file import FILE, ApprovalFile
from gateway.audit import events
from gateway.catalog.keep import CATALOG
from gateway.config.databases import is_database, shared_directory
from gateway.config.root import LoadedConfig
from gateway.downstream.oauth.vault import CREDENTIALS
from gateway.errors import ConfigError, Problem
from gateway.pinning.pins import PIN_FILE, Pins
from gateway.protocol.rawjson import Object
from gateway.state.documents import ABSENT, Conflict, Documents
from gateway.state.files import read_or_create_key, secure_directory
from gateway.state.folder import FolderDocuments
from gateway.state.postgres import PostgresDocuments
from gateway.state.sealing import Sealer, SealError
from gateway.telemetry.logs import get_logger
from gateway.telemetry.metrics import Metrics

_log = get_logger("database")

FINGERPRINT_KEY: Final = "fingerprint.key"
"""The file in ``state.dir`` of a gateway that shares nothing."""
KEY_BYTES: Final = 32
KEY: Final = "fingerprint.sealed"
IMPORTED: Final = "imported"
"""The document that says that ``state.dir`` was looked at; removing others does not bring old ones back."""
LOCAL_SEALING_KEY: Final = "sealing.key"
_PURPOSE: Final = "fingerprint-key"
_CONTEXT: Final = b"shared"
TRIES: Final = 5
PAUSE: Final = 1.0
"""How often something is read where that fails, and seconds in between; what is not reachable at all is told of."""
Act: TypeAlias = Callable[[Callable[[str], bool]], Awaitable[bool]]
"""Reads again what others may have replaced, and acts on it; is given what tells whether a document of a name may be
another one. Never raises for what cannot be read: then it tells so, and is asked again."""


class Durable:
    """The documents of one gateway, and the fingerprint key. Opening blocks; it is done once, at the start."""

    def __init__(
        self, loaded: LoadedConfig, state: Path, sealer: Sealer, write: Callable[[Object], None], metrics: Metrics
    ) -> None:
        """Open the documents; ``write`` takes audit records that nobody waits for.

        Raises:
            ConfigError: they cannot be reached, or the key in them cannot be used.
        """
        self._write = write
        self._metrics = metrics
        self._healthy = True
        self.documents = opened(loaded, state)
        try:
            self.key = _key(self.documents, state, sealer)
        except ConfigError:
            self.documents.close()
            raise
        metrics.database_up.set(1)

    async def follow(self, acts: Mapping[str, Act], alert: Callable[[str, Object], None]) -> None:
        """Act on what others change until cancelled; each act is for the documents whose names begin with its key."""
        async for change in self.documents.changes():
            is_back = change.reachable and (change.anew or not self._healthy)
            if change.reachable != self._healthy:
                self._stands(reachable=change.reachable)
                if not change.reachable:
                    alert("database_unreachable", {"name": self.documents.health().kind})
            if change.reachable:
                # After an outage anything may have changed, and something may wait to be written.
                changed = _anything if is_back else change.names.__contains__
                for prefix, act in acts.items():
                    if is_back or any(name.startswith(prefix) for name in change.names):
                        await self._act(act, changed)

    async def _act(self, act: Act, changed: Callable[[str], bool]) -> None:
        """Have something read: a connection may break under it, and nobody would tell of the same change again."""
        for _ in range(TRIES):
            if await act(changed) or not self.documents.health().reachable:
                return
            await asyncio.sleep(PAUSE)

    def _stands(self, *, reachable: bool) -> None:
        """Say that the documents cannot be reached any more, or that they can again."""
        self._healthy = reachable
        self._metrics.database_up.set(1 if reachable else 0)
        self._write(events.gateway_event("database.recovered" if reachable else "database.unreachable", {}))
        if reachable:
            _log.info("database_recovered")
        else:
            _log.error("database_unreachable", reason=self.documents.health().reason)

    def status(self) -> Object:
        """Say where documents are kept, and whether they can be reached."""
        health = self.documents.health()
        return {
            "kind": health.kind,
            "reachable": health.reachable,
            "since": health.since,
            "reason": health.reason or None,
        }


def _anything(name: str) -> bool:
    return True


def opened(loaded: LoadedConfig, state: Path) -> Documents:
    """Open the documents that a config names.

    Raises:
        ConfigError: they cannot be reached.
    """
    where = loaded.config.state.database
    try:
        if is_database(where):
            return PostgresDocuments(where.get_secret_value())
    except ConfigError as error:
        raise ConfigError([loaded.locate(problem) for problem in error.problems]) from None
    directory = shared_directory(where)
    if directory:
        return FolderDocuments(secure_directory(Path(directory)), shared=True)
    return FolderDocuments(state)


def _key(documents: Documents, state: Path, sealer: Sealer) -> bytes:
    if not documents.shared:
        return read_or_create_key(state / FINGERPRINT_KEY, KEY_BYTES)
    try:
        key = _shared_key(documents, state, sealer)
        if _is_ours(state, key):
            import_files(documents, state, sealer)
    except Conflict:
        raise ConfigError([Problem("other gateways change it all the time", file=documents.place(KEY))]) from None
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise ConfigError([Problem(f"cannot be read or made: {why}", file=documents.place(KEY))]) from None
    return key


def _shared_key(documents: Documents, state: Path, sealer: Sealer) -> bytes:
    """Return the key of all replicas; the first one makes it, of the key it had alone if it had one."""
    document = documents.load(KEY)
    if document is None:
        sealed = sealer.seal(_PURPOSE, read_or_create_key(state / FINGERPRINT_KEY, KEY_BYTES), _CONTEXT)
        try:
            documents.replace(KEY, sealed.encode("ascii"), ABSENT)
        except Conflict:
            _log.info("database_joined")
        document = documents.load(KEY)
    if document is None:
        raise Conflict(KEY)
    try:
        token = document.data.decode("ascii")
        key = sealer.open(_PURPOSE, token, _CONTEXT)
    except (SealError, UnicodeDecodeError):
        hint = "give every gateway that shares it the same state.sealing_keys, old ones after the new one"
        problem = Problem("was sealed with other keys", file=documents.place(KEY), hint=hint)
        raise ConfigError([problem]) from None
    if not sealer.is_newest(token):
        # So that the old sealing key can go some day.
        documents.replace(KEY, sealer.seal(_PURPOSE, key, _CONTEXT).encode("ascii"), None)
    return key


def _is_ours(state: Path, key: bytes) -> bool:
    path = state / FINGERPRINT_KEY
    return path.exists() and read_or_create_key(path, KEY_BYTES) == key


def import_files(documents: Documents, state: Path, sealer: Sealer) -> None:
    """Take over what a gateway that kept everything for itself has left in ``state.dir``, once.

    What is in the shared place already stays. The files stay too, and mean nothing any more.

    Raises:
        ConfigError: what is there is damaged.
        OSError: it cannot be read or written.
    """
    if documents.load(IMPORTED) is not None:
        return
    own = FolderDocuments(state)
    moved: list[str] = []
    for name, data in _old(own, state, sealer).items():
        try:
            documents.replace(name, data, ABSENT)
        except Conflict:
            _log.warning("not_imported", document=name, reason="there is one already")
        else:
            moved.append(name)
    documents.replace(IMPORTED, b"{}\n", None)
    if moved:
        _log.info("imported", documents=len(moved), pins=PIN_FILE in moved, approvals=FILE in moved)


def _old(own: FolderDocuments, state: Path, sealer: Sealer) -> Mapping[str, bytes]:
    found: dict[str, bytes] = {}
    # Read as what it has to be, so that damage is found here and not by every replica.
    Pins(own)
    for name in (PIN_FILE, *own.names(CATALOG), *own.names(CREDENTIALS)):
        document = own.load(name)
        if document is not None:
            found[name] = document.data
    if own.load(FILE) is not None:
        found[FILE] = _resealed(own, state, sealer)
    return found


def _resealed(own: FolderDocuments, state: Path, sealer: Sealer) -> bytes:
    """Return the approvals under the keys of all replicas; a single gateway may have sealed with one of its own."""
    path = state / LOCAL_SEALING_KEY
    try:
        entries, _ = ApprovalFile(own, sealer).load()
    except ConfigError:
        if not path.exists():
            raise
        entries, _ = ApprovalFile(own, Sealer([read_or_create_key(path, KEY_BYTES)])).load()
    return ApprovalFile(own, sealer).encoded(entries)
