"""Log lines: one JSON object a line on stderr, whatever the fields hold; the only home of structlog.

An event is a short constant, everything variable is a field. Fields are escaped and cut here, so that no foreign
text can forge a line, move a terminal's cursor or fill a disk (S152). Works before ``configure`` as well: JSON, info.
Writing a line never raises: a gateway whose stderr is gone still serves.
"""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias

import structlog
from structlog.typing import EventDict, WrappedLogger

from gateway.protocol import rawjson
from gateway.telemetry.text import cut_bytes, printable

Format: TypeAlias = Literal["json", "console"]
Plain: TypeAlias = "bool | int | float | str | list[Plain] | dict[str, Plain] | None"

MAX_STRING: Final = 1024
"""Bytes of UTF-8 that one string of a line may have."""
MAX_VALUES: Final = 64
"""Values in one container field, nested ones included; the rest is left out and counted."""
ELIDED: Final = "_elided"
"""Member that says how many members of a mapping were left out."""
_MAX_DEPTH: Final = 4
_MAX_INT: Final = 2**63
_MAX_FRAMES: Final = 8
_EVENT_WIDTH: Final = 18

_LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
_RESERVED: Final = frozenset({"time", "level", "area", "event"})
# Loggers of libraries that would write raw request targets or argv, or much more than an operator can use.
_QUIET: Final = {
    "aiohttp.access": logging.ERROR,
    "asyncio": logging.WARNING,
    "aiohttp": logging.INFO,
    # Its warnings quote a client's ``tracestate`` that is none.
    "opentelemetry.trace.span": logging.ERROR,
}


class Logger(Protocol):
    """One area's way to the log. ``event`` is a short constant such as ``server_restarted``; fields carry the rest."""

    def debug(self, event: str, /, **fields: object) -> None: ...

    def info(self, event: str, /, **fields: object) -> None: ...

    def warning(self, event: str, /, **fields: object) -> None: ...

    def error(self, event: str, /, **fields: object) -> None: ...


@dataclass(slots=True)
class _Output:
    """How lines are written now; logging is the process's, so there is one, and loggers read it at every line."""

    threshold: int = logging.INFO
    console: structlog.typing.Processor | None = None


_output: Final = _Output()


class _Stderr:
    """Writes finished lines to whatever stderr is at that moment."""

    def write(self, line: str) -> None:
        try:
            sys.stderr.write(line + "\n")
            sys.stderr.flush()
        except (OSError, ValueError, AttributeError):
            # Stderr is closed, full or absent (None): a line is lost, a call is not.
            return

    debug = info = warning = error = write


class AreaLogger:
    """The logger of one area of the gateway; asks for the level before it does any work."""

    __slots__ = ("_bound",)

    def __init__(self, area: str) -> None:
        self._bound = structlog.wrap_logger(
            _Stderr(),
            processors=[
                structlog.processors.add_log_level,
                structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
                _clean_fields,
                _render,
            ],
            wrapper_class=structlog.BoundLogger,
            area=area,
        )

    def debug(self, event: str, /, **fields: object) -> None:
        if _output.threshold <= logging.DEBUG:
            self._bound.debug(event, **_named(fields))

    def info(self, event: str, /, **fields: object) -> None:
        if _output.threshold <= logging.INFO:
            self._bound.info(event, **_named(fields))

    def warning(self, event: str, /, **fields: object) -> None:
        if _output.threshold <= logging.WARNING:
            self._bound.warning(event, **_named(fields))

    def error(self, event: str, /, **fields: object) -> None:
        self._bound.error(event, **_named(fields))


def get_logger(area: str) -> Logger:
    """Return the logger of an area such as ``policy`` or ``downstream.stdio``."""
    return AreaLogger(area)


def configure(format: Format, level: str) -> None:  # noqa: A002 - the config's word for it.
    """Set format and level of every logger, and route the lines of libraries through the same pipeline.

    Raises:
        ValueError: a level other than debug, info, warning and error.
    """
    if level not in _LEVELS:
        raise ValueError(f"log level must be one of {', '.join(_LEVELS)}")
    _output.threshold = _LEVELS[level]
    console = structlog.dev.ConsoleRenderer(_EVENT_WIDTH, colors=_is_terminal(), sort_keys=False)
    _output.console = console if format == "console" else None
    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if isinstance(handler, LibraryHandler)]:
        root.removeHandler(handler)
    root.addHandler(LibraryHandler())
    root.setLevel(_LEVELS[level])
    for name, least in _QUIET.items():
        logging.getLogger(name).setLevel(max(least, _LEVELS[level]))


class LibraryHandler(logging.Handler):
    """Turns records of the standard library's logging into our lines.

    An exception is told by its type and frames, never by its text: a parser's complaint quotes the request, and
    with it the credential in it (S46).
    """

    def __init__(self) -> None:
        super().__init__()
        self._log = get_logger("library")

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record; a record whose own arguments do not fit its format is written without them."""
        try:
            message = record.getMessage()
        except (TypeError, ValueError):
            message = str(record.msg)
        # The lines after asyncio's first one are reprs of tasks and futures, with the exception's text in them.
        fields: dict[str, object] = {"logger": record.name, "message": message.partition("\n")[0]}
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            fields |= {"error": type(error).__name__, "frames": frames_of(error)}
        write = {logging.ERROR: self._log.error, logging.WARNING: self._log.warning, logging.INFO: self._log.info}
        level = min(record.levelno // 10 * 10, logging.ERROR)
        write.get(level, self._log.debug)("library_log", **fields)


def frames_of(error: BaseException) -> list[str]:
    """Return where an exception came from, innermost last: ``file:line function``, without any values."""
    frames = traceback.extract_tb(error.__traceback__)[-_MAX_FRAMES:]
    return [f"{frame.filename.rpartition('/')[2]}:{frame.lineno} {frame.name}" for frame in frames]


def on_crash(log: Logger) -> Callable[[str, BaseException], None]:
    """Return what a ``TaskSet`` calls for a task that crashed: it tells the error's type and frames, never its text."""

    def report(task: str, error: BaseException) -> None:
        log.error("task_crashed", task=task, error=type(error).__name__, frames=frames_of(error))

    return report


def _is_terminal() -> bool:
    try:
        return sys.stderr.isatty()
    except (ValueError, AttributeError):
        return False


def _named(fields: dict[str, object]) -> dict[str, object]:
    if _RESERVED.isdisjoint(fields):
        return fields
    return {f"{name}_" if name in _RESERVED else name: value for name, value in fields.items()}


def _clean_fields(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    return {_text(str(name)): clean(value) for name, value in event.items()}


def _render(logger: WrappedLogger, method: str, event: EventDict) -> str:
    if _output.console is not None:
        # A person at a terminal knows the day, and what the areas are is for programs that filter.
        event["timestamp"] = str(event.pop("time"))[11:19]
        event.pop("area", None)
        return str(_output.console(logger, method, event))
    head = {name: event.pop(name) for name in ("time", "level", "area", "event") if name in event}
    return rawjson.encode({**head, **event}).decode()


def clean(value: object) -> Plain:
    """Make a value that is safe in a line: strings escaped and cut, containers bounded, the rest by its ``str``.

    Secrets of the config show as asterisks, which is how their ``str`` reads.
    """
    return _clean(value, iter(range(MAX_VALUES)), _MAX_DEPTH)


def _clean(value: object, room: Iterator[int], depth: int) -> Plain:
    match value:
        case None | bool() | float():
            return value
        case int():
            return int(value) if -_MAX_INT < value < _MAX_INT else f"integer of {value.bit_length()} bits"
        case str():
            return _text(value)
        case bytes():
            return _text(repr(value[:MAX_STRING]))
        case Mapping() if depth:
            return _clean_mapping(value, room, depth - 1)
        case list() | tuple() | set() | frozenset() if depth:
            return _clean_items(value, room, depth - 1)
        case Mapping() | list() | tuple() | set() | frozenset():
            return f"{len(value)} more"
        case _:
            return _text(str(value))


def _clean_mapping(value: Mapping[object, object], room: Iterator[int], depth: int) -> dict[str, Plain]:
    kept: dict[str, Plain] = {}
    for count, (name, item) in enumerate(value.items()):
        if next(room, None) is None:
            kept[ELIDED] = f"{len(value) - count} more"
            break
        kept[_text(str(name))] = _clean(item, room, depth)
    return kept


def _clean_items(
    value: list[object] | tuple[object, ...] | set[object] | frozenset[object], room: Iterator[int], depth: int
) -> list[Plain]:
    kept: list[Plain] = []
    for count, item in enumerate(value):
        if next(room, None) is None:
            kept.append(f"{len(value) - count} more")
            break
        kept.append(_clean(item, room, depth))
    return kept


def _text(value: str) -> str:
    return cut_bytes(printable(value, MAX_STRING), MAX_STRING)


__all__ = ["Format", "Logger", "clean", "configure", "frames_of", "get_logger", "on_crash"]
