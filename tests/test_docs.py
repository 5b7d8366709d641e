"""The documentation, held to the source: everything an operator can name is in it, and what it shows works."""

from __future__ import annotations

import argparse
import ast
import dataclasses
import importlib
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from gateway.audit.events import EVENTS
from gateway.cli.commands import CLIENTS, COMMANDS
from gateway.config.root import Config
from gateway.config.servers import Server
from gateway.config.types import Rate
from gateway.downstream.command import INHERITED
from gateway.errors import Reason
from gateway.protocol import codes
from gateway.telemetry.metrics import Metrics

ROOT: Final = Path(__file__).parents[1]
DOCS: Final = ROOT / "docs"
TOP: Final = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
PAGES: Final = tuple(sorted([*(ROOT / name for name in TOP), *DOCS.rglob("*.md")]))
# S256 is a method of PKCE.
ID: Final = re.compile(r"(?<!\w)(?!S256\b)(S\d{2,3}|G\d{3})(?!\w)")
# In two pieces, so that this file does not name what it forbids.
FORBIDDEN: Final = ("/wo" + "rk/", "shar" + "ed/", "/ro" + "ot/", "/tm" + "p/", "registry.npm" + "js", "pypi" + ".org")


def _text(name: str) -> str:
    return (DOCS / name).read_text("utf-8")


def _names(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_every_metric_is_documented() -> None:
    page = _text("metrics.md")
    scraped = Metrics().render("")[0].decode()
    names = {line.split()[2] for line in scraped.splitlines() if line.startswith("# TYPE mcp_")}

    assert names
    assert [name for name in sorted(names) if f"`{name}`" not in page] == []


def _commands(parser: argparse.ArgumentParser, prefix: str = "") -> Iterator[str]:
    """Yield every command that does something, such as ``audit verify``."""
    groups = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not groups:
        yield prefix.strip()
    for group in groups:
        for name, child in group.choices.items():
            yield from _commands(child, f"{prefix} {name}")


def test_every_label_of_a_metric_is_in_its_row_and_no_other() -> None:
    rows = {
        found[1]: found[2]
        for found in re.finditer(r"^\| `(\w+)` \| \w+ \| (.*?) \|", _text("metrics.md"), re.MULTILINE)
    }
    # The library has no other way to tell them of a metric without samples.
    collectors: list[Any] = list(Metrics()._registry._names_to_collectors.values())
    labels = {
        str(one._name): set(one._labelnames)
        for one in collectors
        if getattr(one, "_labelnames", ()) and one._name.startswith("mcp_")
    }
    told = {name.removesuffix("_total"): set(re.findall(r"`(\w+)`", cell)) for name, cell in rows.items()}

    assert len(labels) > 30
    assert {name: told.get(name) for name in labels} == labels


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    subparsers = parser.add_subparsers()
    for command in COMMANDS.values():
        command.declare(subparsers)
    return parser


def test_every_command_is_documented() -> None:
    parser = _parser()
    page = _text("cli.md")

    missing = [name for name in _commands(parser) if f"| `{name}" not in page]

    assert missing == []


def _options(parser: argparse.ArgumentParser, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield each command with each of its own options, by the long name where it has one."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, child in action.choices.items():
                yield from _options(child, f"{prefix} {name}")
        elif action.option_strings:
            yield prefix.strip(), max(action.option_strings, key=len)


def test_every_option_of_a_command_is_in_its_row() -> None:
    common = {"--help", "--config", "--json"}
    row = re.compile(r"^\| `([a-z]+(?: [a-z][a-z-]*)?).*$", re.MULTILINE)
    rows = {found[1]: found[0] for found in row.finditer(_text("cli.md"))}
    options = [(command, option) for command, option in _options(_parser()) if option not in common]

    assert len(options) > 30
    assert [f"{command} {option}" for command, option in options if f"{option}" not in rows.get(command, "")] == []


def _shown_commands(page: Path) -> Iterator[list[str]]:
    """Yield the words behind ``mcp-gateway`` wherever a page shows a command line of it."""
    text = page.read_text("utf-8")
    blocks = re.findall(r"^```(?:console)?\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    lines = [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    for line in [*lines, *re.findall(r"`([^`]+)`", prose)]:
        if re.match(r"(?:\S+/)?mcp-gateway (?!--version$)[^A-Z]", line):
            yield shlex.split(line, comments=True)[1:]


COMMAND_LINES: Final = [pytest.param(words, id=" ".join(words)) for page in PAGES for words in _shown_commands(page)]


@pytest.mark.parametrize("words", COMMAND_LINES)
def test_a_command_line_that_is_shown_is_one(words: list[str]) -> None:
    _parser().parse_args(words)


@pytest.mark.parametrize("reason", list(Reason))
def test_every_refusal_has_a_row_in_troubleshooting(reason: Reason) -> None:
    assert f"| `{reason.value}` |" in _text("troubleshooting.md")


SOURCE: Final = "\n".join(path.read_text("utf-8") for path in (ROOT / "gateway").rglob("*.py"))
# What the operating system says is in no source of ours.
PLACEHOLDERS: Final = r"…|\bN\b|\bNAME\b|Address already in use"
SYMPTOMS: Final = [
    text
    for line in (DOCS / "troubleshooting.md").read_text("utf-8").splitlines()
    if line.startswith("| ")
    for text in re.findall(r"`([^`]+)`", line.split(" | ")[0])
]


@pytest.mark.parametrize("text", SYMPTOMS)
def test_the_texts_of_troubleshooting_are_those_of_the_source(text: str) -> None:
    pieces = [piece.strip(" :") for piece in re.split(PLACEHOLDERS, text)]

    assert [piece for piece in pieces if piece not in SOURCE] == []


def _written(code: int) -> str:
    """Write a code as pages do, with a minus sign."""
    return str(code).replace("-", "\N{MINUS SIGN}")


def test_every_error_code_is_in_troubleshooting() -> None:
    page = _text("troubleshooting.md")
    defined = [code for name, code in vars(codes).items() if name.isupper() and isinstance(code, int)]
    rows = [f"| {_written(code)} | `{reason.value}`" for reason, code in codes.REASON_CODES.items()]

    assert len(defined) > 8
    firsts = " ".join(line.split(" | ")[0] for line in page.splitlines() if line.startswith("| "))
    assert [code for code in defined if _written(code) not in firsts] == []
    assert [row for row in rows if row not in page] == []


def test_every_http_status_that_the_endpoint_makes_is_in_troubleshooting() -> None:
    page = _text("troubleshooting.md")
    endpoint = "\n".join(path.read_text("utf-8") for path in (ROOT / "gateway" / "endpoint").rglob("*.py"))
    made = {*re.findall(r"Rejection\(\s*(\d{3})\b", endpoint), *re.findall(r"_bad\((\d{3})\b", endpoint)}

    assert len(made) > 8
    assert [status for status in sorted(made) if not re.search(rf"^\| {status}\b", page, re.MULTILINE)] == []


def test_every_reason_not_to_start_is_in_troubleshooting() -> None:
    page = _text("troubleshooting.md")
    source = (ROOT / "gateway" / "config" / "start_rules.py").read_text("utf-8")
    texts = re.findall(r'text = "([^":]+)|_problem\(loaded, "[^"]+", "([^":]+)"', source)

    assert len(texts) > 4
    assert [text for pair in texts for text in pair if text and f"`{text}" not in page] == []


def _events(page: str) -> set[str]:
    """Read the list of events: ``group.one|two``."""
    [listed] = re.findall(r"^## Events\n\n(.*?)\n\n", page, re.DOTALL | re.MULTILINE)
    return {
        f"{group}.{name}" for group, names in re.findall(r"`([a-z]+)\.([a-z_|]+)`", listed) for name in names.split("|")
    }


def test_every_audit_event_is_documented_and_nothing_else_is() -> None:
    assert {name for name in _events(_text("audit.md")) if not name.startswith("admin.")} == EVENTS


def test_every_act_that_is_recorded_is_documented() -> None:
    """What the source writes as ``admin.…`` is there by its name, or by the beginning of it."""
    written = re.findall(r'events\.admin\(\s*f?"([a-z_]+)', SOURCE)
    documented = {name.removeprefix("admin.") for name in _events(_text("audit.md")) if name.startswith("admin.")}

    assert len(written) > 4
    assert [act for act in written if not any(name == act or name.startswith(act) for name in documented)] == []


def test_every_variable_that_is_read_is_documented() -> None:
    read = set(re.findall(r'(?:environ|variables)(?:\.get\(|\[)"([A-Z_]+)"', SOURCE))
    read |= set(re.findall(r'VARIABLE: Final = "([A-Z_]+)"', SOURCE))
    page = _text("cli.md")

    assert len(read) > 6
    assert [name for name in sorted(read) if f"`{name}`" not in page] == []


def test_every_variable_that_processes_inherit_is_documented() -> None:
    page = _text("servers.md")

    assert [name for name in INHERITED if not re.search(rf"`[^`]*\b{name}\b[^`]*`", page)] == []


def test_every_package_of_the_source_stands_in_the_architecture() -> None:
    page = _text("architecture.md")
    packages = [path.name for path in (ROOT / "gateway").iterdir() if (path / "__init__.py").exists()]

    assert len(packages) > 12
    assert [name for name in packages if f"`{name}`" not in page] == []


def test_every_client_that_snippet_knows_is_documented_and_the_other_way_round() -> None:
    shown = set(re.findall(r"<!-- snippet: client ([\w-]+) -->", _text("clients.md")))

    assert shown == set(CLIENTS)


def _refusals() -> Iterator[str]:
    """Yield the text of every refusal that the source builds, with … for what is filled in."""
    for path in (ROOT / "gateway").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("Failure", "Failure.by_server"):
                for argument in node.args:
                    pieces = argument.values if isinstance(argument, ast.JoinedStr) else [argument]
                    texts = [str(piece.value) if isinstance(piece, ast.Constant) else "…" for piece in pieces]
                    if any(len(text) > 20 for text in texts):
                        yield "".join(texts)


@pytest.mark.parametrize("text", sorted(set(_refusals())))
def test_every_refusal_that_a_model_reads_is_in_troubleshooting_by_its_text(text: str) -> None:
    assert [symptom for symptom in SYMPTOMS if symptom in text]


def _keys(schema: dict[str, Any], whole: dict[str, Any]) -> Iterator[str]:
    """Yield every property name below a JSON Schema, following its own references."""
    seen: set[str] = set()
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        reference = node.get("$ref", "")
        if reference:
            if reference not in seen:
                seen.add(reference)
                waiting.append(whole["$defs"][reference.rpartition("/")[2]])
            continue
        yield from node.get("properties", {})
        waiting += node.get("properties", {}).values()
        for keyword in ("items", "additionalProperties"):
            if isinstance(node.get(keyword), dict):
                waiting.append(node[keyword])
        for keyword in ("anyOf", "allOf", "oneOf"):
            waiting += node.get(keyword, [])


def test_every_key_of_the_config_is_documented() -> None:
    schema = Config.model_json_schema()
    page = _text("config.md")

    missing = [key for key in set(_keys(schema, schema)) if not re.search(rf"`[^`|]*\b{re.escape(key)}\b[^`]*`", page)]

    assert missing == []


LIMITS: Final = [
    pytest.param(cells[1], re.findall(r"`([\w.]+)`", cells[2]), id=cells[0])
    for line in (DOCS / "limits.md").read_text("utf-8").splitlines()
    if line.startswith("| ") and len(cells := line.strip("| ").split(" | ")) == 3 and cells[0] != "what"
]


def _constant(name: str) -> object:
    """Find ``package.module.NAME`` or ``package.module.Class.field`` below ``gateway``."""
    parts = name.split(".")
    for length in range(len(parts) - 1, 0, -1):
        try:
            module = importlib.import_module(".".join(["gateway", *parts[:length]]))
        except ModuleNotFoundError:
            continue
        value, *rest = parts[length:]
        if not rest:
            return getattr(module, value)
        (default,) = (field.default for field in dataclasses.fields(getattr(module, value)) if field.name == rest[0])
        return default
    raise AssertionError(f"no module of {name}")


def _default(key: str) -> object:
    """Find the default of a key of the config, or of a server."""
    node: Any = Config() if key.partition(".")[0] in Config.model_fields else Server(command="x")
    for part in key.split("."):
        node = getattr(node, part)
    return node


def _spellings(value: object) -> set[str]:
    """Return how a number may be written in the tables."""
    if isinstance(value, Rate):
        return {f"{value.count:,} a minute"} if value.seconds == 60 else set()
    assert isinstance(value, (int, float))
    words = {f"{value:,g}" if isinstance(value, float) else f"{value:,}"}
    units = (("min", 60), ("KiB", 2**10), ("MiB", 2**20))
    return words | {f"{value / size:g} {unit}" for unit, size in units if value >= size and value % size == 0}


@pytest.mark.parametrize(("said", "names"), LIMITS)
def test_numbers_in_limits_are_those_of_the_source(said: str, names: list[str]) -> None:
    assert names
    for name in names:
        value = _default(name) if name == name.lower() else _constant(name)
        written = rf"(?<![\d,.])(?:{'|'.join(map(re.escape, _spellings(value)))})(?![\d,.]\d|\d)"
        assert re.search(written, said), f"{name} is {value}, not {said}"


def test_every_number_of_limits_is_checked() -> None:
    assert len(LIMITS) > 40


def test_every_id_that_a_test_cites_is_in_the_assurance_and_the_other_way_round() -> None:
    listed = set(re.findall(r"^\| ([SG]\d+) \| \S", _text("assurance.md"), re.MULTILINE))
    cited = {
        found
        for path in (ROOT / "tests").rglob("*.py")
        if path != Path(__file__)
        for found in ID.findall(path.read_text("utf-8"))
    }

    assert sorted(cited - listed) == []
    assert sorted(listed - cited) == []


@pytest.mark.parametrize("page", PAGES, ids=_names)
def test_links_lead_somewhere_and_nothing_names_a_machine(page: Path) -> None:
    text = page.read_text("utf-8")
    links = re.findall(r"\]\((?!https?://|#)([^)#]+)", text)

    assert [link for link in links if not (page.parent / link).exists()] == []
    assert [word for word in FORBIDDEN if word in text] == []


def test_no_lock_file_names_a_registry() -> None:
    locks = [*ROOT.glob("requirements*.lock"), *(ROOT / "tests" / "environments").rglob("*lock*")]
    packages = [lock for lock in locks if lock.suffix in (".lock", ".json")]

    assert len(packages) >= 10
    for lock in packages:
        text = lock.read_text("utf-8")
        assert "http://" not in text, lock
        assert "--index-url" not in text, lock
        assert not re.search(r'"resolved":|https://[^"\s]*(registry|pypi)', text), lock


def test_the_license_is_the_one_that_the_package_names() -> None:
    assert "Apache License" in (ROOT / "LICENSE").read_text("utf-8")
    assert 'license = "Apache-2.0"' in (ROOT / "pyproject.toml").read_text("utf-8")
