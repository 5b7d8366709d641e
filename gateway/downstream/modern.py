"""The modern dialect: every request carries version, client and capabilities (2026-07-28 basic/index §_meta).

Knows MCP and one transport; no sessions, no handshake, no pool.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

from gateway.downstream import requests
from gateway.downstream.dialect import (
    REFUSED,
    Hello,
    Page,
    Peer,
    VersionRefused,
    read_hello,
    read_members,
    read_object,
    read_page,
    read_string,
    unanswered,
)
from gateway.downstream.flights import Flight, Flights
from gateway.downstream.listening import Listening
from gateway.downstream.transport import Later, Reply, Request
from gateway.errors import DownstreamError, Reason
from gateway.model.call import Call
from gateway.model.catalog import CAPABILITY_OF, LIST_METHOD, Definition, Kind
from gateway.model.exchange import Exchange
from gateway.model.outcome import Complete, Failure, InputRequired, Outcome, Started
from gateway.protocol import capabilities, codes, meta, methods, results, tasks
from gateway.protocol.jsonrpc import ErrorObject, Id
from gateway.protocol.rawjson import JsonError, Members, Object, decode_members, decode_value
from gateway.protocol.versions import MODERN, Era

HEADERS_REFUSED = "header_mismatch"
"""``Failure.detail`` of a call whose headers the server refused: nothing ran, its definitions should be read again."""

_MAX_PAGES: Final = 100
_OF_ROUNDS: Final = frozenset({"resultType", methods.INPUT_REQUESTS, methods.REQUEST_STATE})


def discovery(timeout: float, peer: Peer) -> Request:
    """Return the request that finds the era and greets a modern server (server/discover)."""
    headers = requests.standard_headers(methods.DISCOVER, {}) if peer.is_http else {}
    return Request(methods.DISCOVER, {"_meta": requests.list_meta(peer.asks)}, headers, timeout)


def read_discovery(result: Members) -> tuple[Hello, tuple[str, ...]] | None:
    """Read a ``DiscoverResult`` and the versions in it; None for a result that is none, such as a legacy server's."""
    try:
        supported = decode_value(result["supportedVersions"]) if "supportedVersions" in result else None
        if not isinstance(supported, list) or results.result_type(result) != results.COMPLETE:
            return None
        info = read_object(read_members(result, "_meta"), meta.SERVER_INFO)
        return read_hello(Era.MODERN, MODERN, info, result), tuple(item for item in supported if isinstance(item, str))
    except JsonError:
        return None


def supported_versions(error: ErrorObject) -> tuple[str, ...]:
    """Read what an ``UnsupportedProtocolVersionError`` says is supported."""
    try:
        data = decode_value(error.data) if error.data is not None else None
    except JsonError:
        return ()
    listed = data.get("supported") if isinstance(data, dict) else None
    return tuple(item for item in listed if isinstance(item, str)) if isinstance(listed, list) else ()


class Modern:
    """One modern server over one transport."""

    def __init__(self, peer: Peer, hello: Hello) -> None:
        self._peer = peer
        self._hello = hello
        self._flights = Flights(
            peer.name, peer.timeouts.call, peer.timeouts.max, logs_by_request=True, violation=peer.events.violation
        )
        self._params = requests.ParamHeaders()
        self._listening = Listening(peer, hello)

    @property
    def hello(self) -> Hello:
        """The server's own words about itself."""
        return self._hello

    def notification(self, method: str, params: Members) -> None:
        """Take what the transport could not attribute: on stdio everything."""
        if self._flights.notification(method, params):
            return
        if self._peer.is_http or not self._relay(method, params):
            self._listening.heard(method, params)

    def _relay(self, method: str, params: Members, flight: Flight | None = None) -> bool:
        return self._flights.relay(method, params, self._hello.capabilities, flight)

    def ask(self, method: str, params: Members) -> Later:
        """Count it and say nothing: a modern server must not ask, and nobody sends it responses.

        basic/patterns §Overview, stdio §Sending Messages, streamable-http §Sending Messages; G139.
        """
        self._peer.events.violation("unexpected_request")
        never: Later = asyncio.get_running_loop().create_future()
        never.cancel()
        return never

    async def call(self, call: Call, exchange: Exchange) -> Outcome:
        """Pass a call on.

        Raises:
            DownstreamError: there is no answer.
        """
        async with self._flights.fly(call, exchange) as flight:
            reply = await self._send(self._request(call, flight))
            if reply.error is not None and reply.error.code == codes.HEADER_MISMATCH and self._peer.is_http:
                # Nothing ran; what the server wants mirrored may have changed since its definition was read.
                fresh = await self._definition(call)
                if fresh is not None:
                    reply = await self._send(self._request(replace(call, definition=fresh), flight))
        return self._outcome(call, reply)

    async def _definition(self, call: Call) -> Definition | None:
        """Read a tool's definition again; None for other methods, and where it cannot be had."""
        cursor: str | None = None
        for _ in range(_MAX_PAGES if call.method == methods.TOOLS_CALL else 0):
            try:
                page = await self.page(Kind.TOOL, cursor)
                found = [Definition.parse(Kind.TOOL, item) for item in page.items]
            except (DownstreamError, JsonError):
                return None
            named = next((each for each in found if each.name == call.target.name), None)
            if named is not None or page.next_cursor is None:
                return named
            cursor = page.next_cursor
        return None

    async def _send(self, request: Request) -> Reply:
        """Send; a version error is retried once where it makes sense, since nothing ran (basic/versioning)."""
        reply = await self._peer.request(request, MODERN)
        for attempt in range(2):
            if reply.error is None or reply.error.code != codes.UNSUPPORTED_VERSION:
                break
            if attempt or MODERN not in supported_versions(reply.error):
                text = f'server "{self._peer.name}" does not speak the protocol version {MODERN} any more'
                raise VersionRefused(Reason.PROTOCOL_ERROR, text)
            reply = await self._peer.request(request, MODERN)
        return reply

    def _request(self, call: Call, flight: Flight) -> Request:
        own: Object = {"_meta": requests.modern_meta(call, flight.token, self._peer.asks)}
        params = call.params | requests.answers(call) | own
        headers: dict[str, str] = {}
        if self._peer.is_http:
            headers = requests.standard_headers(call.method, params) | self._params.render(call)
        return Request(
            call.method,
            params,
            headers,
            on_sent=flight.mark_sent,
            on_answer=flight.mark_answered,
            on_notification=lambda method, said: self._attributed(method, said, flight),
            cancel=None if self._peer.is_http else cancellation,
        )

    def _attributed(self, method: str, params: Members, flight: Flight) -> None:
        if not (self._flights.notification(method, params, flight) or self._relay(method, params, flight)):
            self._peer.events.violation("unexpected_notification")

    def _outcome(self, call: Call, reply: Reply) -> Outcome:
        if reply.status in REFUSED:
            raise unanswered(self._peer, reply)
        if reply.error is not None:
            return self._failure(call, reply.error)
        if reply.result is None:
            raise unanswered(self._peer, reply)
        match results.result_type(reply.result):
            case results.COMPLETE:
                return self._complete(call, reply.result)
            case results.INPUT_REQUIRED:
                return self._input(call, reply.result)
            case results.TASK if call.method == methods.TASKS_GET:
                # The extension's own examples do so, against its rule (§Task Polling).
                return self._complete(call, {key: item for key, item in reply.result.items() if key != "resultType"})
            case results.TASK:
                return self._started(call, reply.result)
            case _ if self._may_differ(call):
                return Complete(reply.result)
            case _:
                raise self._peer.error(Reason.PROTOCOL_ERROR, "sent a result of an unknown type", may_have_run=True)

    def _may_differ(self, call: Call) -> bool:
        """Tell whether a result may be of a type that an extension adds (basic/index §Result type)."""
        agreed = capabilities.agreed(call.caller.capabilities, self._hello.capabilities)
        return bool(agreed) and call.caller.era is Era.MODERN

    def _complete(self, call: Call, result: Members) -> Outcome:
        """Judge the questions of a task like those of a call."""
        if call.method == methods.TASKS_GET:
            if tasks.read(result, Era.MODERN) is None:
                raise self._peer.error(Reason.PROTOCOL_ERROR, "answered with what is no task", may_have_run=True)
            try:
                judged = self._judged(call, tasks.asked(result))
            except JsonError:
                raise self._misplaced() from None
            if judged is not None:
                return judged
        return Complete(results.with_type(result))

    def _started(self, call: Call, result: Members) -> Started:
        """Take a task where the client said that it can (Tasks extension §Capability Negotiation)."""
        may = call.method == methods.TOOLS_CALL and call.caller.era is Era.MODERN
        if not may or not tasks.declared(call.caller.capabilities):
            raise self._peer.error(Reason.PROTOCOL_ERROR, "started a task that nobody asked for", may_have_run=True)
        if tasks.started(result, Era.MODERN) is None:
            raise self._peer.error(Reason.PROTOCOL_ERROR, "started a task without a usable handle", may_have_run=True)
        return Started(result)

    def _failure(self, call: Call, error: ErrorObject) -> Outcome:
        """Judge an error: what concerns our hop is ours, everything else is passed on as it is."""
        name = self._peer.name
        if error.code == codes.HEADER_MISMATCH:
            text = f'server "{name}" refused the headers of the request; nothing ran, try again'
            return Failure(Reason.PROTOCOL_ERROR, text, detail=HEADERS_REFUSED)
        if error.code == codes.MISSING_CLIENT_CAPABILITY and (withheld := self._withheld(call, _required(error))):
            return self._denied(withheld, may_have_run=False)
        if error.code == codes.INVALID_PARAMS and meta.PREFIX in error.message:
            text = f'server "{name}" refused the metadata of the request; nothing ran'
            return Failure(Reason.PROTOCOL_ERROR, text, detail="metadata_refused")
        return Failure(Reason.PROTOCOL_ERROR, f'server "{name}" answered with an error', error=error)

    def _withheld(self, call: Call, wanted: frozenset[str]) -> list[str]:
        """Return what the client offers and the configuration does not let this server ask for."""
        return sorted((wanted & capabilities.ASKS.keys() & call.caller.capabilities.keys()) - set(self._peer.asks))

    def _denied(self, withheld: list[str], *, may_have_run: bool) -> Failure:
        what = ", ".join(withheld)
        text = f'server "{self._peer.name}" needs to ask for {what}, which the gateway does not let it do'
        return Failure(Reason.DENIED, text, may_have_run=may_have_run, detail="asks")

    def _input(self, call: Call, result: Members) -> Outcome:
        """Judge an ``InputRequiredResult`` (basic/patterns/mrtr §Server Requirements)."""
        row = methods.METHODS.get(call.method)
        state = read_string(result, "requestState")
        try:
            wanted = decode_members(result[methods.INPUT_REQUESTS]) if methods.INPUT_REQUESTS in result else {}
            judged = self._judged(call, wanted)
        except JsonError:
            raise self._misplaced() from None
        if row is None or not row.may_ask or (not wanted and state is None):
            raise self._misplaced()
        extra = {key: item for key, item in result.items() if key not in _OF_ROUNDS}
        return InputRequired(wanted, state, extra=extra) if judged is None else judged

    def _misplaced(self) -> DownstreamError:
        return self._peer.error(Reason.PROTOCOL_ERROR, "asked for input where it must not", may_have_run=True)

    def _judged(self, call: Call, wanted: Members) -> Failure | None:
        """Say why a server may not ask these questions; None where it may.

        Raises:
            JsonError: one of them cannot be read.
            DownstreamError: ``protocol_error``: it was not told that it may ask this client.
        """
        asked = [read_string(decode_members(item), "method") for item in wanted.values()]
        needed = {capabilities.capability_of(method or "") for method in asked}
        sent = capabilities.intersect(call.caller.capabilities, self._peer.asks)
        beyond = frozenset(item for item in needed if item is not None) - sent.keys()
        if None in needed or beyond - call.caller.capabilities.keys():
            raise self._misplaced()
        return self._denied(sorted(beyond), may_have_run=True) if beyond else None

    async def page(self, kind: Kind, cursor: str | None) -> Page:
        """Fetch one page of a list; empty where the server does not offer the kind.

        Raises:
            DownstreamError: there is no usable answer.
        """
        if not self._hello.has(CAPABILITY_OF[kind]):
            return Page([])
        method = LIST_METHOD[kind]
        params: Object = {} if cursor is None else {"cursor": cursor}
        headers = requests.standard_headers(method, params) if self._peer.is_http else {}
        body = params | {"_meta": requests.list_meta(self._peer.asks)}
        cancel = None if self._peer.is_http else cancellation
        reply = await self._send(Request(method, body, headers, self._peer.timeouts.call, cancel=cancel))
        return page_of(self._peer, kind, reply)

    async def listen(self) -> None:
        """Hear of changes until cancelled."""
        await self._listening.run()

    async def subscribe(self, uris: frozenset[str], tasks: frozenset[str] = frozenset()) -> None:
        """Make these the resources and tasks whose changes are heard of; the stream follows by itself."""
        self._listening.want(uris, tasks)

    async def abandon(self) -> None:
        """Nothing runs that others do not own."""

    async def aclose(self) -> None:
        """Nothing to say: the era has no goodbye."""


def cancellation(identifier: Id) -> tuple[str, object]:
    """Return the notification that cancels a request under our id (basic/patterns/cancellation)."""
    return methods.CANCELLED, {"requestId": identifier}


def page_of(peer: Peer, kind: Kind, reply: Reply) -> Page:
    """Read the answer to a list request of either era.

    Raises:
        DownstreamError: an error, or no list.
    """
    if reply.status in REFUSED:
        raise unanswered(peer, reply)
    if reply.error is not None:
        # Servers with resources but without templates are common.
        if reply.error.code == codes.METHOD_NOT_FOUND and kind is Kind.TEMPLATE:
            return Page([])
        raise peer.error(Reason.PROTOCOL_ERROR, f"answered {LIST_METHOD[kind]} with error {reply.error.code}")
    if reply.result is None:
        raise unanswered(peer, reply)
    try:
        return read_page(kind, reply.result)
    except JsonError as error:
        raise peer.error(Reason.PROTOCOL_ERROR, f"answered {LIST_METHOD[kind]} with no list ({error.reason})") from None


def _required(error: ErrorObject) -> frozenset[str]:
    try:
        data = decode_value(error.data) if error.data is not None else None
    except JsonError:
        return frozenset()
    listed = data.get("requiredCapabilities") if isinstance(data, dict) else None
    if isinstance(listed, dict):
        return frozenset(listed)
    return frozenset(item for item in listed if isinstance(item, str)) if isinstance(listed, list) else frozenset()
