"""The dashboard: pages written here, on the server, that need no script. They ask; whatever decides is elsewhere."""
