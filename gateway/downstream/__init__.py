"""The side of the servers: transports move bytes, dialects speak an era, the pool owns connections.

May import everything up to ``config``, ``state`` and ``telemetry``; knows no clients and no policies.
"""
