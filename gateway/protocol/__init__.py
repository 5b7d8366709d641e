"""MCP on the wire: pure functions and frozen values. No I/O, no asyncio, no config."""
