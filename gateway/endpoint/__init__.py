"""The MCP URL: from bytes of a client to a call, and from an outcome back to bytes. Both eras, no policy."""
