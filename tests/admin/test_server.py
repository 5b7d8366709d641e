"""The admin listener's routes, over real sockets."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Mapping

import pytest
from aiohttp import ClientSession
from aiohttp.test_utils import RawTestServer

from gateway.admin.access import Access
from gateway.admin.operations import Act, Conflict, Forbidden, Readiness
from gateway.admin.server import AdminServer
from gateway.config.root import AdminUser
from gateway.errors import AuditUnavailable, ConfigError, Problem
from gateway.protocol.rawjson import Object

TOKEN = {"Authorization": "Bearer secret-token"}
USER = AdminUser(token_sha256=hashlib.sha256(b"secret-token").hexdigest(), roles=["view", "reload", "pins", "approve"])


class Recorded:
    """A gateway that remembers what it was asked."""

    def __init__(self) -> None:
        self.ready = Readiness(True)
        self.acts: list[tuple[Act, object]] = []
        self.audit_down = False

    def readiness(self) -> Readiness:
        return self.ready

    def render_metrics(self, accept: str) -> tuple[bytes, str]:
        return b"metric 1\n", "text/plain; version=0.0.4"

    def status(self) -> Object:
        return {"servers": {"a": {"state": "up"}}}

    def tools_as(self, principal: str, view: str | None = None) -> Object:
        if principal == "nobody":
            raise KeyError("no client nobody")
        return {"principal": principal, "view": view}

    async def pins(self, target: str) -> Object:
        if target == "nope":
            raise KeyError("no server nope")
        return {"servers": {target: {"state": "changed"}}}

    async def decide_pins(self, act: Act, verb: str, target: str, digests: Mapping[str, str]) -> Object:
        if self.audit_down:
            raise AuditUnavailable("full")
        if digests.get("tool:t") == "old":
            raise Conflict("it has changed since it was shown")
        self.acts.append((act, (verb, target, dict(digests))))
        return {"state": "recorded"}

    async def approvals(self, user: str) -> Object:
        return {"approvals": [{"id": "a1", "yours": user == "alice"}]}

    async def decide_approval(self, act: Act, verb: str, entry_id: str, reason: str) -> Object:
        if self.audit_down:
            raise AuditUnavailable("full")
        match entry_id:
            case "gone":
                raise KeyError("nothing with that id waits")
            case "theirs":
                raise Forbidden("the rule asks other users")
            case "settled":
                raise Conflict("it is denied already")
        self.acts.append((act, (verb, entry_id, reason)))
        return {"id": entry_id, "state": "granted"}

    async def call_as(self, act: Act, principal: str, target: str, arguments: Object) -> Object:
        if self.audit_down:
            raise AuditUnavailable("full")
        self.acts.append((act, (principal, target, arguments)))
        return {"called": target}

    async def reload(self, act: Act) -> Object:
        if act.user != "alice":
            raise AssertionError(act.user)
        raise ConfigError([Problem("unknown key", "gateway.yaml", 3, "listen.prot", "did you mean port?")])


@pytest.fixture
def gateway() -> Recorded:
    return Recorded()


@pytest.fixture
async def client(gateway: Recorded) -> AsyncIterator[tuple[ClientSession, str]]:
    server = RawTestServer(AdminServer(gateway, Access("127.0.0.1", {"alice": USER})).handle)
    await server.start_server()
    async with ClientSession() as session:
        yield session, f"http://127.0.0.1:{server.port}"
    await server.close()


Client = tuple[ClientSession, str]


async def test_health_says_only_ok_whatever_the_host(client: Client) -> None:
    """S176."""
    session, url = client
    async with session.get(url + "/healthz", headers={"Host": "evil.example"}) as response:
        assert (response.status, await response.text()) == (200, "ok\n")


async def test_readiness_names_constants_alone(client: Client, gateway: Recorded) -> None:
    session, url = client
    async with session.get(url + "/readyz") as response:
        assert response.status == 200
    gateway.ready = Readiness(False, ("draining",))
    async with session.get(url + "/readyz") as response:
        assert (response.status, await response.text()) == (503, "draining\n")
    gateway.ready = Readiness(True, details=("store_degraded",))
    async with session.get(url + "/readyz") as response:
        assert (response.status, await response.text()) == (200, "ready\nstore_degraded\n")


async def test_status_and_metrics_are_readable_on_loopback(client: Client) -> None:
    session, url = client
    async with session.get(url + "/status") as response:
        assert await response.json() == {"servers": {"a": {"state": "up"}}}
        assert response.headers["Cache-Control"] == "no-store"
    async with session.get(url + "/metrics") as response:
        assert await response.text() == "metric 1\n"


async def test_rebinding_and_foreign_origins_are_refused_everywhere_else(client: Client) -> None:
    session, url = client
    for path in ("/status", "/metrics", "/tools"):
        async with session.get(url + path, headers={"Host": "evil.example"}) as response:
            assert response.status == 421
        async with session.get(url + path, headers={"Origin": "http://evil.example"}) as response:
            assert response.status == 403


async def test_acts_need_a_token(client: Client, gateway: Recorded) -> None:
    session, url = client
    body = {"as": "bot", "target": "a/t", "arguments": {"x": 1}}
    async with session.post(url + "/call", json=body) as response:
        assert response.status == 401
        assert response.headers["WWW-Authenticate"] == 'Bearer realm="admin"'
    async with session.post(url + "/call", json=body, headers=TOKEN) as response:
        assert await response.json() == {"called": "a/t"}
    [(act, called)] = gateway.acts
    assert (act.user, called) == ("alice", ("bot", "a/t", {"x": 1}))


@pytest.mark.parametrize(
    "body", [b"[]", b'{"as":1}', b"{", b'{"as":"a","as":"b"}', b'{"as":"a","target":"t","arguments":[]}']
)
async def test_a_bad_body_is_a_clear_400(client: Client, body: bytes) -> None:
    session, url = client
    headers = TOKEN | {"Content-Type": "application/json"}
    async with session.post(url + "/call", data=body, headers=headers) as response:
        assert response.status == 400
        assert "Traceback" not in await response.text()


async def test_a_body_of_another_type_is_415(client: Client) -> None:
    session, url = client
    async with session.post(url + "/call", data=b"{}", headers=TOKEN | {"Content-Type": "text/plain"}) as response:
        assert response.status == 415


async def test_unknown_principals_and_a_full_audit_disk_have_their_own_answers(
    client: Client, gateway: Recorded
) -> None:
    session, url = client
    async with session.get(url + "/tools", params={"as": "nobody"}) as response:
        assert (response.status, await response.json()) == (404, {"error": "no client nobody"})
    gateway.audit_down = True
    async with session.post(url + "/call", json={"as": "bot", "target": "a/t"}, headers=TOKEN) as response:
        assert response.status == 503


async def test_a_refused_reload_lists_every_problem(client: Client) -> None:
    session, url = client
    async with session.post(url + "/reload", headers=TOKEN) as response:
        assert response.status == 422
        assert (await response.json())["problems"] == ["gateway.yaml:3: listen.prot: unknown key (did you mean port?)"]


async def test_unknown_paths_and_methods_are_plain_json_errors(client: Client) -> None:
    session, url = client
    async with session.get(url + "/nothing") as response:
        assert (response.status, await response.json()) == (404, {"error": "Not Found"})
    async with session.post(url + "/status") as response:
        assert response.status == 405


async def test_pins_are_read_freely_and_decided_with_their_role(client: Client, gateway: Recorded) -> None:
    """S141."""
    session, url = client
    async with session.get(url + "/pins", params={"target": "a/t"}) as response:
        assert await response.json() == {"servers": {"a/t": {"state": "changed"}}}
    async with session.get(url + "/pins", params={"target": "nope"}) as response:
        assert response.status == 404
    body = {"target": "a/t", "digests": {"tool:t": "new"}}
    async with session.post(url + "/pins/approve", json=body) as response:
        assert response.status == 401
    async with session.post(url + "/pins/approve", json=body, headers=TOKEN) as response:
        assert await response.json() == {"state": "recorded"}
    async with session.post(url + "/pins/reject", json=body, headers=TOKEN) as response:
        assert response.status == 200
    assert [what for _, what in gateway.acts] == [
        ("approve", "a/t", {"tool:t": "new"}),
        ("reject", "a/t", {"tool:t": "new"}),
    ]
    stale = {"target": "a/t", "digests": {"tool:t": "old"}}
    async with session.post(url + "/pins/approve", json=stale, headers=TOKEN) as response:
        assert response.status == 409
    gateway.audit_down = True
    async with session.post(url + "/pins/approve", json=body, headers=TOKEN) as response:
        assert response.status == 503
    for wrong in ({"target": 1, "digests": {}}, {"target": "a"}, {"target": "a", "digests": {"x": 1}}):
        async with session.post(url + "/pins/approve", json=wrong, headers=TOKEN) as response:
            assert response.status == 400


async def test_waiting_calls_are_read_and_decided_with_their_role_alone(client: Client, gateway: Recorded) -> None:
    """S141. Arguments are values: they are not open on loopback as other reading is."""
    session, url = client
    async with session.get(url + "/approvals") as response:
        assert response.status == 401
    async with session.get(url + "/approvals", headers=TOKEN) as response:
        assert await response.json() == {"approvals": [{"id": "a1", "yours": True}]}
    async with session.post(url + "/approvals/approve", json={"id": "a1"}) as response:
        assert response.status == 401
    async with session.post(url + "/approvals/approve", json={"id": "a1"}, headers=TOKEN) as response:
        assert await response.json() == {"id": "a1", "state": "granted"}
    async with session.post(url + "/approvals/deny", json={"id": "a1", "reason": "no"}, headers=TOKEN) as response:
        assert response.status == 200
    assert [what for _, what in gateway.acts] == [("approve", "a1", ""), ("deny", "a1", "no")]
    for wrong, status in (("gone", 404), ("theirs", 403), ("settled", 409)):
        async with session.post(url + "/approvals/approve", json={"id": wrong}, headers=TOKEN) as response:
            assert response.status == status
            assert "error" in await response.json()
    async with session.post(url + "/approvals/deny", json={"id": "a1", "reason": 7}, headers=TOKEN) as response:
        assert response.status == 400
    gateway.audit_down = True
    async with session.post(url + "/approvals/approve", json={"id": "a1"}, headers=TOKEN) as response:
        assert response.status == 503
