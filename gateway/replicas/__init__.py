"""Several gateways that are one to their clients: who they are to each other, and what they pass on."""
