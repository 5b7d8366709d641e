"""Names of callers, as they may be written. Light, since making a key takes nothing else of the config."""

from __future__ import annotations

import re
from typing import Final

CLIENT_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
ANONYMOUS: Final = "anonymous"
