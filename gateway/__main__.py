"""``python -m gateway`` is ``mcp-gateway``."""

from __future__ import annotations

import sys

# First: from here on a signal ends the program without a traceback, while all the rest is read.
from gateway import early
from gateway.cli.main import main


def run() -> int:
    """Run the command and return its exit code; 130 where it was interrupted before it could look after that."""
    try:
        early.hand_back()
        return main()
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(run())
