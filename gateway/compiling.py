"""Compiles what a config says in texts of its own: policies, and what is worth an alert. Pure."""

from __future__ import annotations

from gateway.alerts.watch import Watch
from gateway.config.root import LoadedConfig
from gateway.errors import ConfigError
from gateway.policy.engine import Engine


def compiled(loaded: LoadedConfig) -> Engine:
    """Compile the policies of a config, and look whether what else it says in such texts can be read.

    Raises:
        ConfigError: something cannot; the problems say where it is written.
    """
    try:
        engine = Engine.build(loaded)
        Watch.of(loaded)
    except ConfigError as error:
        raise ConfigError([loaded.locate(problem) for problem in error.problems]) from None
    return engine
