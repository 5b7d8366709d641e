"""A principal signs in to a server in the middle of a call: a page to open, a code to bring back, and the call goes on.

Only for servers where every principal has an account of its own. What the client is asked for are elicitations of the
gateway's own (client/elicitation), so both eras are asked the way they know; the server never hears of any of it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import lru_cache
from typing import Final, TypeAlias

from gateway.downstream.oauth.bearer import Bearer
from gateway.downstream.oauth.credentials import Credentials
from gateway.downstream.oauth.errors import ConsentNeeded
from gateway.errors import Reason
from gateway.model.call import Call
from gateway.model.catalog import Definition, Kind
from gateway.model.outcome import Failure, InputRequired, Outcome
from gateway.protocol import methods, rawjson
from gateway.protocol.rawjson import Object, Value

PAGE: Final = "sign-in"
CODE: Final = "confirmation"
_PREFIX: Final = "dev.mcp-gateway/sign-in:"
_ASKED_PAGE: Final = _PREFIX + "page"
_ASKED_CODE: Final = _PREFIX + "code"

TOOL: Final = "sign_in"
"""Name of the tool that stands for all others of a server that lists by who asks, until its caller has signed in."""

Send: TypeAlias = Callable[[Call], Awaitable[Outcome]]


@lru_cache(maxsize=256)
def tool(server: str) -> Definition:
    """Return the gateway's own tool by which somebody without a list can sign in and get one."""
    text = f"Asks the user to sign in to {server}, with an account of their own there. Its tools are listed after that."
    definition: Object = {
        "name": TOOL,
        "title": f"Sign in to {server}",
        "description": text,
        "inputSchema": {"type": "object", "properties": {}, "additionalProperties": False},
    }
    return Definition.parse(Kind.TOOL, rawjson.encode(definition))


def is_tool(asked: Call) -> bool:
    """Tell whether a call is one of that tool, which no server ever sees."""
    if asked.target.name != TOOL or asked.definition is None:
        return False
    return asked.definition.digest == tool(asked.target.server).digest


async def call(credentials: Credentials, asked: Call, send: Send) -> Outcome:
    """Send a call; where its principal has to sign in first, the outcome is the question to do so.

    Raises:
        DownstreamError: there is no answer.
    """
    credentials.calls(asked.principal)
    if not credentials.asks_principals:
        return await send(asked)
    if (asked.request_state or "").startswith(_PREFIX):
        stopped = await _answered(credentials.bearer(asked.principal), asked)
        if stopped is not None:
            return stopped
        asked = replace(asked, input_responses=None, request_state=None)
    try:
        return await send(asked)
    except ConsentNeeded as needed:
        if asked.request_state is not None:
            # What the server was told so far would be lost; nothing of this round has reached it.
            return _not_signed_in(asked, "the sign-in ended in the middle of the call")
        return _page(asked, credentials.url_of(needed.ticket))


async def _answered(bearer: Bearer, asked: Call) -> Outcome | None:
    """Judge what came back; None where the principal is signed in."""
    answers = asked.input_responses or {}
    if asked.request_state == _ASKED_PAGE:
        if not _accepted(answers.get(PAGE)):
            return _not_signed_in(asked, "nobody opened the page to sign in")
        return _code(asked, "The page to sign in shows a code at its end. Enter it here.")
    given = answers.get(CODE)
    if not _accepted(given):
        return _not_signed_in(asked, "the code that the page shows was not given")
    content = given.get("content") if isinstance(given, dict) else None
    code = content.get(CODE) if isinstance(content, dict) else None
    if await bearer.confirm(code if isinstance(code, str) else ""):
        return None
    if await bearer.is_waiting():
        return _code(asked, "That is not the code that the page shows. Enter it again.")
    return _not_signed_in(asked, "no sign-in waits for that code")


def _accepted(answer: Value) -> bool:
    return isinstance(answer, dict) and answer.get("action") == "accept"


def _page(asked: Call, url: str) -> Outcome:
    message = (
        f"Server {asked.target.server} needs your own account. Open the page and sign in. It ends with a code, which "
        "you will be asked for here. Never open such a page, or give its code, for somebody else."
    )
    params: Object = {"mode": "url", "message": message, "url": url}
    return InputRequired({PAGE: rawjson.raw({"method": methods.ELICIT, "params": params})}, _ASKED_PAGE, held=True)


def _code(asked: Call, message: str) -> Outcome:
    field: Object = {"type": "string", "title": "Code", "description": "As the page shows it, such as ABCD-2345"}
    params: Object = {
        "mode": "form",
        "message": f"Server {asked.target.server}: {message}",
        "requestedSchema": {"type": "object", "properties": {CODE: field}, "required": [CODE]},
    }
    return InputRequired({CODE: rawjson.raw({"method": methods.ELICIT, "params": params})}, _ASKED_CODE, held=True)


def _not_signed_in(asked: Call, why: str) -> Failure:
    return Failure(
        Reason.UNAVAILABLE,
        f"Server {asked.target.server} needs its user to sign in first, and {why}. The call did not run. Call again "
        "from a client that can open a page and ask for a code (elicitation in URL and form mode).",
        detail="sign_in",
    )
