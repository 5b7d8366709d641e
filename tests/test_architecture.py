"""The rules of the source tree, run as tests: layers, homes of libraries, words, sizes, mirrors, banned calls."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[1]
SOURCE: Final = ROOT / "gateway"

LAYERS: Final[tuple[frozenset[str], ...]] = tuple(
    frozenset(line.split())
    for line in (
        "early errors network privacy tasks audience",
        "protocol text",
        "model",
        "config state telemetry",
        "audit auth policy pinning approvals replicas",
        "downstream",
        "catalog",
        "pipeline",
        "endpoint admin",
        "attendance durable listings news watched witness alerts traffic reloading",
        "accounts compiling rollcall wiring auditing tracing admission recollection report judgement replay trust"
        " samples sharing neighbours suspicion oversight",
        "personal",
        "runtime pinboard approvalboard",
        "operations dashboard",
        "app",
        "cli",
        "__main__",
    )
)
"""Lowest first; a package imports from lines below its own, never from its own line."""

CLIENT_HOMES: Final = (
    "alerts/webhook.py",
    "downstream/",
    "auth/fetch.py",
    "audit/sinks/webhook.py",
    "telemetry/collector.py",
    "cli/",
)
WEB_HOMES: Final = ("endpoint/", "admin/", "app.py")
HOMES: Final[dict[str, tuple[str, ...]]] = {
    "aiohttp": (*CLIENT_HOMES, *WEB_HOMES),
    "aiohttp's client": CLIENT_HOMES,
    "aiohttp's server": WEB_HOMES,
    "cel_expr_python": ("policy/conditions.py",),
    "google": ("telemetry/traces.py",),
    "opentelemetry": ("telemetry/traces.py",),
    "cryptography": ("state/sealing.py", "audit/", "endpoint/tls.py"),
    "json": ("protocol/rawjson.py",),
    "jsonschema_rs": ("policy/schemas.py",),
    "jwt": ("auth/", "downstream/oauth/client.py"),
    "msgspec": ("protocol/rawjson.py",),
    "prometheus_client": ("telemetry/metrics.py",),
    "pydantic": ("config/",),
    "pydantic_core": ("config/",),
    "redis": ("state/redis.py",),
    "structlog": ("telemetry/logs.py",),
    "uvloop": ("cli/", "app.py"),
    "yaml": ("config/",),
    "multidict": ("",),
    "yarl": ("",),
}
"""Where a library, or ``json``, may be imported; a prefix of the path inside the package."""

ERA_HOMES: Final = (
    "protocol/",
    "endpoint/modern/",
    "endpoint/legacy/",
    "endpoint/discover.py",
    "downstream/modern.py",
    "downstream/legacy.py",
    "downstream/probe.py",
    "downstream/parking.py",
)
ERA_WORD: Final = re.compile(
    r"initialize|notifications/initialized|.*(mcp-session-id|last-event-id|server/discover|subscriptions/listen"
    r"|inputresponses|io\.modelcontextprotocol/).*",
    re.IGNORECASE | re.DOTALL,
)
"""Whole literals for words that prose uses too, parts of literals for the others."""

MAX_FILE, MAX_FUNCTION, MAX_PARAMETERS, MAX_BROAD = 400, 80, 5, 10


@dataclass(frozen=True)
class Module:
    """One parsed source file."""

    path: Path

    @property
    def inside(self) -> str:
        """Path inside the package, with slashes."""
        return self.path.relative_to(SOURCE).as_posix()

    @property
    def name(self) -> str:
        """Dotted name."""
        return ".".join(self.path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")

    @property
    def text(self) -> str:
        return self.path.read_text("utf-8")

    @property
    def tree(self) -> ast.Module:
        return _parse(self.path)

    def imports(self) -> Iterator[tuple[str, int]]:
        """Yield every imported dotted name, with one more part than the module for ``from … import name``."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from ((alias.name, node.lineno) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)


@cache
def _parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"), feature_version=(3, 11))


MODULES: Final = tuple(Module(path) for path in sorted(SOURCE.rglob("*.py")))
NAMES: Final = frozenset(module.name for module in MODULES)


def _internal(imported: str) -> str | None:
    """Return the module of ours that an imported name belongs to."""
    if imported in NAMES:
        return imported
    parent = imported.rpartition(".")[0]
    return parent if parent in NAMES else None


def _layer(module: str) -> int | None:
    """Return the line of the table a module stands in; None for the package itself."""
    parts = module.split(".")
    if len(parts) == 1:
        return None
    found = [number for number, line in enumerate(LAYERS) if parts[1] in line]
    assert found, f"{module} stands on no line of LAYERS"
    return found[0]


def _package(module: str) -> str:
    return ".".join(module.split(".")[:2])


def _graph() -> dict[str, set[str]]:
    return {
        module.name: {found for name, _ in module.imports() if (found := _internal(name)) and found != module.name}
        for module in MODULES
    }


def test_a_package_imports_only_from_lower_lines() -> None:
    broken = []
    for importer, targets in _graph().items():
        for target in targets:
            mine, theirs = _layer(importer), _layer(target)
            if mine is None or theirs is None or _package(importer) == _package(target):
                continue
            if theirs >= mine:
                broken.append(f"{importer} imports {target}")
    assert broken == []


def test_there_is_no_import_cycle() -> None:
    graph = _graph()
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, f"cycle: {' -> '.join((*path[path.index(module) :], module))}"
        if module in done:
            return
        for target in sorted(graph[module]):
            visit(target, (*path, module))
        done.add(module)

    for module in sorted(graph):
        visit(module, ())


def _library(imported: str) -> str:
    """Return the key of ``HOMES`` for an imported name."""
    parts = imported.split(".")
    if parts[0] == "aiohttp" and len(parts) > 1:
        if parts[1].startswith("web"):
            return "aiohttp's server"
        if parts[1].lower().startswith("client") or parts[1].endswith("Connector") or parts[1] == "request":
            return "aiohttp's client"
    return parts[0]


def _uses(module: Module) -> Iterator[tuple[str, int]]:
    """Yield imported names, and what is taken from ``aiohttp`` by attribute."""
    yield from module.imports()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "aiohttp":
            yield f"aiohttp.{node.attr}", node.lineno


def test_every_library_has_one_home() -> None:
    broken = [
        f"{module.inside}:{line} imports {name}"
        for module in MODULES
        for name, line in _uses(module)
        if (homes := HOMES.get(_library(name))) is not None and not module.inside.startswith(homes)
    ]
    assert broken == []


def test_every_library_is_a_dependency_with_a_home_or_part_of_python() -> None:
    standard = sys.stdlib_module_names
    strangers = {
        f"{module.inside} imports {name}"
        for module in MODULES
        for name, _ in module.imports()
        if (top := name.split(".")[0]) not in standard and top not in ("gateway", *HOMES)
    }
    assert strangers == set()


def _literals(tree: ast.Module) -> Iterator[ast.Constant]:
    """Yield string literals that are no docstrings."""
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node


def test_words_of_an_era_stay_at_the_edges() -> None:
    broken = [
        f"{module.inside}:{node.lineno} says {node.value!r}"
        for module in MODULES
        if not module.inside.startswith(ERA_HOMES)
        for node in _literals(module.tree)
        if ERA_WORD.fullmatch(str(node.value))
    ]
    assert broken == []


def test_nothing_is_called_upstream() -> None:
    assert [module.inside for module in MODULES if "upstream" in module.text.lower()] == []


def test_files_and_functions_stay_small() -> None:
    long = [f"{module.inside}: {lines}" for module in MODULES if (lines := len(module.text.splitlines())) > MAX_FILE]
    for module in MODULES:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > MAX_FUNCTION:
                    long.append(f"{module.inside}:{node.lineno} {node.name}: {lines} lines")
    assert long == []


def test_functions_take_few_parameters() -> None:
    broken = []
    for module in MODULES:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                names = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
                count = len([name for name in names if name not in ("self", "cls")])
                if count > MAX_PARAMETERS:
                    broken.append(f"{module.inside}:{node.lineno} {node.name}: {count}")
    assert broken == []


def _only_prose(tree: ast.Module) -> bool:
    return all(isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) for node in tree.body)


@pytest.mark.parametrize(
    "module", [module for module in MODULES if not _only_prose(module.tree)], ids=lambda module: str(module.inside)
)
def test_every_module_has_a_test_file_of_its_own(module: Module) -> None:
    parts = module.path.relative_to(SOURCE)
    if module.path.name == "__init__.py" and module.path.parent == SOURCE:
        return
    expected = ROOT / "tests" / parts.parent / f"test_{parts.name}"
    assert expected.exists(), f"{expected.relative_to(ROOT)} is missing"
    assert "def test_" in expected.read_text("utf-8")


def test_every_module_and_package_says_why_it_is_there() -> None:
    assert [module.inside for module in MODULES if not ast.get_docstring(module.tree)] == []


BANNED: Final[dict[str, tuple[str, ...]]] = {
    "asyncio.create_task": (),
    "asyncio.ensure_future": (),
    "loop.create_task": ("tasks.py",),
    "print": ("cli/",),
    "time.sleep": (),
    "os.system": (),
    "os.popen": (),
    "eval": (),
    "exec": (),
    "datetime.utcnow": (),
    "pickle.loads": (),
    "yaml.load": (),
}
"""Calls, and where they are allowed all the same."""


def _called(node: ast.Call) -> str:
    return ast.unparse(node.func).removeprefix("datetime.datetime").removeprefix("asyncio.get_running_loop().")


def test_nothing_calls_what_is_banned() -> None:
    broken = []
    for module in MODULES:
        for node in ast.walk(module.tree):
            if not isinstance(node, ast.Call):
                continue
            name = _called(node)
            if name in BANNED and not module.inside.startswith(BANNED[name] or ("-",)):
                broken.append(f"{module.inside}:{node.lineno} calls {name}")
            if name.endswith("datetime.now") and not (node.args or node.keywords):
                broken.append(f"{module.inside}:{node.lineno} asks for a time without a zone")
            if any(keyword.arg == "shell" for keyword in node.keywords):
                broken.append(f"{module.inside}:{node.lineno} uses a shell")
    assert broken == []


def test_nothing_is_global_imported_inline_or_typed_any() -> None:
    broken = []
    for module in MODULES:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Global):
                broken.append(f"{module.inside}:{node.lineno} global")
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                broken += [
                    f"{module.inside}:{inner.lineno} imports inside a function"
                    for inner in ast.walk(node)
                    if isinstance(inner, ast.Import | ast.ImportFrom)
                ]
        if module.inside != "protocol/rawjson.py":
            broken += [f"{module.inside}:{line} Any" for name, line in module.imports() if name == "typing.Any"]
    assert broken == []


def test_broad_excepts_are_few_and_say_why() -> None:
    broad, silent = [], []
    for module in MODULES:
        lines = module.text.splitlines()
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ExceptHandler) and (
                node.type is None or ast.unparse(node.type) in ("Exception", "BaseException")
            ):
                place = f"{module.inside}:{node.lineno}"
                broad.append(place)
                around = lines[node.lineno - 2 : node.lineno + 1]
                if not any("#" in line for line in around):
                    silent.append(place)
    assert silent == []
    assert len(broad) <= MAX_BROAD, broad


def test_suppressions_name_their_code_and_reason_and_nothing_is_left_to_do() -> None:
    bare = re.compile(
        r"#\s*type:\s*ignore(?!\[[a-z-]+(, ?[a-z-]+)*\]\s+#\s*\S)|#\s*noqa(?!: ?[A-Z])|\b(TODO|FIXME|XXX)\b"
    )
    broken = [
        f"{path.relative_to(ROOT)}:{number} {line.strip()}"
        for folder in ("gateway", "tests", "demo")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if path != Path(__file__)
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if bare.search(line)
    ]
    assert broken == []
