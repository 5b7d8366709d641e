"""The admin listener: health, metrics, status and the acts of operators. Never reachable from the endpoint's port."""
