"""One request that passed every check before its body: who sent it, through which view, and how to answer."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import Final

from aiohttp import web

from gateway.endpoint.announcements import Announcements
from gateway.endpoint.guards import Head
from gateway.endpoint.outlet import Outlet
from gateway.endpoint.rejection import Rejection
from gateway.endpoint.reply import Answer, respond
from gateway.endpoint.running import Running
from gateway.endpoint.services import Moment, Services
from gateway.endpoint.stream import CallStream, EventStream, StreamCap
from gateway.endpoint.updates import Updates
from gateway.errors import Reason
from gateway.model.call import Call
from gateway.model.exchange import Exchange
from gateway.model.principal import Principal
from gateway.protocol import codes
from gateway.protocol.jsonrpc import Id
from gateway.tasks import TaskSet

_STREAMS: Final = ("text/event-stream", "text/*", "*/*")


@dataclass(frozen=True, slots=True)
class Inbound:
    """A request with its principal. ``extra`` are headers every answer to it carries, such as CORS."""

    request: web.BaseRequest
    head: Head
    moment: Moment
    principal: Principal
    view: str | None
    source: str
    extra: Mapping[str, str] = field(default_factory=dict)

    @property
    def takes_streams(self) -> bool:
        """Whether the client can read SSE; one that names no media types is taken to."""
        accept = self.head.headers.get("accept", "*/*")
        return any(part.partition(";")[0].strip().lower() in _STREAMS for part in accept.split(","))


@dataclass(frozen=True, slots=True)
class Equipment:
    """What both eras serve requests with; one per endpoint."""

    services: Services
    running: Running
    tasks: TaskSet
    announcements: Announcements
    updates: Updates
    caps: StreamCap

    def stream(self, inbound: Inbound, kind: str) -> EventStream:
        """Prepare the stream that the response may become."""
        return EventStream(inbound.request, inbound.extra, kind, self.tasks, self.services.metrics)


def exchange_for(inbound: Inbound, call: Call, stream: CallStream) -> Exchange:
    """Make a call's exchange: its notifications go onto the stream if the client can read one."""
    outlet = Outlet(stream, call.progress_token, call.log_level)
    return Exchange(notify=outlet.notify) if inbound.takes_streams else Exchange()


def patience(inbound: Inbound, stream: CallStream) -> AbstractContextManager[None]:
    """Wait for an answer in the body; a response that takes long begins as a stream if the client can read one."""
    return stream.begun_when_late() if inbound.takes_streams else nullcontext()


async def deliver(services: Services, inbound: Inbound, stream: CallStream, answer: Answer) -> web.StreamResponse:
    """Answer plainly, or as the last event if the stream has begun; returns when all is written or the client gone.

    Until then the answer takes one of the caller's places, as its call did.
    """
    with services.in_flight.answering(inbound.principal.id):
        if stream.started:
            return await stream.finish(answer.body)
        response = respond(answer, inbound.extra)
        if services.draining():
            response.force_close()
        with suppress(ConnectionError):
            await response.prepare(inbound.request)
            await response.write_eof()
        return response


def too_many_streams(identifier: Id | None) -> Rejection:
    """Return the rejection of a stream over the cap."""
    code = codes.reason_code(Reason.OVERLOADED)
    return Rejection(
        429, code, "Too many open streams of this client", "streams", identifier, headers={"Retry-After": "30"}
    )
