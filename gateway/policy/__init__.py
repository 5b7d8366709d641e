"""Who may see and call what, and how often. May import ``config``, ``state``, ``telemetry`` and below; never HTTP."""
