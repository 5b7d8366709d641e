"""What a reload may not do that a start may: take something away from what runs, because a file is missing."""

from __future__ import annotations

from gateway.config.places import dotted, shown
from gateway.config.root import LoadedConfig
from gateway.errors import Problem


def reload_problems(running: LoadedConfig, wanted: LoadedConfig) -> list[Problem]:
    """Return every reason not to put ``wanted`` in force in place of ``running`` (S182)."""
    return [*_lost_servers(running, wanted), *_lost_files(running, wanted)]


def renewed(running: LoadedConfig, wanted: LoadedConfig) -> frozenset[str]:
    """Return the servers of whose files, such as authorities to trust, one has another content."""
    return frozenset(
        str(loc[1])
        for loc, path in wanted.sources.referred.items()
        if loc[0] == "servers"
        and (before := running.sources.files.get(path)) is not None
        and before.digest != wanted.sources.files[path].digest
    )


def _lost_servers(running: LoadedConfig, wanted: LoadedConfig) -> list[Problem]:
    """A server that cannot start for want of a secret is off; one that runs is not switched off for it."""
    lost = [name for name in running.config.servers if name in wanted.missing]
    hint = "the server runs; remove it, or give it what it wants"
    return [wanted.locate(Problem(wanted.off[name], path=dotted(("servers", name)), hint=hint)) for name in lost]


def _lost_files(running: LoadedConfig, wanted: LoadedConfig) -> list[Problem]:
    """A certificate that was there and is not any more would be missed with the next connection."""
    problems = []
    for loc, path in wanted.sources.referred.items():
        before, now = running.sources.files.get(path), wanted.sources.files[path]
        if now.problem and before is not None and not before.problem:
            text = f"the file {shown(str(path))} {now.problem}"
            problems.append(wanted.locate(Problem(text, path=dotted(loc))))
    return problems
