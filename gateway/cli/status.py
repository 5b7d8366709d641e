"""``status``: how the gateway and each of its servers are, as of the last real round trip."""

from __future__ import annotations

import argparse

from gateway.cli.output import Exit, Output, wants_json
from gateway.cli.remote import Question, inquire
from gateway.protocol.rawjson import Object, Value

_HEADINGS = ("server", "state", "era", "tools", "tokens", "last round trip", "restarts", "pin", "problem")
_HEALTHY = ("up", "starting")


def run(args: argparse.Namespace) -> int:
    """Print the status; a server that does not answer, or a gateway that takes no calls, is a finding."""
    status = inquire("status", args, Question("/status"))
    if status is None:
        return Exit.UNKNOWN
    if wants_json(args):
        Output.standard().value(status)
    else:
        show(status, Output.standard())
    servers = status.get("servers")
    rows = servers.values() if isinstance(servers, dict) else []
    well = status.get("ready") is True and all(_text(row, "state") in _HEALTHY for row in rows)
    return Exit.FINE if well else Exit.FINDING


def show(status: Object, output: Output) -> None:
    """Print a status for people."""
    ready = "ready" if status.get("ready") is True else f"not ready: {_listed(status.get('reasons'))}"
    replica = f"  replica {_text(status, 'replica')}" if _text(status.get("store"), "kind") == "shared" else ""
    up = f"up {status.get('uptime_s')} s  version {status.get('version')}"
    output.line(f"{status.get('endpoint')}  {ready}  {up}{replica}")
    config = status.get("config")
    last = config.get("last_load") if isinstance(config, dict) else None
    if isinstance(last, dict) and last.get("ok") is not True:
        since = _text(config, "in_force_since")
        output.line(f"the config of {_text(last, 'at')} was refused, the one of {since} is in force:")
        output.line(f"  {_listed(last.get('problems'))}")
    if isinstance(last, dict) and last.get("needs_restart"):
        output.line(f"changed, but in force only after a restart: {_listed(last.get('needs_restart'))}")
    store = status.get("store")
    if _text(store, "state") == "degraded":
        since, why = _text(store, "since"), _text(store, "reason")
        output.line(f"the shared store is away since {since} ({why}): limits are this replica's own")
    database = status.get("database")
    if _text(database, "reachable") == "False":
        since, why = _text(database, "since"), _text(database, "reason")
        output.line(f"the database is away since {since} ({why}): nothing new can be approved")
    _people(status, output)
    servers = status.get("servers")
    if isinstance(servers, dict):
        output.table(_HEADINGS, [_row(name, server) for name, server in servers.items()])
        for name, server in servers.items():
            if _text(server, "consent_url"):
                output.line(f"sign in to {name}: {_text(server, 'consent_url')}")
            held = server.get("held_back") if isinstance(server, dict) else None
            for item in held if isinstance(held, list) else []:
                output.line(f"held back: {name}/{_text(item, 'name')}: {_text(item, 'reason')}")
            changed = server.get("pin_changed") if isinstance(server, dict) else None
            own = server.get("own_lists") if isinstance(server, dict) else None
            if own:
                failing = f", and cannot be had for {_text(own, 'failing')}" if _text(own, "failing") != "0" else ""
                output.line(f"lists by who asks: {name}: known for {_text(own, 'known')} principals{failing}")
            if changed:
                output.line(f"not as approved: {name}: {_listed(changed)} (pins show {name})")
    _clients(status, output)


def _clients(status: Object, output: Output) -> None:
    """Print what the lists of the clients weigh."""
    clients = status.get("clients")
    for name, each in clients.items() if isinstance(clients, dict) else ():
        output.line(f"{name} sees {_text(each, 'tools')} tools (about {_text(each, 'approx_tokens')} tokens)")


def _people(status: Object, output: Output) -> None:
    """Print what waits for people, and what they should know."""
    pending = _text(status.get("approvals"), "pending")
    if pending not in ("", "0"):
        output.line(f"waiting for approval: {pending} (approvals list)")
    alerts = status.get("alerts")
    recent = alerts.get("recent") if isinstance(alerts, dict) else None
    if isinstance(recent, list) and recent:
        last = recent[0]
        about = " ".join(filter(None, (_text(last, "client"), _text(last, "server"), _text(last, "name"))))
        output.line(
            f"alerts: {_text(alerts, 'raised')}, the last at {_text(last, 'at')}: {_text(last, 'kind')} {about}"
        )


def _row(name: str, server: Value) -> list[str]:
    problem = _text(server, "last_error")
    retry = server.get("next_retry_s") if isinstance(server, dict) else None
    if problem and isinstance(retry, int) and "next try" not in problem:
        problem += f" (next try in {retry} s)"
    if _text(server, "state") == "up":
        # What went wrong before the server came back is history.
        problem = ""
    return [
        name,
        _text(server, "state"),
        _text(server, "version") or "-",
        _text(server, "tools"),
        _text(server, "approx_tokens"),
        _text(server, "last_round_trip") or "never",
        _text(server, "restarts"),
        _text(server, "pin"),
        problem,
    ]


def _text(value: Value, key: str) -> str:
    item = value.get(key) if isinstance(value, dict) else None
    return "" if item is None else str(item)


def _listed(value: Value) -> str:
    return "; ".join(str(item) for item in value) if isinstance(value, list) else ""
