"""What a signal does while the program is still being read: end it, quietly, with the code that shells give it.

Imported before everything else by the entry point alone. Without it a Ctrl-C in the first moments shows a traceback,
and as the first process of a container the program would not hear of a SIGTERM at all.
"""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import Final

_ENDING: Final = (signal.SIGINT, signal.SIGTERM)


def _end(number: int, frame: FrameType | None) -> None:
    # Nothing has been begun that would have to be put in order, and an exception could be caught on its way.
    os._exit(128 + number)


def take_over() -> None:
    """End the program on SIGINT and SIGTERM from now on, unless whoever started it had them ignored."""
    for number in _ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end)


def hand_back() -> None:
    """Let SIGINT be the exception again that commands know; SIGTERM ends the program until a command takes it."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


take_over()
