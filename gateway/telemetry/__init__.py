"""What operators see: log lines and metrics. May import ``model``, ``protocol`` and ``errors``; never a higher line."""
