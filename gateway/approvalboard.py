"""What operators see of the calls that wait for them, and what they decide; each act audited before it counts.

Who may decide is an admin user with the role, named by the rule. No client's key is good for that, whatever its name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from gateway.admin.operations import Act, Conflict, Forbidden
from gateway.approvals.entry import Entry
from gateway.approvals.ledger import Ineligible, Ledger, Settled, Unwritable
from gateway.audit import events
from gateway.audit.log import AuditLog
from gateway.protocol.rawjson import Object, Value
from gateway.telemetry.text import printable

MAX_REASON: Final = 200
BRIEF: Final = 160
"""Characters of arguments in a list of many."""
_MAX_ID: Final = 32
_LONGEST: Final = 8 * 128 * 1024
"""Characters that arguments have when all of them are escaped."""


class Approvalboard:
    """The approvals of the running gateway, for the admin listener."""

    def __init__(self, ledger: Ledger, audit: AuditLog) -> None:
        self._ledger = ledger
        self._audit = audit

    async def show(self, user: str) -> Object:
        """Return what waits or is decided, the oldest first, with whether this user may decide it.

        In a thread: arguments may be megabytes, and are escaped character by character.
        """
        entries = self._ledger.entries()
        return {"approvals": await asyncio.to_thread(_all_shown, entries, user)}

    def briefs(self, user: str) -> tuple[Object, ...]:
        """Return the same with the beginning of the arguments alone: all of them may be megabytes."""
        return tuple(
            _brief(entry, user) | {"shown": printable(entry.subject.arguments, BRIEF)}
            for entry in self._ledger.entries()
        )

    def one(self, user: str, entry_id: str) -> Object:
        """Return one entry, with its arguments as they are.

        Raises:
            KeyError: nothing of that id waits.
        """
        try:
            entry = self._ledger.find(entry_id)
        except KeyError:
            raise _unknown(entry_id) from None
        return _brief(entry, user) | {"arguments": entry.subject.arguments}

    async def approve(self, act: Act, entry_id: str) -> Object:
        """Say yes.

        Raises:
            KeyError: nothing of that id waits.
            Forbidden: this user is not asked.
            Conflict: it is decided already, or cannot be kept.
            AuditUnavailable: the act cannot be recorded.
        """
        await self._audited("approvals_approve", act, entry_id, {})
        try:
            return await _shown_beside(await self._ledger.approve(entry_id, act.user), act.user)
        except KeyError:
            raise _unknown(entry_id) from None
        except (Ineligible, Settled, Unwritable) as error:
            raise _refused(error) from None

    async def deny(self, act: Act, entry_id: str, reason: str) -> Object:
        """Say no; the reason is told to the client. Raises as ``approve`` does."""
        reason = printable(reason, MAX_REASON)
        await self._audited("approvals_deny", act, entry_id, {"reason": reason} if reason else {})
        try:
            return await _shown_beside(await self._ledger.deny(entry_id, act.user, reason), act.user)
        except KeyError:
            raise _unknown(entry_id) from None
        except (Ineligible, Settled, Unwritable) as error:
            raise _refused(error) from None

    async def _audited(self, action: str, act: Act, entry_id: str, facts: Object) -> None:
        """Record who acts on what, also where it is not theirs to decide."""
        try:
            entry = self._ledger.find(entry_id)
        except KeyError:
            raise _unknown(entry_id) from None
        subject, allowed = entry.subject, entry.may_decide(act.user)
        about: Object = {"id": entry.id, "server": subject.server, "name": subject.name, "asked": allowed}
        await self._audit.append(events.admin(action, act.user, about | facts, act.source), durable=True)


def _unknown(entry_id: str) -> KeyError:
    return KeyError(f'nothing with the id "{printable(entry_id, _MAX_ID)}" waits: it was used, or its time is over')


def _refused(error: Ineligible | Settled | Unwritable) -> Exception:
    match error:
        case Ineligible():
            return Forbidden("the rule asks other users (see needs)")
        case Settled():
            return Conflict(str(error))
        case _:
            return Conflict("the approvals cannot be kept now: nothing was changed")


async def _shown_beside(entry: Entry, user: str) -> Object:
    return await asyncio.to_thread(_shown, entry, user)


def _all_shown(entries: Iterable[Entry], user: str) -> list[Value]:
    return [_shown(entry, user) for entry in entries]


def _shown(entry: Entry, user: str) -> Object:
    arguments = entry.subject.arguments
    return _brief(entry, user) | {"arguments": arguments, "shown": printable(arguments, _LONGEST)}


def _brief(entry: Entry, user: str) -> Object:
    subject = entry.subject
    open_needs = entry.open_needs
    needs: list[Value] = [
        {"policy": need.policy, "rule": need.rule, "by": [*sorted(need.by)], "open": need in open_needs}
        for need in entry.needs
    ]
    return {
        "id": entry.id,
        "state": entry.state.value,
        "asked_at": _time(entry.asked_at),
        "ends_at": _time(entry.ends_at),
        "principal": subject.asker.id,
        "client": subject.asker.label,
        "method": subject.method,
        "server": subject.server,
        "kind": subject.kind,
        "name": subject.name,
        "definition": subject.definition,
        "needs": needs,
        "approved_by": [*entry.users],
        "reason": entry.reason,
        "yours": entry.may_decide(user),
    }


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
