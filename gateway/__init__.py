"""One authenticated MCP endpoint in front of all the tools a team has."""

__version__ = "0.1.0"
