"""One log level for a whole connection, which only grows."""

from __future__ import annotations

from gateway.downstream.level import Level
from gateway.downstream.transport import Reply
from gateway.errors import DownstreamError, Reason
from tests.kit.transport import failure, reply


class Server:
    def __init__(self, *answers: Reply | DownstreamError) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def __call__(self, level: str) -> Reply:
        self.asked.append(level)
        answer = self.answers.pop(0) if self.answers else reply()
        if isinstance(answer, DownstreamError):
            raise answer
        return answer


async def test_a_server_is_asked_for_more_and_never_for_less() -> None:
    server = Server()
    level = Level("a", server)
    for wanted in ("warning", "error", "warning", "debug", "info"):
        await level.reach(wanted)
    assert server.asked == ["warning", "debug"]
    level.forget()
    await level.reach("error")
    assert server.asked[-1] == "error"


async def test_what_a_server_did_not_take_is_asked_again() -> None:
    server = Server(failure(-32603), DownstreamError(Reason.UNAVAILABLE, "gone"))
    level = Level("a", server)
    for _ in range(4):
        await level.reach("info")
    assert server.asked == ["info", "info", "info"]
