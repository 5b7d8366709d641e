"""Reads the record of a call back: who asked for what, what was decided, and how much of it can be relied on. Pure.

Records hold names that were cut and values that were left out. Whatever is not known to be what it was is said to be
unknown; nothing is guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from gateway.audit import fields, payload
from gateway.audit.keys import AuditKey
from gateway.audit.values import CUT, Path
from gateway.model.call import Beyond, Sort, Target
from gateway.model.catalog import Kind
from gateway.model.principal import Principal
from gateway.protocol import rawjson
from gateway.protocol.rawjson import JsonError, Object, Value

_KINDS: Final[dict[str, Sort]] = {kind.value: kind for kind in (*Kind, *Beyond)}
_WITHOUT_CLAIMS: Final = frozenset({"key", "anonymous", "cert"})
_NOTHING: Final = 2
"""Bytes of arguments that are empty."""
_MASK: Final = re.compile(r"\[R:[0-9]+\]|\[redacted")
_STANDS_FOR: Final = re.compile(r"(?:list|dict|object):[0-9]+")
_NUMBER: Final = re.compile(r"[-+]?(?:[0-9][0-9._]*(?:[eE][-+]?[0-9]+)?|inf|nan)")


class NotRecorded(ValueError):
    """A record that does not say enough to ask about its call again; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """What is left of the arguments of a call: ``kept`` of them, and the shape of all of them, None without one.

    ``masked``: some of what is kept may stand for something else.
    """

    kept: Object = field(default_factory=dict)
    shape: Object | None = None
    missing: tuple[Path, ...] = ()
    whole: bool = False
    masked: bool = False
    size: int = 0

    def knows(self, path: Path) -> bool:
        """Tell whether reading a path from what is kept gives what it gave then; an empty path reads everything."""
        if self.whole:
            return True
        if self.shape is None or payload.CUT in self.shape or len(path) > payload.MAX_DEPTH:
            return False
        if any(_overlap(gone, path) for gone in self.missing):
            return False
        pointer = _pointer(path)
        if pointer is None:
            return False
        kept = payload.shape(self.kept)
        if not path or pointer in self.shape:
            return _below(self.shape, pointer) == _below(kept, pointer) and not (
                self.masked and _is_masked(_at(self.kept, path))
            )
        return self._absent(path, kept)

    def _absent(self, path: Path, kept: Object) -> bool:
        """Tell whether a member that was not there is missing in the same way: from an object that is there."""
        assert self.shape is not None
        for length in range(len(path) - 1, 0, -1):
            pointer = _pointer(path[:length])
            kind = self.shape.get(pointer or "")
            if isinstance(kind, str):
                # What is no object has no members, whatever it is.
                return not kind.startswith("object:") or str(kept.get(pointer or "")).startswith("object:")
        return True


def _overlap(one: Path, other: Path) -> bool:
    return all(a == b for a, b in zip(one, other, strict=False))


def _pointer(path: Path) -> str | None:
    """Return a path as shapes write it, None where that could be another one."""
    pointer = "/".join(part.replace("~", "~0").replace("/", "~1") for part in path)
    return pointer if fields.name(pointer) == pointer and "\\" not in pointer and CUT not in pointer else None


def _below(shape: Object, pointer: str) -> Object:
    return {key: kind for key, kind in shape.items() if not pointer or key == pointer or key.startswith(f"{pointer}/")}


def _at(value: Value, path: Path) -> Value:
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _is_masked(value: Value) -> bool:
    """Tell whether some text in a value may stand for another one."""
    match value:
        case str():
            return value.endswith(CUT) or _MASK.search(value) is not None or _STANDS_FOR.fullmatch(value) is not None
        case dict():
            return any(_is_masked(key) or _is_masked(item) for key, item in value.items())
        case list():
            return any(map(_is_masked, value))
        case _:
            return False


def _is_exact(value: Value) -> bool:
    """Tell whether a claim or annotation is what it was: fractions are written as texts, long lists are cut."""
    match value:
        case str():
            return not (_is_masked(value) or _NUMBER.fullmatch(value) or "\\" in value)
        case dict():
            return len(value) < fields.MAX_ITEMS and all(_is_exact(key) and _is_exact(value[key]) for key in value)
        case list():
            return len(value) < fields.MAX_ITEMS and all(map(_is_exact, value))
        case _:
            return True


@dataclass(frozen=True, slots=True)
class Stand:
    """What was decided: ``allow`` or ``deny``, and by what."""

    action: str
    policy: str = ""
    rule: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A call as its record tells it. ``subject`` is the keyed hash where the principal's id is not in the log."""

    seq: int
    call_id: str
    at: datetime
    principal: Principal
    subject: str
    issuer: str
    target: Target
    view: str | None
    arguments: Arguments
    stand: Stand
    claims_known: frozenset[str] | None
    annotations_known: bool
    who: str

    def knows_claim(self, path: Path) -> bool:
        """Tell whether a claim is known to be what it was, or to have been absent."""
        return self.claims_known is None or (bool(path) and path[0] in self.claims_known)

    def is_hashed_with(self, key: AuditKey) -> bool:
        """Tell whether the subject was hashed with a key."""
        return self.subject.partition(":")[0] == key.id

    def is_subject(self, identity: str, key: AuditKey) -> bool:
        """Tell whether an id, ``sub:ISSUER/SUBJECT``, is that of the caller."""
        claims: Object = {"iss": self.issuer} if self.issuer else {}
        block = fields.principal_block(Principal(identity, "sub", "", claims=claims), key, {})
        return block.get("sub_h") == self.subject and block.get("iss", "") == self.issuer


def sidecar_of(record: Object) -> str:
    """Return the id under which the arguments stand beside the chain, "" where they do not."""
    found = _part(record, "payload").get("args_sidecar")
    return found if isinstance(found, str) else ""


def read_call(record: Object, beside: bytes | None = None) -> Recorded | None:
    """Read a ``call.start`` or ``call.denied``; ``beside`` is what its sidecar holds. None for names nobody offered.

    Raises:
        NotRecorded: who asked, or for what, is not in it as it was.
    """
    decision, tool = _part(record, "decision"), _part(record, "tool")
    kind, server, name = tool.get("kind"), record.get("server"), tool.get("name")
    if decision.get("reason") == "unknown_name":
        return None
    if kind not in _KINDS or not isinstance(server, str) or not isinstance(name, str):
        raise NotRecorded("what was asked for is not in it")
    if name.endswith(CUT) or "\\" in name:
        raise NotRecorded("the name was cut or escaped")
    annotations, block = tool.get("annotations"), _part(record, "principal")
    view = record.get("view")
    claims, known = _claims(block)
    return Recorded(
        seq=_number(record.get("seq")),
        call_id=_text(record.get("call_id")),
        at=_time(record.get("ts")),
        principal=_principal(block, claims),
        subject=_text(block.get("sub_h")),
        issuer=_text(block.get("iss")),
        target=Target(_KINDS[str(kind)], server, name, annotations if isinstance(annotations, dict) else {}),
        view=view if isinstance(view, str) else None,
        arguments=_arguments(record, beside),
        stand=Stand(*(_text(decision.get(key)) for key in ("action", "policy", "rule", "reason"))),
        claims_known=known,
        annotations_known=isinstance(annotations, dict) and _is_exact(annotations),
        who=_text(block.get("id")) or f"{_text(block.get('client'))} {_text(block.get('sub_h'))}",
    )


def _principal(block: Object, claims: Object) -> Principal:
    groups, scopes = block.get("groups"), block.get("scopes")
    if not isinstance(groups, list) or not isinstance(scopes, list):
        raise NotRecorded("its groups or scopes are not in it")
    if max(len(groups), len(scopes)) >= fields.MAX_ITEMS or any(_text(item).endswith(CUT) for item in groups + scopes):
        raise NotRecorded("its groups or scopes were cut")
    identity = block.get("id", "sub:")
    if not isinstance(identity, str) or identity.endswith(CUT):
        raise NotRecorded("its principal was cut")
    return Principal(
        id=identity,
        kind=_text(block.get("kind")),
        label=_text(block.get("client")),
        groups=frozenset(map(_text, groups)),
        scopes=frozenset(map(_text, scopes)),
        claims=claims,
    )


def _claims(block: Object) -> tuple[Object, frozenset[str] | None]:
    """Return the claims that are there, and which are known; None for a caller that cannot have any."""
    if block.get("kind") in _WITHOUT_CLAIMS:
        return {}, None
    used = _part(block, "claims_used")
    known = frozenset(name for name, value in used.items() if _is_exact(name) and _is_exact(value))
    # Null stands for a claim that was not there.
    return {name: value for name, value in used.items() if value is not None}, known


def _arguments(record: Object, beside: bytes | None) -> Arguments:
    block = _part(record, "payload")
    size = _number(block.get("args_bytes"), default=-1)
    shape = block.get("args_shape")
    kept = _kept(block, beside)
    return Arguments(
        kept=kept,
        shape=shape if isinstance(shape, dict) else None,
        missing=tuple(_paths(block.get("args_missing"))),
        whole=size == _NOTHING,
        masked=block.get("mode") != "conditions",
        size=size,
    )


def _kept(block: Object, beside: bytes | None) -> Object:
    text = block.get("args")
    try:
        if beside is not None:
            value = rawjson.decode_value(beside)
            value = value.get("args") if isinstance(value, dict) else None
        else:
            value = rawjson.decode_value(text.encode()) if isinstance(text, str) else None
    except JsonError:
        value = None
    return value if isinstance(value, dict) else {}


def _paths(value: Value) -> Iterable[Path]:
    for path in value if isinstance(value, list) else []:
        yield tuple(map(_text, path)) if isinstance(path, list) else ()


def _part(record: Object, name: str) -> Object:
    value = record.get(name)
    return value if isinstance(value, dict) else {}


def _text(value: Value) -> str:
    return value if isinstance(value, str) else ""


def _number(value: Value, default: int = 0) -> int:
    return value if isinstance(value, int) else default


def _time(value: Value) -> datetime:
    try:
        return datetime.fromisoformat(_text(value))
    except ValueError:
        raise NotRecorded("its time cannot be read") from None
