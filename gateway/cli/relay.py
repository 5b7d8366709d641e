"""Relays JSON-RPC between a client on a pipe and an endpoint over Streamable HTTP, in the era the client speaks.

Messages travel as they are: what the client may do is for the endpoint to say. Each request is a POST of its own; a
legacy client's session, its stream and their resumption are kept for it (2025-11-25 basic/transports §Streamable HTTP).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Final

import aiohttp

from gateway.cli.hop import BODY, EVENTS, Credential, Mirror, Sent, read
from gateway.cli.output import Output
from gateway.cli.pipes import MAX_LINE
from gateway.downstream.stream import EventStream, read_body
from gateway.errors import DownstreamError, Reason
from gateway.protocol import codes, headers, jsonrpc, methods, rawjson
from gateway.protocol.jsonrpc import ErrorObject, Id
from gateway.protocol.rawjson import JsonError, Object
from gateway.tasks import TaskSet

MAX_OPEN: Final = 256
"""Requests under way; more wait."""
FAREWELL: Final = 2.0
LINGER: Final = 30.0
"""Seconds for the end of a session, and for requests that are open when the client's input ends."""
_PAUSE, _LONGEST_PAUSE = 1.0, 30.0
_RESUMES: Final = 5
_NOTICE: Final = 30.0

Print = Callable[[bytes], Awaitable[None]]


@dataclass(slots=True)
class _Session:
    """A legacy session: how it began, and what its messages carry. ``hello`` is the client's own first request."""

    hello: Sent
    id: str = ""
    version: str = ""
    ready: Sent | None = None


class _Broken(Exception):
    """There is no answer; the text says why, for the client."""

    def __init__(self, text: str, reason: Reason = Reason.UNAVAILABLE) -> None:
        super().__init__(text)
        self.reason = reason


class _Lost(Exception):
    """The endpoint does not know the session any more."""


class Relay:
    """One client and one endpoint. ``out`` takes each message for the client."""

    def __init__(self, http: aiohttp.ClientSession, url: str, credential: Credential, out: Print) -> None:
        self._http, self._url, self._credential, self._out = http, url, credential, out
        self._mirror = Mirror()
        self._session: _Session | None = None
        self._renewing = asyncio.Lock()
        self._open: dict[tuple[type, Id], asyncio.Task[None]] = {}
        self._endless: set[asyncio.Task[None]] = set()
        self._places = asyncio.Semaphore(MAX_OPEN)
        self._tasks = TaskSet(self._crashed)
        self._stream: asyncio.Task[None] | None = None

    async def take(self, line: bytes) -> None:
        """Take one message of the client; a request is answered later."""
        try:
            sent = read(line)
        except JsonError:
            await self._fail(None, "Parse error", codes.PARSE_ERROR)
            return
        if not sent.ids:
            await self._notice(sent)
        elif sent.method == methods.INITIALIZE and not sent.is_modern:
            # What follows may depend on it, so nothing overtakes it.
            self._session = _Session(sent)
            await self._request(sent)
        else:
            await self._places.acquire()
            task = self._tasks.start(self._request(sent), "request")
            keys = [_key(identifier) for identifier in sent.ids]
            self._open.update(dict.fromkeys(keys, task))
            if sent.method == methods.LISTEN:
                self._endless.add(task)
            task.add_done_callback(lambda _: self._over(keys, task))

    def _over(self, keys: list[tuple[type, Id]], task: asyncio.Task[None]) -> None:
        for key in keys:
            self._open.pop(key, None)
        self._endless.discard(task)
        self._places.release()

    async def finish(self) -> None:
        """Let open requests end once the client says no more; streams that have no end are not waited for."""
        waiting = set(self._open.values()) - self._endless
        if waiting:
            await asyncio.wait(waiting, timeout=LINGER)

    async def aclose(self) -> None:
        """Stop everything, and end the session."""
        await self._tasks.aclose()
        session = self._session
        if session is not None and session.id:
            with suppress(aiohttp.ClientError, TimeoutError):
                async with asyncio.timeout(FAREWELL), self._http.delete(self._url, headers=await self._legacy_head()):
                    pass

    async def _notice(self, sent: Sent) -> None:
        """Pass on what wants no answer; a modern client's cancellation is the end of its request's connection."""
        if sent.method == methods.CANCELLED and self._session is None:
            identifier = sent.params.get("requestId")
            if isinstance(identifier, (int, str)) and (task := self._open.get(_key(identifier))) is not None:
                task.cancel()
            return
        try:
            async with asyncio.timeout(_NOTICE):
                response = await self._send(sent, None)
                response.release()
        except (_Broken, _Lost, TimeoutError):
            # Nobody waits for an answer; what it was about will say so itself.
            return
        session = self._session
        if sent.method == methods.INITIALIZED and session is not None:
            session.ready = sent
            self._listen()

    def _listen(self) -> None:
        if self._stream is not None:
            self._stream.cancel()
        self._stream = self._tasks.start(self._hear(), "stream")

    async def _request(self, sent: Sent) -> None:
        try:
            await self._answered(sent)
        except _Broken as error:
            for identifier in sent.ids:
                await self._fail(identifier, str(error), codes.reason_code(error.reason))

    async def _answered(self, sent: Sent) -> None:
        """Send a request and print its answer; where its session is gone, begin another and send it once more.

        Raises:
            _Broken: there is no answer.
        """
        session, known = self._session, self._session.id if self._session is not None else ""
        try:
            await self._once(sent)
        except _Lost:
            assert session is not None
            await self._again(session, known)
            try:
                await self._once(sent)
            except _Lost:
                raise _Broken("The session ended again right after it began") from None

    async def _once(self, sent: Sent) -> None:
        response = await self._send(sent, None)
        try:
            await self._relay(sent, response)
        except (aiohttp.ClientError, DownstreamError) as error:
            why = error.message if isinstance(error, DownstreamError) else "the connection broke"
            raise _Broken(f"No whole answer: {why}. The request may have run", Reason.PROTOCOL_ERROR) from None
        finally:
            response.close()

    async def _send(self, sent: Sent, resume: str | None) -> aiohttp.ClientResponse:
        """POST a message, or GET a stream (``resume`` is the event to go on after), and judge the status.

        Raises:
            _Broken: the endpoint cannot be reached, or refuses without a JSON-RPC answer.
            _Lost: the session is gone.
        """
        for attempt in (1, 2, 3):
            shown = await self._credential.headers()
            response = await self._ask(sent, resume, shown)
            challenges = response.headers.getall("WWW-Authenticate", [])
            if response.status in (401, 403) and challenges and attempt < 3:
                response.release()
                if await self._credential.renewed(response.status, challenges, shown):
                    continue
                what = "refuses the credential" if shown else "needs a key (--key-env, --key-file), or a sign-in"
                raise _Broken(f"The endpoint {what}: HTTP {response.status}", Reason.DENIED)
            if response.status == 404 and self._in_session(sent):
                response.release()
                raise _Lost
            return response
        raise AssertionError("the last attempt returns")

    async def _ask(self, sent: Sent, resume: str | None, shown: Mapping[str, str]) -> aiohttp.ClientResponse:
        head = dict(shown)
        if self._is_session(sent):
            head |= await self._legacy_head() if sent.method != methods.INITIALIZE else {}
        elif sent.method:
            head |= self._mirror.headers(sent)
        try:
            if resume is None:
                return await self._http.post(self._url, data=sent.line, headers=head | BODY, allow_redirects=False)
            after = {headers.LAST_EVENT_ID: resume} if resume else {}
            return await self._http.get(self._url, headers=head | EVENTS | after, allow_redirects=False)
        except aiohttp.ClientError as error:
            raise _Broken(f"The endpoint cannot be reached ({type(error).__name__}). Is the gateway running?") from None

    def _is_session(self, sent: Sent) -> bool:
        return self._session is not None and not sent.is_modern

    def _in_session(self, sent: Sent) -> bool:
        """Tell whether a 404 about this message means that its session is gone."""
        begun = self._session is not None and bool(self._session.id)
        return begun and self._is_session(sent) and sent.method != methods.INITIALIZE

    async def _legacy_head(self) -> dict[str, str]:
        session = self._session
        assert session is not None
        head = await self._credential.headers()
        if session.id:
            head[headers.SESSION_ID] = session.id
        if session.version:
            head[headers.VERSION] = session.version
        return head

    async def _relay(self, sent: Sent, response: aiohttp.ClientResponse) -> None:
        """Print what a response holds, up to the answer."""
        if response.content_type == "text/event-stream" and response.status == 200:
            await self._events(sent, response)
            return
        body = await read_body(response, MAX_LINE)
        if not body or not _is_answer(body, sent):
            raise _Broken(f"The endpoint answered HTTP {response.status} without an answer to the request")
        await self._print(sent, body, response)

    async def _events(self, sent: Sent, response: aiohttp.ClientResponse) -> None:
        """Print a stream's messages; one that ends before its answer is resumed where that is possible."""
        waiting = set(map(_key, sent.ids))
        resumes = 0
        while True:
            events = EventStream(response, MAX_LINE)
            broke = False
            try:
                while waiting and (messages := await events.read()) is not None:
                    for message in messages:
                        waiting -= _answers(message)
                        await self._print(sent, message, response)
            except aiohttp.ClientError:
                broke = True
            if not waiting:
                return
            if not events.last_event_id or not self._is_session(sent) or resumes == _RESUMES:
                how = "The connection broke" if broke else "The stream ended"
                raise _Broken(f"{how} before the answer. The request may have run", Reason.PROTOCOL_ERROR)
            resumes += 1
            await asyncio.sleep(_PAUSE if events.retry_ms is None else min(events.retry_ms / 1000, _LONGEST_PAUSE))
            response.close()
            response = await self._send(sent, events.last_event_id)
            if response.status != 200:
                raise _Broken("The stream could not be resumed. The request may have run", Reason.PROTOCOL_ERROR)

    async def _print(self, sent: Sent, message: bytes, response: aiohttp.ClientResponse) -> None:
        if sent.method == methods.INITIALIZE and self._session is not None:
            _begun(self._session, message, response)
        if sent.method == methods.TOOLS_LIST and sent.is_modern:
            self._mirror.learn(message)
        await self._out(message)

    async def _again(self, session: _Session, known: str) -> None:
        """Begin another session in place of the one named ``known``, as the client began it.

        Raises:
            _Broken: the endpoint does not begin one.
        """
        async with self._renewing:
            if session.id != known:
                return
            fresh = _Session(session.hello, ready=session.ready)
            response = await self._send(session.hello, None)
            try:
                answer = await _first_answer(response)
            except (aiohttp.ClientError, DownstreamError):
                answer = b""
            finally:
                response.close()
            _begun(fresh, answer, response)
            if not fresh.version:
                raise _Broken("The session ended, and the endpoint begins no other")
            session.id, session.version = fresh.id, fresh.version
            if session.ready is not None:
                (await self._send(session.ready, None)).release()
                self._listen()

    async def _hear(self) -> None:
        """Print what the endpoint says outside of requests, for as long as the session lasts."""
        after, pause = "", _PAUSE
        while True:
            wait, heard = pause, False
            try:
                response = await self._stream_after(after)
                if response is None:
                    return
                with closing(response):
                    events = EventStream(response, MAX_LINE)
                    while (messages := await events.read()) is not None:
                        heard = True
                        for message in messages:
                            await self._out(message)
                    after = events.last_event_id or after
                    if events.retry_ms is not None:
                        wait = min(events.retry_ms / 1000, _LONGEST_PAUSE)
            except _Lost:
                # The next request begins another session, and its stream with it.
                return
            except (_Broken, aiohttp.ClientError, DownstreamError):
                pass
            await asyncio.sleep(wait)
            pause = _PAUSE if heard else min(pause * 2, _LONGEST_PAUSE)

    async def _stream_after(self, event: str) -> aiohttp.ClientResponse | None:
        """Open the session's stream; None where the endpoint has no such thing (405)."""
        assert self._session is not None
        response = await self._send(self._session.ready or self._session.hello, event)
        if response.status == 200:
            return response
        response.close()
        return None

    async def _fail(self, identifier: Id | None, text: str, code: int) -> None:
        data: Object = {"source": "connect"}
        await self._out(jsonrpc.encode_error(identifier, ErrorObject(code, text, rawjson.raw(data))))

    def _crashed(self, name: str, error: BaseException) -> None:
        # Without its reader the client has gone: its input ends as well, and with it this program.
        if not isinstance(error, BrokenPipeError):
            Output.errors().line(f"connect: {name} failed: {type(error).__name__}")


def _key(identifier: Id) -> tuple[type, Id]:
    return type(identifier), identifier


def _answers(message: bytes) -> set[tuple[type, Id]]:
    """Return the ids that a message answers."""
    try:
        value = rawjson.decode_value(message)
    except JsonError:
        return set()
    found = set()
    for item in value if isinstance(value, list) else [value]:
        identifier = item.get("id") if isinstance(item, dict) and "method" not in item else None
        if isinstance(identifier, (int, str)):
            found.add(_key(identifier))
    return found


def _is_answer(body: bytes, sent: Sent) -> bool:
    return bool(_answers(body) & set(map(_key, sent.ids)))


async def _first_answer(response: aiohttp.ClientResponse) -> bytes:
    if response.content_type != "text/event-stream":
        return await read_body(response, MAX_LINE)
    events = EventStream(response, MAX_LINE)
    while (messages := await events.read()) is not None:
        for message in messages:
            if _answers(message):
                return message
    return b""


def _begun(session: _Session, answer: bytes, response: aiohttp.ClientResponse) -> None:
    """Take what a session is known by from the answer to its first request."""
    try:
        value = rawjson.decode_value(answer)
    except JsonError:
        return
    result = value.get("result") if isinstance(value, dict) else None
    version = result.get("protocolVersion") if isinstance(result, dict) else None
    if isinstance(version, str):
        session.id, session.version = response.headers.get(headers.SESSION_ID, ""), version
