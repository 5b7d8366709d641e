"""Writes the tables of ``docs/protocol.md`` from the tests: ``python docs/generate_protocol.py``."""

from __future__ import annotations

from pathlib import Path

from tests.conformance import table as suite
from tests.matrix import table as matrix

PAGE = Path(__file__).with_name("protocol.md")


def main() -> None:
    """Write the page beside this file."""
    PAGE.write_text(suite.written(matrix.written(PAGE.read_text(encoding="utf-8"))), encoding="utf-8")


if __name__ == "__main__":
    main()
