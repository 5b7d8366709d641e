"""Records as OpenTelemetry logs."""

from __future__ import annotations

import json

from gateway.audit.sinks.otlp import logs
from gateway.protocol.rawjson import Object

RECORD: Object = {
    "chain": "gw1",
    "seq": 7,
    "ts": "2026-08-23T10:00:00.123456Z",
    "event": "call.end",
    "mcp": {"method": "tools/call", "rpc_id": "7", "session_h": None},
    "tool": {"exposed": "github__create"},
    "outcome": {"status": "ok", "rpc_code": None},
    "trace": {"trace_id": "4bf92f3577b34da6a3ce929d0e0e4736", "span_id": "00f067aa0ba902b7"},
}


def test_a_record_is_a_log_record_with_the_conventions_attributes() -> None:
    body, kind = logs([RECORD, {"event": "auth.failed", "ts": "odd"}], {"service.name": "mcp-gateway"})
    assert kind == "application/json"
    (resource,) = json.loads(body)["resourceLogs"]
    first, second = resource["scopeLogs"][0]["logRecords"]

    assert resource["resource"]["attributes"][0] == {"key": "service.name", "value": {"stringValue": "mcp-gateway"}}
    assert first["timeUnixNano"] == "1787479200123456000"
    assert (first["severityNumber"], first["eventName"]) == (9, "mcp_gateway.call.end")
    assert (first["traceId"], first["spanId"]) == ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7")
    assert json.loads(first["body"]["stringValue"]) == RECORD
    attributes = {each["key"]: each["value"] for each in first["attributes"]}
    assert attributes["mcp.method.name"] == {"stringValue": "tools/call"}
    assert attributes["gen_ai.tool.name"] == {"stringValue": "github__create"}
    assert attributes["gen_ai.operation.name"] == {"stringValue": "execute_tool"}
    assert attributes["mcp_gateway.audit.seq"] == {"intValue": "7"}
    assert "mcp.session.id" not in attributes
    assert (second["severityText"], second["timeUnixNano"]) == ("WARN", "0")
