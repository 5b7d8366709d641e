"""Who calls: credentials to principals. May import ``config``, ``state``, ``telemetry`` and below.

Only ``fetch`` speaks HTTP, as a client; no module here sees a request.
"""
