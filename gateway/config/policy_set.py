"""Policy files by themselves, without the config that would name them: as strict, but for names it alone knows.

Which servers and clients there are is not known here, so references to them are not judged.
"""

from __future__ import annotations

import glob
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import ValidationError

from gateway.config.expand import Expansion, Source
from gateway.config.loader import digest_of, in_order, positions_of, refuse_nothing
from gateway.config.places import Document, Places, Tree
from gateway.config.policy_files import PolicyFiles
from gateway.config.policy_rules import judge_names
from gateway.config.reading import MAX_CONFIG, FileProblem, Reading, Unreadable
from gateway.config.root import Config, LoadedConfig
from gateway.config.shape import is_secret
from gateway.config.subject import Findings
from gateway.config.translate import Translation
from gateway.errors import ConfigError


def load_policies(paths: Sequence[Path], environ: Mapping[str, str]) -> LoadedConfig:
    """Read policy files into a config that has nothing but their policies.

    Raises:
        Unreadable: a file cannot be read.
        ConfigError: with every problem found, each with file, line, path and, where there is one, a hint.
    """
    reading = Reading()
    for path in paths:
        try:
            reading.read(path, MAX_CONFIG)
        except FileProblem as problem:
            raise Unreadable(path, str(problem)) from None
    main = Document(str(paths[0]), {}, {})
    places = Places(main)
    files = PolicyFiles(Path(), reading, places)
    entries: dict[int, Tree] = {index: glob.escape(str(path)) for index, path in enumerate(paths)}
    files.gather(entries, main)
    root: dict[str, Tree] = {"policies": files.policies}
    findings = Findings(places, files.problems)
    findings.settled = frozenset(refuse_nothing(root, findings))
    expansion = Expansion(Source(environ, paths[0].absolute().parent, reading, is_secret))
    tree = expansion.expand(root)
    assert isinstance(tree, dict)
    for failure in expansion.failures:
        findings.problem(failure.loc, failure.text, failure.hint)
    judge_names(tree, findings)
    try:
        config = Config.model_validate(tree)
    except ValidationError as error:
        translation = Translation(tree, places, lambda loc: loc not in expansion.referring)
        found = [problem for loc, problem in translation.problems(error) if not findings.is_settled(loc)]
        raise ConfigError(in_order([*findings.problems, *found])) from None
    if findings.problems:
        raise ConfigError(in_order(findings.problems))
    return LoadedConfig(
        config=config,
        path=paths[0].absolute(),
        digest=digest_of(files.data),
        notes=findings.notes,
        sources=reading.sources(),
        positions=positions_of(main, tree, places),
    )
