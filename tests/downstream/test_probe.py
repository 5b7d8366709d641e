"""Which answers mean which era (S128; 2026-07-28 stdio and streamable-http §Backward Compatibility)."""

from __future__ import annotations

import pytest

from gateway.downstream.probe import judge, probe
from gateway.downstream.transport import Reply
from gateway.errors import DownstreamError, Reason
from gateway.protocol.rawjson import Value
from gateway.protocol.versions import Era
from tests.kit.transport import (
    CAPABILITIES,
    FakeHttp,
    FakeTransport,
    Sent,
    bare,
    discover,
    failure,
    never,
    peer,
    reply,
)


async def test_a_discovery_means_modern() -> None:
    transport = FakeTransport({"server/discover": discover})
    finding = await probe(peer(transport), 5)
    assert finding.era is Era.MODERN
    assert finding.hello is not None
    assert finding.hello.capabilities == CAPABILITIES
    # Nothing may be sent about a probe that was given up: the server may not have been greeted yet.
    assert transport.sent[0].request.cancel is None


@pytest.mark.parametrize(("refusals", "found"), [(1, True), (2, False)])
async def test_a_server_that_refuses_the_version_it_says_it_speaks_is_asked_once_more(
    refusals: int, found: bool
) -> None:
    refusal = failure(-32022, data={"supported": ["2026-07-28"], "requested": "2026-07-28"}, status=400)
    answers = [refusal] * refusals
    transport = FakeHttp({"server/discover": lambda sent: answers.pop() if answers else discover(sent)})

    if found:
        assert (await probe(peer(transport), 5)).era is Era.MODERN
    else:
        with pytest.raises(DownstreamError, match="accepts no request of the gateway's version"):
            await probe(peer(transport), 5)

    assert len(transport.sent) == 2


@pytest.mark.parametrize(
    "answer",
    [
        failure(-32601),
        failure(-32602),
        failure(-32000, "Server not initialized", status=400),
        failure(-32600, status=200),
        failure(-32601, status=404),
        bare(400),
        bare(404),
        bare(405),
        bare(406),
        reply(protocolVersion="2025-11-25"),
        reply(supportedVersions=["2025-11-25"], capabilities={}),
        failure(-32022, data={"supported": ["2025-11-25"]}, status=400),
    ],
)
def test_anything_else_means_legacy(answer: Reply) -> None:
    finding = judge(peer(FakeHttp({})), answer)
    assert (finding.era, finding.certain) == (Era.LEGACY, True)


@pytest.mark.parametrize("code", [-32020, -32021, -32022])
@pytest.mark.parametrize("data", [{"supported": ["2027-01-01"]}, {"supported": ["2026-07-28"]}, None])
def test_a_modern_error_never_leads_to_a_handshake(code: int, data: dict[str, Value] | None) -> None:
    with pytest.raises(DownstreamError, match="is modern") as caught:
        judge(peer(FakeHttp({})), failure(code, data=data, status=400))
    assert caught.value.reason is Reason.PROTOCOL_ERROR


def test_a_modern_server_of_another_version_is_refused() -> None:
    with pytest.raises(DownstreamError, match="is modern"):
        judge(peer(FakeTransport({})), reply(supportedVersions=["2027-01-01"], capabilities={}))


@pytest.mark.parametrize("status", [401, 403, 408, 429, 500, 502, 503])
def test_what_any_server_may_say_to_anybody_is_no_evidence(status: int) -> None:
    for answer in (bare(status), failure(-32601, status=status)):
        with pytest.raises(DownstreamError) as caught:
            judge(peer(FakeHttp({})), answer)
        assert caught.value.reason in (Reason.UNAVAILABLE, Reason.PROTOCOL_ERROR)


async def test_silence_on_stdio_is_an_uncertain_legacy() -> None:
    finding = await probe(peer(FakeTransport({"server/discover": never})), 0.05)
    assert (finding.era, finding.certain) == (Era.LEGACY, False)


async def test_an_exit_on_stdio_is_an_uncertain_legacy() -> None:
    async def exits(sent: Sent) -> Reply:
        sent.transport.end()
        return await never(sent)

    finding = await probe(peer(FakeTransport({"server/discover": exits})), 5)
    assert (finding.era, finding.certain) == (Era.LEGACY, False)


def raising(reason: Reason, *, http: bool) -> FakeTransport:
    async def handler(sent: Sent) -> Reply:
        raise DownstreamError(reason, "x")

    script = {"server/discover": handler}
    return FakeHttp(script) if http else FakeTransport(script)


@pytest.mark.parametrize("reason", [Reason.UNAVAILABLE, Reason.TIMEOUT, Reason.TOO_LARGE])
async def test_over_http_no_answer_is_no_evidence(reason: Reason) -> None:
    with pytest.raises(DownstreamError) as caught:
        await probe(peer(raising(reason, http=True)), 5)
    assert caught.value.reason is reason


async def test_over_http_an_answer_that_is_no_message_is_an_uncertain_legacy() -> None:
    finding = await probe(peer(raising(Reason.PROTOCOL_ERROR, http=True)), 5)
    assert (finding.era, finding.certain) == (Era.LEGACY, False)


async def test_a_flood_on_stdio_is_an_error_and_no_era() -> None:
    with pytest.raises(DownstreamError):
        await probe(peer(raising(Reason.TOO_LARGE, http=False)), 5)
