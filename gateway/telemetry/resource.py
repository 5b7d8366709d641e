"""Who tells of itself: the attributes that everything sent over OTLP carries (OpenTelemetry resource conventions).

Read from the variables that the OpenTelemetry specification names for it, so that what a deployment sets for all of its
programs holds for this one too. Pure; knows neither spans nor audit records.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote

from gateway import __version__
from gateway.telemetry.text import printable

SERVICE: Final = "mcp-gateway"
MAX_ATTRIBUTES: Final = 32
MAX_TEXT: Final = 256


def resource(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the attributes: name and version of the service, and what ``OTEL_RESOURCE_ATTRIBUTES`` adds.

    Replicas are told apart by ``HOSTNAME``, which containers have. ``OTEL_SERVICE_NAME`` goes before a name among the
    attributes. A pair that cannot be read is left out (specification §Resource SDK, Specifying resource information via
    an environment variable).
    """
    found = {"service.name": SERVICE, "service.version": __version__}
    if variables.get("HOSTNAME"):
        found["service.instance.id"] = printable(variables["HOSTNAME"], MAX_TEXT)
    for pair in variables.get("OTEL_RESOURCE_ATTRIBUTES", "").split(",")[:MAX_ATTRIBUTES]:
        key, mark, value = pair.partition("=")
        if mark and key.strip():
            found[printable(key.strip(), MAX_TEXT)] = printable(unquote(value.strip()), MAX_TEXT)
    name = variables.get("OTEL_SERVICE_NAME", "").strip()
    return found | {"service.name": printable(name, MAX_TEXT)} if name else found
