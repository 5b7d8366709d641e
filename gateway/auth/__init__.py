"""Who calls: credentials to principals. May import ``config``, ``state``, ``telemetry`` and below; never HTTP."""
