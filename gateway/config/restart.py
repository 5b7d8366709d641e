"""Which settings need a restart, so that a reload can say so instead of ignoring a change."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel

from gateway.config.reading import Reading
from gateway.config.root import Config, LoadedConfig
from gateway.config.sinks import OTLP
from gateway.config.sources import Sources

RESTART_SECTIONS: Final = ("listen", "admin", "state", "audit")


def restart_needed(running: Config, wanted: Config) -> list[str]:
    """Return the dotted paths of settings that differ and take effect only after a restart."""
    changed: list[str] = []
    for section in RESTART_SECTIONS:
        before: BaseModel = getattr(running, section)
        after: BaseModel = getattr(wanted, section)
        names = type(before).model_fields
        changed += [f"{section}.{name}" for name in names if getattr(before, name) != getattr(after, name)]
    if _records_go_there(running) and running.telemetry.otlp != wanted.telemetry.otlp:
        # Traces follow at once; the log's sinks are opened with the log.
        changed.append("telemetry.otlp")
    return changed


def _records_go_there(config: Config) -> bool:
    return any(sink.get_secret_value() == OTLP for sink in config.audit.sinks)


def with_running_sections(running: LoadedConfig, wanted: LoadedConfig) -> LoadedConfig:
    """Return the wanted config with the sections that need a restart as they run."""
    kept = {section: getattr(running.config, section) for section in RESTART_SECTIONS}
    return wanted.model_copy(update={"config": wanted.config.model_copy(update=kept)})


def with_running_files(running: Sources, wanted: Sources) -> Sources:
    """Return what a load drew on, with the files of the sections that stay as they run; reads those it did not."""
    kept = {loc: path for loc, path in running.referred.items() if loc[0] in RESTART_SECTIONS}
    others = {loc: path for loc, path in wanted.referred.items() if loc[0] not in RESTART_SECTIONS}
    reading = Reading()
    for loc, path in kept.items():
        if path not in wanted.files:
            reading.refer(loc, path)
    return Sources({**wanted.files, **reading.sources().files}, wanted.patterns, {**others, **kept})
