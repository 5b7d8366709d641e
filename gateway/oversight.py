"""People beside the gateway: approvals they give and alerts they get, connected to records, metrics and the chain.

Lives as long as the process; a reload changes what is watched, and neither what waits nor what is known of clients.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gateway.alerts.alerts import Alerts, Means
from gateway.alerts.watch import Watch
from gateway.approvals.entry import Entry
from gateway.approvals.file import ApprovalFile
from gateway.approvals.ledger import Ledger, Unwritable
from gateway.audit import events
from gateway.audit.keys import AuditKey
from gateway.config.root import LoadedConfig
from gateway.model.call import Call
from gateway.model.catalog import Catalog
from gateway.model.principal import Principal
from gateway.pipeline.approve import Desk
from gateway.pipeline.passes import Passes
from gateway.protocol.rawjson import Object
from gateway.state.documents import Documents
from gateway.state.sealing import Sealer
from gateway.state.store import Store
from gateway.telemetry.logs import get_logger
from gateway.telemetry.metrics import Metrics

_log = get_logger("approvals")

TICK: Final = 1.0
"""Seconds between two looks at what is over."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where approvals are kept, what seals them there, what the audit log hashes with, and where passes are."""

    documents: Documents
    sealer: Sealer
    key: AuditKey
    store: Store


class Oversight:
    """Approvals and alerts of one gateway."""

    def __init__(
        self, places: Places, write: Callable[[Object], None], metrics: Metrics, catalog: Callable[[Principal], Catalog]
    ) -> None:
        """Read the approvals that were kept; ``write`` takes audit records, ``catalog`` is that of a principal now.

        Raises:
            ConfigError: their file is damaged.
        """
        self._means = means = Means(write, metrics, places.key)
        self._catalog = catalog
        self.alerts = Alerts(means)
        self.ledger = Ledger(ApprovalFile(places.documents, places.sealer), self._told)
        self.desk = Desk(self.ledger, Passes(places.store, places.sealer), self._definition)
        means.metrics.approvals_pending.set(self.ledger.pending)

    def apply(self, loaded: LoadedConfig) -> None:
        """Put a config in force that was checked."""
        self.alerts.apply(Watch.of(loaded))

    async def run(self) -> None:
        """End what is over, until cancelled."""
        told = False
        while True:
            await asyncio.sleep(TICK)
            await self.alerts.settle()
            try:
                await self.ledger.sweep()
                told = False
            except Unwritable as error:
                if not told:
                    # Once: an outage may last.
                    _log.error("approvals_not_written", reason=str(error))
                told = True
            self._means.metrics.approvals_pending.set(self.ledger.pending)

    async def reread(self, changed: Callable[[str], bool]) -> bool:
        """Take what other replicas have written about approvals: calls that wait for it go on.

        Tells whether it could be read.
        """
        try:
            await self.ledger.reread()
        except Unwritable as error:
            _log.error("approvals_not_read", reason=str(error))
            return False
        self._means.metrics.approvals_pending.set(self.ledger.pending)
        return True

    def _definition(self, call: Call) -> str:
        """Return the digest of what a call names as it is now; of one that is listed no more, what it was."""
        if call.definition is None:
            return ""
        route = self._catalog(call.principal).by_name.get((call.definition.kind, call.exposed))
        same = route is not None and (route.server, route.name) == (call.target.server, call.target.name)
        return route.definition.digest if route is not None and same else call.definition.digest

    def _told(self, outcome: str, entry: Entry) -> None:
        metrics, subject = self._means.metrics, entry.subject
        metrics.approvals_total.inc(outcome=outcome)
        metrics.approvals_pending.set(self.ledger.pending)
        asker = subject.asker
        principal = Principal(asker.id, asker.kind, asker.label, claims={"iss": asker.issuer} if asker.issuer else {})
        facts: Object = {
            "id": entry.id,
            "kind": subject.kind,
            "name": subject.name,
            "def_sha256": subject.definition or None,
            "rules": [f"{need.policy}/{need.rule}" for need in entry.needs],
            "by": [*entry.users],
            "state": entry.state.value,
        }
        if outcome == "denied":
            facts["reason"] = entry.reason
        self._means.write(events.approval(outcome, principal, subject.server, facts, self._means.key))
        _log.info("approval", outcome=outcome, approval=entry.id, server=subject.server, name=subject.name)
        if outcome == "requested":
            told: Object = {"id": entry.id, "client": asker.label, "server": subject.server, "name": subject.name}
            self.alerts.notify("approval_requested", {"approval": told.pop("id"), **told})
