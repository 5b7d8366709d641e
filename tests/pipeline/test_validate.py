"""Arguments that do not fit never reach a server, unless its config says otherwise (S69)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.errors import Reason
from gateway.model.call import Call
from gateway.model.catalog import Definition
from gateway.model.outcome import Failure
from gateway.pipeline.validate import NOTE, Mode, Validate
from gateway.protocol.rawjson import Object
from tests.kit.calls import OK, Next, call, passage
from tests.kit.definitions import tool

LIMITED = tool("t", inputSchema={"properties": {"n": {"type": "integer"}}, "additionalProperties": False})


def asked(arguments: Object, definition: Definition | None = LIMITED) -> Call:
    return replace(call("t"), params={"name": "t", "arguments": arguments}, definition=definition)


def validate(mode: Mode) -> Validate:
    return Validate(lambda server: mode)


async def test_arguments_that_fit_are_passed_on() -> None:
    onward = Next(OK)
    assert await validate("enforce")(asked({"n": 1}), passage(), onward) is OK


@pytest.mark.parametrize("arguments", [{"n": "one"}, {"n": 1, "more": 2}])
async def test_arguments_that_do_not_fit_are_refused_before_dispatch(arguments: Object) -> None:
    onward = Next(OK)
    ended = await validate("enforce")(asked(arguments), passage(), onward)
    assert isinstance(ended, Failure)
    assert (ended.reason, ended.may_have_run) == (Reason.INVALID_ARGUMENTS, False)
    assert "did not run" in ended.text
    assert "one" not in ended.text.split()
    assert onward.calls == []


async def test_with_warn_the_call_goes_on_and_its_record_says_so() -> None:
    way, onward = passage(), Next(OK)
    assert await validate("warn")(asked({"n": "one"}), way, onward) is OK
    assert way.exchange.notes[NOTE].startswith("n: ")


async def test_with_off_nothing_is_looked_at() -> None:
    way = passage()
    assert await validate("off")(asked({"n": "one"}), way, Next(OK)) is OK
    assert way.exchange.notes == {}


async def test_what_has_no_definition_is_passed_on() -> None:
    assert await validate("enforce")(asked({"n": "one"}, None), passage(), Next(OK)) is OK


async def test_a_schema_that_cannot_be_used_is_a_warning_where_its_tool_is_exposed() -> None:
    way = passage()
    broken = tool("t", inputSchema={"$ref": "https://elsewhere.example/x"})
    assert await validate("warn")(asked({}, broken), way, Next(OK)) is OK
    assert way.exchange.notes[NOTE] == "unresolvable_ref"
