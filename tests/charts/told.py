"""What is told twice about the chart: its README, and the descriptions in its values schema.

Both come from the comments of ``values.yaml`` that begin with ``# --`` (``docs/generate_chart.py`` writes them).
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, TypeAlias

import yaml

from tests.kit.chart import CHART

Json: TypeAlias = dict[str, Any]

_KEY: Final = re.compile(r"( *)([A-Za-z_][A-Za-z0-9_]*):")


def comments(values: str) -> dict[str, str]:
    """Return the text of each ``# --`` comment by the dotted path of the value below it, in the file's order."""
    found: dict[str, str] = {}
    stack: list[tuple[int, str]] = []
    pending: list[str] = []
    for line in values.splitlines():
        text = line.strip()
        if text.startswith("# -- "):
            pending = [text.removeprefix("# -- ")]
        elif text.startswith("#") and pending:
            pending.append(text.lstrip("# "))
        elif match := _KEY.match(line):
            indent = len(match[1])
            stack = [level for level in stack if level[0] < indent]
            stack.append((indent, match[2]))
            if pending:
                found[".".join(name for _, name in stack)] = " ".join(pending)
            pending = []
        else:
            pending = []
    return found


def _property(schema: Json, path: str) -> Json:
    node = schema
    for name in path.split("."):
        node = node["properties"][name]
    return node


def described(schema: Json, texts: dict[str, str]) -> Json:
    """Return the schema with each text as the description of its property.

    Raises:
        KeyError: a value is not in the schema.
    """
    whole: Json = json.loads(json.dumps(schema))
    for path, text in texts.items():
        node = _property(whole, path)
        rest = {key: value for key, value in node.items() if key != "description"}
        node.clear()
        node.update({"description": text, **rest})
    return whole


def _value(values: Json, path: str) -> Any:
    node: Any = values
    for name in path.split("."):
        node = node[name]
    return node


def table(values: str) -> str:
    """Return the values as rows of a table."""
    parsed: Json = yaml.safe_load(values)
    rows = ["| value | default | what |", "|---|---|---|"]
    for path, text in comments(values).items():
        default = json.dumps(_value(parsed, path), ensure_ascii=False)
        cells = (f"`{path}`", f"`{default}`", text)
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(rows)


def readme() -> str:
    """Return the README: the template with the table of values in it."""
    values = (CHART / "values.yaml").read_text("utf-8")
    return (CHART / "README.md.tpl").read_text("utf-8").replace("{{ values }}", table(values))


def schema() -> str:
    """Return the schema with the descriptions of now."""
    values = (CHART / "values.yaml").read_text("utf-8")
    current = json.loads((CHART / "values.schema.json").read_text("utf-8"))
    return json.dumps(described(current, comments(values)), indent=2, ensure_ascii=False) + "\n"


def write() -> None:
    """Write both files."""
    (CHART / "values.schema.json").write_text(schema(), "utf-8")
    (CHART / "README.md").write_text(readme(), "utf-8")
