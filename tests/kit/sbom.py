"""A bill of materials, judged by the schema of its own specification."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final, TypeAlias

import jsonschema_rs

from tests.kit.chart import programs

Json: TypeAlias = dict[str, Any]

_PACKAGE: Final = re.compile(r"(?:^|/)node_modules/(?:@[^/]+/)?[^/@]+/package\.json$")


def fault(file: Path) -> str:
    """Return what is wrong with a CycloneDX file, nothing if it is one."""
    bill: Json = json.loads(file.read_text("utf-8"))
    folder = next(iter((programs("image") / "lib").glob("python*/site-packages/cyclonedx/schema/_res")))
    schemas: dict[str, Json] = {path.name: json.loads(path.read_text("utf-8")) for path in folder.glob("*.schema.json")}
    name = f"bom-{bill['specVersion']}.SNAPSHOT.schema.json"
    # They name each other by file, beside the id of the one that does.
    beside = schemas[name]["$id"].rpartition("/")[0]
    others = [path for path in schemas if not path.startswith("bom-")]
    registry = jsonschema_rs.Registry([(f"{beside}/{path}", schemas[path]) for path in others])
    validator = jsonschema_rs.validator_for(schemas[name], registry=registry, offline=True)
    return "" if validator.is_valid(bill) else "; ".join(str(error) for error in validator.iter_errors(bill))


def node_packages(modules: Path) -> set[tuple[str, str]]:
    """Return name and version of every package in a ``node_modules`` folder, and of those that they bring along."""
    files = (path for path in modules.rglob("package.json") if _PACKAGE.search(path.as_posix()))
    found: list[Json] = [json.loads(path.read_text("utf-8")) for path in files]
    return {(each["name"], each["version"]) for each in found}
