"""Records in the words of others: OCSF (API Activity, class 6003) and CEF. Pure; the mapping stands in docs/audit.md.

Native export is the record itself, one JSON object a line.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Final, Literal, TypeAlias

from gateway import __version__
from gateway.protocol import rawjson
from gateway.protocol.rawjson import JsonError, Object, Value

Format: TypeAlias = Literal["jsonl", "ocsf", "cef"]
VENDOR: Final = "aiohttp-mcp-gateway"
PRODUCT: Final = "mcp-gateway"
OCSF_VERSION: Final = "1.5.0"
CLASS: Final = 6003
ACTIVITY: Final = 99

_DISPOSITION: Final = {"denied": 2, "limited": 25, "unavailable": 27, "protocol_error": 27, "timeout": 27}
_QUARANTINED: Final = 3
_UNAUTHORIZED: Final = 26
_GOOD: Final = frozenset({"ok", "started", "input_required"})
_BAD_EVENTS: Final = ("auth.failed", "security.", "pin.mismatch", "pin.quarantined", "alert.", "audit.gap")
_CEF_HEADER: Final = re.compile(r"[\\|]")
_CEF_VALUE: Final = re.compile(r"[\\=]")


def ocsf(record: Object) -> Object:
    """Return a record as an OCSF event of the class API Activity."""
    event, status = _text(record, "event"), _text(record, "outcome", "status")
    stamp = _text(record, "ts")
    failed = _failed(event, status)
    found: Object = {
        "activity_id": ACTIVITY,
        "activity_name": event,
        "category_uid": 6,
        "category_name": "Application Activity",
        "class_uid": CLASS,
        "class_name": "API Activity",
        "type_uid": CLASS * 100 + ACTIVITY,
        "type_name": f"API Activity: {event}",
        "severity_id": 3 if _is_alarm(event) else 1,
        "time": _millis(stamp),
        "metadata": {
            "version": OCSF_VERSION,
            "product": {"name": PRODUCT, "vendor_name": VENDOR, "version": __version__},
            "original_time": stamp,
            "uid": f"{_text(record, 'chain')}:{record.get('seq')}",
            "log_name": "audit",
            "profiles": ["security_control"],
        },
        "actor": _actor(record),
        "api": _api(record, event),
        "src_endpoint": _source(record),
        "unmapped": _unmapped(record),
    }
    if event.startswith(("call.", "auth.", "security.", "ratelimit.")):
        found |= {"status_id": 2 if failed else 1, "status": "Failure" if failed else "Success"}
        found |= _control(record, event, status)
    return _without_empty(found | _optional(record, status))


def _control(record: Object, event: str, status: str) -> Object:
    """Say what the gateway did about it, in the words of the profile ``security_control``."""
    allowed = _text(record, "decision", "action") == "allow" and status not in ("denied", "limited")
    if event == "auth.failed":
        disposition = _UNAUTHORIZED
    elif _text(record, "downstream", "pin") == "quarantined":
        disposition = _QUARANTINED
    else:
        disposition = _DISPOSITION.get(status, 1 if allowed else 2)
    return {
        "action_id": 1 if allowed else 2,
        "action": "Allowed" if allowed else "Denied",
        "disposition_id": disposition,
    }


def _optional(record: Object, status: str) -> Object:
    tool, server = _text(record, "tool", "exposed"), _text(record, "server")
    code = _value(record, "outcome", "rpc_code")
    policy = _text(record, "decision", "policy")
    return {
        "resources": [{"name": tool, "type": "mcp.tool"}] if tool else [],
        "dst_endpoint": {"name": server} if server else {},
        "policy": {"uid": policy, "name": policy, "version": _text(record, "decision", "config_sha256")}
        if policy
        else {},
        "status_detail": _text(record, "outcome", "error_type") or status,
        "status_code": "" if code is None else str(code),
    }


def _actor(record: Object) -> Object:
    user = _text(record, "principal", "sub_h") or _text(record, "principal", "id") or _text(record, "admin", "user")
    issuer, session = _text(record, "principal", "iss"), _text(record, "mcp", "session_h")
    groups = _value(record, "principal", "groups")
    return _without_empty(
        {
            "app_uid": _text(record, "principal", "client") or PRODUCT,
            "user": _without_empty(
                {
                    "uid": user,
                    "groups": [{"name": name} for name in groups] if isinstance(groups, list) else [],
                    "credential_uid": _text(record, "principal", "cred"),
                }
            ),
            "idp": {"name": issuer, "uid": issuer} if issuer else {},
            "session": {"uid": session} if session else {},
        }
    )


def _api(record: Object, event: str) -> Object:
    code = _value(record, "outcome", "rpc_code")
    uid = _text(record, "mcp", "rpc_id")
    response: Object = {"code": code, "error": _text(record, "outcome", "error_type")} if isinstance(code, int) else {}
    asked = _json(_text(record, "payload", "args"))
    return _without_empty(
        {
            "operation": _text(record, "mcp", "method") or event,
            "version": _text(record, "mcp", "version"),
            "service": {"name": _text(record, "server") or PRODUCT},
            "request": _without_empty({"uid": uid or _text(record, "call_id") or event, "data": asked}),
            "response": response,
        }
    )


def _source(record: Object) -> Object:
    """Return where it came from; of an address only the network is known, whose first address stands for it."""
    network = _text(record, "src", "ip")
    return {"ip": network.partition("/")[0]} if network else {"name": "unknown"}


def _unmapped(record: Object) -> Object:
    """Keep what OCSF 1.5 has no place for; chain and agent under the names that later versions give them."""
    kept: Object = {
        name: value
        for name, value in record.items()
        if name not in ("ts", "prev", "hash", "principal") and value is not None
    }
    duration, client = _value(record, "outcome", "dur_us"), _text(record, "principal", "client")
    if duration is not None:
        kept["duration_us"] = duration
    if client:
        kept["ai_agent"] = {"uid": client}
    attestation: Object = {
        "chain_uid": _text(record, "chain"),
        "fingerprint": _fingerprint(_text(record, "hash")),
        "prev_event": {"fingerprint": _fingerprint(_text(record, "prev"))},
        "signatures": _signatures(record),
    }
    kept["attestation_list"] = [_without_empty(attestation)]
    return kept


def cef(record: Object) -> str:
    """Return a record as one CEF line."""
    event, status = _text(record, "event"), _text(record, "outcome", "status")
    method = _text(record, "mcp", "method")
    head = [VENDOR, PRODUCT, __version__, event, f"{event} {method}".strip(), str(_severity(event, status))]
    extension = {
        "rt": str(_millis(_text(record, "ts"))),
        "act": _text(record, "decision", "action"),
        "outcome": status,
        "reason": str(_value(record, "outcome", "rpc_code") or _text(record, "outcome", "error_type")),
        "src": _text(record, "src", "ip"),
        "suser": _text(record, "principal", "client") or _text(record, "admin", "user"),
        "suid": _text(record, "principal", "sub_h") or _text(record, "principal", "id"),
        "destinationServiceName": _text(record, "server"),
        "externalId": _text(record, "mcp", "rpc_id"),
        "requestMethod": method,
        **_labelled("cs1", "tool", _text(record, "tool", "exposed")),
        **_labelled("cs2", "definitionSha256", _text(record, "tool", "def_sha256")),
        **_labelled("cs3", "protocolVersion", _text(record, "mcp", "version")),
        **_labelled("cs4", "session", _text(record, "mcp", "session_h")),
        **_labelled("cs5", "policy", _text(record, "decision", "policy")),
        **_labelled("cs6", "hash", _text(record, "hash")),
        **_labelled("cn1", "durationUs", _number(record, "outcome", "dur_us")),
        **_labelled("cn2", "seq", _number(record, "seq")),
        "msg": _summary(record, event),
    }
    shown = " ".join(f"{name}={_cef_value(value)}" for name, value in extension.items() if value)
    return "|".join(["CEF:0", *(_cef_header(part) for part in head), shown])


def _summary(record: Object, event: str) -> str:
    """Show what an event that is no call says."""
    group = event.partition(".")[0]
    facts = record.get(group)
    if group == "call" or not isinstance(facts, dict):
        return ""
    return " ".join(f"{name}={value}" for name, value in facts.items() if not isinstance(value, (dict, list)))


def _labelled(name: str, label: str, value: str) -> dict[str, str]:
    return {f"{name}Label": label, name: value} if value else {}


def _cef_header(text: str) -> str:
    return _CEF_HEADER.sub(lambda match: "\\" + match[0], text.replace("\r", " ").replace("\n", " "))


def _cef_value(text: str) -> str:
    return _CEF_VALUE.sub(lambda match: "\\" + match[0], text).replace("\r", "\\r").replace("\n", "\\n")


def _severity(event: str, status: str) -> int:
    if _is_alarm(event):
        return 7
    return 5 if _failed(event, status) else 2


def _failed(event: str, status: str) -> bool:
    return _is_alarm(event) or (bool(status) and status not in _GOOD) or event == "ratelimit.refused"


def _is_alarm(event: str) -> bool:
    return event.startswith(_BAD_EVENTS)


def _signatures(record: Object) -> list[Value]:
    block = record.get("checkpoint")
    if not isinstance(block, dict):
        return []
    return [
        {"algorithm_id": 99, "algorithm": "Ed25519", "serial_number": block.get("key"), "value": block.get("signature")}
    ]


def _fingerprint(digest: str) -> Object:
    return {"algorithm_id": 3, "algorithm": "SHA-256", "value": digest}


def _json(text: str) -> Value:
    try:
        return rawjson.decode_value(text.encode()) if text else None
    except JsonError:
        return None


def _millis(stamp: str) -> int:
    try:
        return int(datetime.fromisoformat(stamp).timestamp() * 1000)
    except ValueError:
        return 0


def _value(record: Object, *path: str) -> Value:
    value: Value = record
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _text(record: Object, *path: str) -> str:
    value = _value(record, *path)
    return value if isinstance(value, str) else ""


def _number(record: Object, *path: str) -> str:
    value = _value(record, *path)
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else ""


def _without_empty(value: Object) -> Object:
    return {name: item for name, item in value.items() if item not in ("", None, {}, [])}


def jsonl(record: Object) -> str:
    """Return a record as it stands in the log."""
    return rawjson.canonical_plain(record).decode()


def ocsf_line(record: Object) -> str:
    """Return a record as a line of OCSF."""
    return rawjson.encode(ocsf(record)).decode()


WRITERS: Final[dict[Format, Callable[[Object], str]]] = {"jsonl": jsonl, "ocsf": ocsf_line, "cef": cef}
