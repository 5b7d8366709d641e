"""What has to survive a restart: tokens and registrations, one sealed document for each server and owner.

A document opens only as what it was written: with another server's name, another resource or another owner it does not
(S49), so nothing of one server ever reaches another. Blocking; used in threads.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from contextlib import suppress
from typing import Final, ParamSpec, Protocol, TypeVar

from gateway.protocol import rawjson
from gateway.protocol.rawjson import JsonError, Object, Value
from gateway.state.documents import ABSENT, Conflict, Documents, Version
from gateway.state.sealing import Sealer, SealError
from gateway.telemetry.logs import get_logger

_PURPOSE: Final = "server-credential"
_TURN: Final = "turn"
CREDENTIALS: Final = "credentials/"
MAX_FILE: Final = 256 * 1024
_log = get_logger("oauth")
P = ParamSpec("P")
T = TypeVar("T")


class Vault(Protocol):
    """Keeps small objects under a name; ``context`` says what they belong to."""

    @property
    def shared(self) -> bool:
        """Whether other replicas read and write here too."""

    async def beside(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run work that reads or writes here beside the loop; see ``Documents``."""

    def read(self, *context: str) -> Object:
        """Return what was kept; empty where there is nothing that is of use.

        Raises:
            OSError: that cannot be told now.
        """

    def load(self, *context: str) -> Object:
        """Return what was kept; empty where there is nothing, or it cannot be read."""

    def store(self, value: Object, *context: str) -> bool:
        """Keep a value in place of an earlier one, an empty one is forgotten; tells whether that worked."""

    def name(self, *context: str) -> str:
        """Return the name of the document of a context, "" where it is none."""

    def begin_turn(self, over: Version, *context: str) -> tuple[bool, Version]:
        """Begin a turn if nobody has one, or if it is still the one to be taken over; tells whose it is then.

        Raises:
            OSError: that cannot be told.
        """

    def end_turn(self, version: Version, *context: str) -> None:
        """End a turn of ours."""


class MemoryVault:
    """Keeps nothing beyond the process."""

    shared = False

    def __init__(self) -> None:
        self._kept: dict[tuple[str, ...], Object] = {}

    async def beside(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Nothing here blocks."""
        return work(*args, **kwargs)

    def read(self, *context: str) -> Object:
        """Return what was kept; empty where there is nothing."""
        return dict(self._kept.get(context, {}))

    def load(self, *context: str) -> Object:
        """Do the same."""
        return self.read(*context)

    def store(self, value: Object, *context: str) -> bool:
        """Keep a value in place of an earlier one; an empty one is forgotten."""
        self._kept.pop(context, None)
        if value:
            self._kept[context] = dict(value)
        return True

    def name(self, *context: str) -> str:
        """Nothing here is a document."""
        return ""

    def begin_turn(self, over: Version, *context: str) -> tuple[bool, Version]:
        """Nobody else is here."""
        return True, ABSENT

    def end_turn(self, version: Version, *context: str) -> None:
        """Nobody waits."""


class SealedVault:
    """Keeps sealed documents whose names begin with ``prefix``."""

    def __init__(self, documents: Documents, sealer: Sealer, prefix: str = CREDENTIALS) -> None:
        self._documents = documents
        self._sealer = sealer
        self._prefix = prefix

    @property
    def shared(self) -> bool:
        """Whether other replicas read and write here too."""
        return self._documents.shared

    async def beside(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run work that reads or writes here beside the loop; see ``Documents``."""
        return await self._documents.beside(work, *args, **kwargs)

    def load(self, *context: str) -> Object:
        """Return what was kept; empty where there is nothing that can be read."""
        try:
            return self.read(*context)
        except OSError as error:
            _log.warning("credential_not_read", server=context[0], error=type(error).__name__)
            return {}

    def read(self, *context: str) -> Object:
        """Return what was kept; empty where there is nothing that opens; see ``Vault``."""
        document = self._documents.load(self.name(*context))
        if document is None:
            return {}
        try:
            token = document.data[:MAX_FILE].decode("ascii").strip()
            value = rawjson.decode_strict(self._sealer.open(_PURPOSE, token, _bound(context)))
            if not self._sealer.is_newest(token):
                self._reseal(value, document.version, context)
        except (UnicodeDecodeError, SealError, JsonError) as error:
            _log.warning("credential_not_read", server=context[0], error=type(error).__name__)
            return {}
        return value if isinstance(value, dict) else {}

    def _reseal(self, value: Value, version: Version, context: tuple[str, ...]) -> None:
        """Seal again with the newest key what an older one opens, so that the older one can go some day."""
        token = self._sealer.seal(_PURPOSE, rawjson.encode(value), _bound(context))
        # Whoever was faster wrote with the newest key, too.
        with suppress(Conflict, OSError):
            self._documents.replace(self.name(*context), token.encode("ascii"), version)

    def store(self, value: Object, *context: str) -> bool:
        """Keep a value in place of an earlier one; an empty one is forgotten. What cannot be written is logged."""
        token = self._sealer.seal(_PURPOSE, rawjson.encode(value), _bound(context)) if value else ""
        try:
            self._documents.replace(self.name(*context), token.encode("ascii") or None, None)
        except OSError as error:
            _log.error("credential_not_kept", server=context[0], error=type(error).__name__)
            return False
        return True

    def name(self, *context: str) -> str:
        """Return the name of the document of a context."""
        # No keyed hash: the name must stay when the sealing key is replaced. It is shown to nobody.
        return self._prefix + hashlib.sha256(_bound(context)).hexdigest()

    def begin_turn(self, over: Version, *context: str) -> tuple[bool, Version]:
        """Begin a turn; see ``Vault``."""
        name = self.name(*context, _TURN)
        found = self._documents.load(name)
        version = found.version if found is not None else ABSENT
        if version != over:
            return False, version
        try:
            # Never the same twice: what was taken over cannot be ended by who had it.
            return True, self._documents.replace(name, secrets.token_bytes(16), version)
        except Conflict:
            return False, ABSENT

    def end_turn(self, version: Version, *context: str) -> None:
        """End a turn of ours; see ``Vault``."""
        try:
            self._documents.replace(self.name(*context, _TURN), None, version)
        except Conflict:
            _log.warning("turn_taken_over", server=context[0])
        except OSError as error:
            _log.warning("turn_not_ended", server=context[0], error=type(error).__name__)


def _bound(context: tuple[str, ...]) -> bytes:
    return rawjson.canonical(list(context))


async def loaded(vault: Vault, *context: str) -> Object:
    """Load beside the loop; what cannot be asked for now is as good as unreadable."""
    try:
        return await vault.beside(vault.load, *context)
    except OSError as error:
        _log.warning("credential_not_read", server=context[0], error=type(error).__name__)
        return {}


async def stored(vault: Vault, value: Object, *context: str) -> bool:
    """Store beside the loop; tells whether that worked."""
    try:
        return await vault.beside(vault.store, value, *context)
    except OSError as error:
        _log.error("credential_not_kept", server=context[0], error=type(error).__name__)
        return False
