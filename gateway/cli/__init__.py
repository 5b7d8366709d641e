"""One module per command group, each with `register` and `run`; no logic of the gateway itself."""
