"""``audit show``, ``audit erase`` and ``audit rotate-key``: what stands beside the chain, and the key that signs it."""

from __future__ import annotations

import argparse
from datetime import datetime
from pathlib import Path

from gateway.audit.query import Wanted, matching
from gateway.audit.sidecars import Sidecars
from gateway.audit.signing import prepare_successor
from gateway.cli.audit_lines import describe
from gateway.cli.output import Exit, Output, wants_json
from gateway.protocol import rawjson
from gateway.protocol.rawjson import Object, Value
from gateway.state.files import secure_directory
from gateway.telemetry.text import printable

_MEMBERS = {"args_sidecar": "args", "result_sidecar": "result"}


def show(call: str, directory: Path, state: Path, *, as_json: bool) -> int:
    """Run ``audit show``; 1 where there is no such call."""
    records = [*matching(directory, Wanted(call=call))]
    texts = {id_: text for record in records for id_, text in _texts(record, Sidecars(directory, state)).items()}
    output = Output.standard()
    for record in records:
        kept = {member: _kept(record, member, texts) for member in _MEMBERS.values()}
        kept = {member: value for member, value in kept.items() if value is not None}
        if as_json:
            output.value({"record": record, **kept})
            continue
        output.line(describe(record))
        for member, value in kept.items():
            output.block(f"  {member}: {value if isinstance(value, str) else rawjson.pretty(value)}")
    if not records:
        Output.errors().line(f"audit show: the log has no call {printable(call, 64)}")
    return Exit.FINE if records else Exit.FINDING


def erase(principal: str, directory: Path, state: Path, *, as_json: bool) -> int:
    """Run ``audit erase``; 1 where nothing was kept of this principal."""
    erased = Sidecars(directory, state).erase(principal)
    if as_json:
        Output.standard().value({"principal": principal, "erased": erased})
        return Exit.FINE if erased else Exit.FINDING
    Output.standard().line(
        f"the key for {principal} is destroyed: its payloads are absent from now on, and the log stays whole"
        if erased
        else f"nothing is kept under a key for {principal}"
    )
    return Exit.FINE if erased else Exit.FINDING


def rotate_key(state: Path, args: argparse.Namespace) -> int:
    """Run ``audit rotate-key``."""
    successor = prepare_successor(secure_directory(state))
    output = Output.standard()
    if wants_json(args):
        output.value({"key": successor.id, "public": successor.public})
    else:
        output.line(f"key {successor.id} signs the log from the gateway's next start on; the old one will vouch for it")
    return Exit.FINE


def _payload(record: Object) -> Object:
    payload = record.get("payload")
    return payload if isinstance(payload, dict) else {}


def _texts(record: Object, sidecars: Sidecars) -> dict[str, bytes]:
    wanted = frozenset(id_ for name in _MEMBERS if isinstance(id_ := _payload(record).get(name), str))
    return sidecars.read(wanted, datetime.fromisoformat(str(record.get("ts")))) if wanted else {}


def _kept(record: Object, member: str, texts: dict[str, bytes]) -> Value:
    """Return what was kept: a value, a note where it should be and is not, None where there is nothing to keep."""
    payload = _payload(record)
    inside = payload.get(member)
    if isinstance(inside, str):
        return rawjson.decode_value(inside.encode())
    name = next(name for name, each in _MEMBERS.items() if each == member)
    if name not in payload:
        return None
    text = texts.get(str(payload[name]))
    if text is None:
        return "payload absent"
    whole = rawjson.decode_value(text)
    return whole.get(member) if isinstance(whole, dict) else None
