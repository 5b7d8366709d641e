"""Records as OpenTelemetry logs (OTLP over HTTP in JSON, opentelemetry-proto logs v1). Pure.

Few fields are needed, so that writing them takes no library.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from gateway.protocol import rawjson
from gateway.protocol.rawjson import Object, Value

PATH: Final = "/v1/logs"
_INFO: Final = (9, "INFO")
_WARN: Final = (13, "WARN")
_ATTRIBUTES: Final = (
    ("mcp.method.name", ("mcp", "method")),
    ("mcp.protocol.version", ("mcp", "version")),
    ("mcp.session.id", ("mcp", "session_h")),
    ("jsonrpc.request.id", ("mcp", "rpc_id")),
    ("gen_ai.tool.name", ("tool", "exposed")),
    ("mcp_gateway.tool.definition_sha256", ("tool", "def_sha256")),
    ("mcp_gateway.server", ("server",)),
    ("mcp_gateway.client.id", ("principal", "client")),
    ("mcp_gateway.principal", ("principal", "id")),
    ("mcp_gateway.decision", ("decision", "action")),
    ("mcp_gateway.policy", ("decision", "policy")),
    ("mcp_gateway.outcome", ("outcome", "status")),
    ("mcp_gateway.call_id", ("call_id",)),
    ("mcp_gateway.audit.chain", ("chain",)),
    ("mcp_gateway.audit.seq", ("seq",)),
    ("mcp_gateway.audit.hash", ("hash",)),
    ("client.address", ("src", "ip")),
    ("error.type", ("outcome", "error_type")),
    ("rpc.response.status_code", ("outcome", "rpc_code")),
)


def logs(records: list[Object], whose: Mapping[str, str]) -> tuple[bytes, str]:
    """Write records as one export request; ``whose`` are the attributes of the service."""
    resource: list[Value] = [_attribute(name, value) for name, value in whose.items()]
    body: Object = {
        "resourceLogs": [
            {
                "resource": {"attributes": resource},
                "scopeLogs": [{"scope": {"name": "mcp-gateway.audit"}, "logRecords": [_log(each) for each in records]}],
            }
        ]
    }
    return rawjson.encode(body), "application/json"


def _log(record: Object) -> Object:
    event = str(record.get("event"))
    number, text = _WARN if event.startswith(("auth.", "security.", "alert.")) or event.endswith("denied") else _INFO
    nanos = _nanos(str(record.get("ts")))
    attributes: list[Value] = [
        _attribute(name, value) for name, path in _ATTRIBUTES if (value := _at(record, path)) is not None
    ]
    if event.startswith("call."):
        attributes.append(_attribute("gen_ai.operation.name", "execute_tool"))
    found: Object = {
        "timeUnixNano": nanos,
        "observedTimeUnixNano": nanos,
        "severityNumber": number,
        "severityText": text,
        "eventName": f"mcp_gateway.{event}",
        "body": {"stringValue": rawjson.canonical_plain(record).decode()},
        "attributes": attributes,
    }
    trace, span = _at(record, ("trace", "trace_id")), _at(record, ("trace", "span_id"))
    return found | ({"traceId": trace, "spanId": span} if trace and span else {})


def _attribute(name: str, value: Value) -> Object:
    if isinstance(value, bool):
        return {"key": name, "value": {"boolValue": value}}
    if isinstance(value, int):
        # 64-bit integers are strings in the JSON form of protobuf.
        return {"key": name, "value": {"intValue": str(value)}}
    return {"key": name, "value": {"stringValue": str(value)}}


def _at(record: Object, path: tuple[str, ...]) -> Value:
    value: Value = record
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _nanos(stamp: str) -> str:
    try:
        when = datetime.fromisoformat(stamp)
    except ValueError:
        return "0"
    return str(int(when.replace(microsecond=0).timestamp()) * 10**9 + when.microsecond * 1000)
