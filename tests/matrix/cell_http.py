"""The server of the matrix over HTTP: ``python -m tests.matrix.cell_http NAME ERA PORT``, at ``127.0.0.1:PORT/mcp``.

Beside ``cell_world``, since a server on pipes starts much faster without an HTTP library.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress

from tests.conformance.over_http import serve
from tests.matrix.cell_world import CellWorld

if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(serve(CellWorld(name=sys.argv[1], era=sys.argv[2]), sys.argv[2], int(sys.argv[3])))
