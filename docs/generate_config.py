"""Writes ``docs/config.md`` from the models: ``python docs/generate_config.py``."""

from __future__ import annotations

from pathlib import Path

from gateway.config.reference import render

HERE = Path(__file__).parent


def main() -> None:
    """Write the page beside this file."""
    example = (HERE / "gateway.example.yaml").read_text(encoding="utf-8")
    (HERE / "config.md").write_text(render(example), encoding="utf-8")


if __name__ == "__main__":
    main()
