"""The tamper-evident account of every call. May import ``model``, ``config``, ``state``, ``telemetry`` and below."""
