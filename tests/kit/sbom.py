"""A bill of materials, judged by the schema of its own specification."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeAlias

import jsonschema_rs

from tests.kit.chart import programs

Json: TypeAlias = dict[str, Any]


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
