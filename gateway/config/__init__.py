"""YAML to frozen models: the only home of pydantic and yaml. Imports ``model``, ``protocol`` and ``errors`` alone."""
