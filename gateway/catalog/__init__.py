"""What the servers offer, gathered and named: collect, keep, build, refresh. Knows no clients and no policies."""
