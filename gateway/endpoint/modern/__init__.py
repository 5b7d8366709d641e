"""The era without sessions: everything a request needs travels with it."""
