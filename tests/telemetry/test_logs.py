"""One JSON object a line, whatever the fields hold (S151 to S156, G108)."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest
from pydantic import SecretStr

from gateway.telemetry import logs
from gateway.telemetry.logs import MAX_STRING, MAX_VALUES, configure, frames_of, get_logger

CANARY = "canary-6f1d2c9a-do-not-show"


@pytest.fixture(autouse=True)
def _default_logging() -> Iterator[None]:
    """Begin and end with the defaults: logging is the process's, and other tests set it too."""
    _reset()
    yield
    _reset()


def _reset() -> None:
    configure("json", "info")
    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if isinstance(handler, logs.LibraryHandler)]:
        root.removeHandler(handler)
    root.setLevel(logging.WARNING)


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    err = capsys.readouterr().err
    assert err == "" or err.endswith("\n")
    return [json.loads(line) for line in err.splitlines()]


def test_a_line_is_a_json_object_with_time_level_area_and_event_first(capsys: pytest.CaptureFixture[str]) -> None:
    get_logger("policy").info("policy_loaded", count=3, names=["a", "b"])
    (line,) = lines(capsys)
    assert list(line) == ["time", "level", "area", "event", "count", "names"]
    assert line["level"] == "info"
    assert line["area"] == "policy"
    assert line["event"] == "policy_loaded"
    assert line["names"] == ["a", "b"]
    stamp = datetime.fromisoformat(str(line["time"]))
    assert stamp.utcoffset() == timedelta(0)
    assert str(line["time"]).endswith("Z")


@pytest.mark.parametrize(
    "hostile",
    [
        'x\n{"forged":true}',
        "a\r\nb",
        "\x1b[2J\x1b]0;title\x07",
        "nul\x00",
        "sep\u2028\u2029\x85",
        "rtl\u202e",
        "lone\ud800\udfff",
        "\U000e0041\u200b",
        "m" * 2**20,
        "ü" * 2**20,
        "\n" * 2**20,
    ],
)
def test_hostile_text_cannot_break_or_flood_a_line(hostile: str, capsys: pytest.CaptureFixture[str]) -> None:
    """S152, G108: in values, member names and nested containers alike."""
    get_logger("t").warning("seen", text=hostile, nested={hostile: [hostile]})
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert err[:-1].isprintable()
    line = json.loads(err)
    for text in (line["text"], *line["nested"], *next(iter(line["nested"].values()))):
        assert text.isprintable()
        assert len(text.encode()) <= MAX_STRING


def test_values_that_json_has_no_word_for_are_told_in_text(capsys: pytest.CaptureFixture[str]) -> None:
    get_logger("t").error(
        "odd", data=b"\x00\xff" * 4000, big=10**5000, cause=ValueError("bad\nthing"), flag=True, none=None, ratio=0.5
    )
    (line,) = lines(capsys)
    assert str(line["data"]).startswith("b'\\x00\\xff")
    assert line["big"] == "integer of 16610 bits"
    assert line["cause"] == "bad\\nthing"
    assert (line["flag"], line["none"], line["ratio"]) == (True, None, 0.5)


def test_containers_are_bounded_in_size_and_depth(capsys: pytest.CaptureFixture[str]) -> None:
    deep: list[object] = []
    for _ in range(1000):
        deep = [deep]
    get_logger("t").info(
        "bounded", many=list(range(100_000)), deep=deep, wide={str(n): [n] * 9 for n in range(100)}, few={1}
    )
    (line,) = lines(capsys)
    many = line["many"]
    assert isinstance(many, list)
    assert len(many) == MAX_VALUES + 1
    assert many[-1] == f"{100_000 - MAX_VALUES} more"
    assert line["deep"] == [[[["1 more"]]]]
    wide = line["wide"]
    assert isinstance(wide, dict)
    assert len(wide) <= MAX_VALUES + 1
    assert "more" in str(wide[logs.ELIDED])


def test_secrets_of_the_config_show_as_asterisks_at_every_level(capsys: pytest.CaptureFixture[str]) -> None:
    """S151, S155: also nested, also at debug."""
    configure("json", "debug")
    get_logger("t").debug("config", key=SecretStr(CANARY), headers={"Authorization": SecretStr(CANARY)})
    err = capsys.readouterr().err
    assert CANARY not in err
    assert "**********" in err


def test_a_level_lets_through_itself_and_what_is_graver(capsys: pytest.CaptureFixture[str]) -> None:
    log = get_logger("t")
    expected = {"debug": 4, "info": 3, "warning": 2, "error": 1}
    for level, count in expected.items():
        configure("json", level)
        log.debug("d")
        log.info("i")
        log.warning("w")
        log.error("e")
        assert len(lines(capsys)) == count
    with pytest.raises(ValueError, match="log level must be one of"):
        configure("json", "loud")


def test_a_field_may_not_replace_what_every_line_has(capsys: pytest.CaptureFixture[str]) -> None:
    get_logger("t").info("real", event="forged", level="forged", time="forged", area="forged")
    (line,) = lines(capsys)
    assert (line["event"], line["level"], line["area"]) == ("real", "info", "t")
    assert line["event_"] == "forged"


def test_the_console_format_is_one_readable_line(capsys: pytest.CaptureFixture[str]) -> None:
    configure("console", "info")
    get_logger("t").info("server_started", server="wiki\nforged")
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "server_started" in err
    assert "wiki\\nforged" in err
    assert "\x1b" not in err


def test_library_lines_come_through_the_same_pipeline_once(capsys: pytest.CaptureFixture[str]) -> None:
    configure("json", "info")
    configure("json", "info")
    logging.getLogger("aiohttp.server").error("Unhandled\n%s", "x" * 5000)
    logging.getLogger("somebody").info("count %d", 3)
    logging.getLogger("somebody").debug("hidden")
    logging.getLogger("somebody").critical("bad")
    unfit = logging.LogRecord("somebody", logging.WARNING, "", 1, "count %d", ("not a number",), None)
    logs.LibraryHandler().emit(unfit)
    first, second, third, fourth = lines(capsys)
    assert first["event"] == "library_log"
    assert (first["logger"], first["message"], first["level"]) == ("aiohttp.server", "Unhandled", "error")
    assert (second["message"], second["level"]) == ("count 3", "info")
    assert third["level"] == "error"
    assert fourth["message"] == "count %d"


def test_access_lines_of_the_http_library_are_never_written(capsys: pytest.CaptureFixture[str]) -> None:
    """S36: a credential in a query string must not reach the log."""
    configure("json", "debug")
    logging.getLogger("aiohttp.access").info("GET /mcp?access_token=%s", CANARY)
    assert lines(capsys) == []


def test_an_exception_of_a_library_is_told_without_its_text(capsys: pytest.CaptureFixture[str]) -> None:
    """S46: a parser's exception quotes the header it did not like."""
    configure("json", "info")
    with pytest.raises(ValueError, match="Invalid header") as caught:
        raise ValueError(f"Invalid header: Authorization: Bearer {CANARY}")
    logging.getLogger("aiohttp.server").error("Error handling request", exc_info=caught.value)
    assert frames_of(caught.value)[-1].startswith("test_logs.py:")
    err = capsys.readouterr().err
    assert CANARY not in err
    line = json.loads(err)
    assert line["error"] == "ValueError"
    assert "test_an_exception_of_a_library" in line["frames"][-1]


async def test_a_lost_asyncio_exception_is_told_without_its_text(capsys: pytest.CaptureFixture[str]) -> None:
    configure("json", "info")
    lost = asyncio.get_running_loop().create_future()
    lost.set_exception(RuntimeError(CANARY))
    del lost
    (line,) = lines(capsys)
    assert line["logger"] == "asyncio"
    assert line["message"] == "Future exception was never retrieved"
    assert CANARY not in json.dumps(line)


def test_a_broken_stderr_never_hurts_the_one_who_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(io.StringIO):
        def write(self, _text: str) -> int:
            raise BrokenPipeError

        def isatty(self) -> bool:
            raise ValueError("closed")

    log = get_logger("t")
    monkeypatch.setattr(sys, "stderr", Broken())
    configure("console", "info")
    log.error("lost")
    monkeypatch.setattr(sys, "stderr", None)
    configure("json", "info")
    log.error("lost")
