"""What a reload may not do that a start may.

It may not take something away from what runs because a file is missing, nor rely on what only a restart changes.
"""

from __future__ import annotations

import ssl
from dataclasses import replace
from pathlib import Path

from gateway.config.places import dotted, shown
from gateway.config.restart import with_running_sections
from gateway.config.root import LoadedConfig
from gateway.config.start_rules import start_problems
from gateway.errors import Problem


def reload_problems(running: LoadedConfig, wanted: LoadedConfig) -> list[Problem]:
    """Return every reason not to put ``wanted`` in force in place of ``running`` (S182)."""
    lost = [*_lost_servers(running, wanted), *_lost_files(running, wanted), *_lost_authorities(running, wanted)]
    return [*lost, *_open_until_restart(running, wanted)]


def renewed(running: LoadedConfig, wanted: LoadedConfig) -> frozenset[str]:
    """Return the servers of whose files, such as authorities to trust, one has another content."""
    return frozenset(
        str(loc[1])
        for loc, path in wanted.sources.referred.items()
        if loc[0] == "servers"
        and (before := running.sources.files.get(path)) is not None
        and before.digest != wanted.sources.files[path].digest
    )


def _open_until_restart(running: LoadedConfig, wanted: LoadedConfig) -> list[Problem]:
    """The address of the endpoint stays as it is, so what is safe at the one that is wanted may not be so here."""
    if start_problems(wanted):
        # Those are told by themselves.
        return []
    hint = "the gateway listens there until it is restarted: restart it with this config, or change that alone first"
    return [replace(problem, hint=hint) for problem in start_problems(with_running_sections(running, wanted))]


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


def _lost_authorities(running: LoadedConfig, wanted: LoadedConfig) -> list[Problem]:
    """What a server that runs is to be known by from now on has to be readable: it would be reached no more."""
    problems = []
    for loc, path in wanted.sources.referred.items():
        if loc[-1] != "ca" or not (loc[0] == "servers" and loc[1] in running.config.servers):
            continue
        before, now = running.sources.files.get(path), wanted.sources.files[path]
        if before is not None and (before.digest == now.digest or now.problem):
            # As it runs, or told as a file that is gone.
            continue
        if now.problem or not _are_certificates(path):
            text = f"the file {shown(str(path))} {now.problem or 'cannot be read as certificates'}"
            problems.append(wanted.locate(Problem(text, path=dotted(loc), hint="PEM is needed")))
    return problems


def _are_certificates(path: Path) -> bool:
    try:
        ssl.create_default_context(cafile=path)
    except (OSError, ssl.SSLError):
        return False
    return True
