"""What outlives a request and a process. May import ``model``, ``protocol`` and ``errors``; knows no MCP."""
