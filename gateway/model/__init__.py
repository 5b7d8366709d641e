"""The domain's nouns. May import ``protocol`` and ``errors``; knows no config, no sockets, no files."""
