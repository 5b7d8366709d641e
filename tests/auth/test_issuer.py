"""Keys are fetched ahead of time, once for everybody, and never by a stranger's will (S42, S43)."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from gateway.auth.fetch import FetchError
from gateway.auth.issuer import MIN_INTERVAL, REFRESH, Issuer, KeysUnavailable, Means
from gateway.network import Dialing
from gateway.tasks import TaskSet
from tests.kit.tokens import ISSUER, jwk, key_set, rsa_key, settings

METADATA = json.dumps({"issuer": ISSUER, "jwks_uri": f"{ISSUER}/jwks"}).encode()
OLD, NEW = jwk(rsa_key(), "k1"), jwk(rsa_key("other"), "k2")


@dataclass
class Scene:
    """An issuer behind a scripted line, and a clock that a test moves."""

    tasks: TaskSet
    documents: dict[str, bytes] = field(
        default_factory=lambda: {f"{ISSUER}/.well-known/openid-configuration": METADATA, f"{ISSUER}/jwks": key_set(OLD)}
    )
    asked: list[tuple[str, Dialing]] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    held: deque[asyncio.Event] = field(default_factory=deque)
    now: float = 1000.0

    async def get(self, url: str, dialing: Dialing) -> bytes:
        self.asked.append((url, dialing))
        if self.held:
            await self.held[0].wait()
        if url not in self.documents:
            raise FetchError("status 404")
        return self.documents[url]

    def fetched(self, issuer: str, result: str) -> None:
        assert issuer == "idp.example.com"
        self.results.append(result)

    def degraded(self, issuer: str, reason: str) -> None:
        self.reasons.append(reason)

    def issuer(self, **fields: object) -> Issuer:
        return Issuer(settings(**fields), Means(self, self.tasks, self, lambda: self.now))

    def key_fetches(self) -> int:
        return sum(url.endswith("/jwks") for url, _ in self.asked)

    async def settle(self) -> None:
        """Let background fetches end."""
        for _ in range(20):
            await asyncio.sleep(0)


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    def crashed(name: str, error: BaseException) -> None:
        raise AssertionError(name) from error

    tasks = TaskSet(crashed)
    yield Scene(tasks)
    await tasks.aclose()


async def test_keys_are_found_through_the_issuers_metadata_and_kept(scene: Scene) -> None:
    issuer = scene.issuer()

    assert issuer.current() is None
    for _ in range(3):
        assert await issuer.find("k1", "RS256") is not None
    assert [url for url, _ in scene.asked] == [
        f"{ISSUER}/.well-known/oauth-authorization-server",
        f"{ISSUER}/.well-known/openid-configuration",
        f"{ISSUER}/jwks",
    ]
    assert scene.results == ["changed"]
    assert all(dialing.trusted for _, dialing in scene.asked)


async def test_an_address_of_keys_that_the_operator_wrote_needs_no_metadata(scene: Scene) -> None:
    scene.documents = {"https://keys.example.net/k?v=1": key_set(OLD)}

    assert await scene.issuer(jwks_url="https://keys.example.net/k?v=1").find("k1", "RS256") is not None
    assert [dialing.trusted for _, dialing in scene.asked] == [True]


async def test_an_address_of_keys_elsewhere_is_learned_and_dialed_as_such(scene: Scene) -> None:
    """Contract §2: only what is on the issuer's own origin is dialed wherever it resolves."""
    elsewhere = "https://keys.example.net/jwks"
    scene.documents = {
        f"{ISSUER}/.well-known/oauth-authorization-server": METADATA.replace(
            f"{ISSUER}/jwks".encode(), elsewhere.encode()
        ),
        elsewhere: key_set(OLD),
    }
    await scene.issuer(allow_networks=["10.0.0.0/8"]).find("k1", "RS256")

    url, dialing = scene.asked[-1]
    assert (url, dialing.trusted, [str(network) for network in dialing.allow]) == (elsewhere, False, ["10.0.0.0/8"])


async def test_an_issuer_on_this_machine_is_dialed_on_this_machine_only(scene: Scene) -> None:
    local = "http://localhost:8081"
    scene.documents = {f"{local}/jwks": key_set(OLD)}
    await scene.issuer(issuer=local, jwks_url=f"{local}/jwks").find("k1", "RS256")

    assert scene.asked[-1][1].loopback_only


async def test_ten_thousand_unknown_keys_lead_to_one_fetch_in_ten_seconds(scene: Scene) -> None:
    """S42."""
    issuer = scene.issuer()
    await issuer.find("k1", "RS256")
    scene.now += MIN_INTERVAL
    for number in range(10_000):
        assert await issuer.find(f"x{number}", "RS256") is None
    assert scene.key_fetches() == 2

    scene.now += MIN_INTERVAL
    assert await issuer.find("y", "RS256") is None
    assert scene.key_fetches() == 3


async def test_a_hundred_waiters_share_one_fetch(scene: Scene) -> None:
    scene.held.append(asyncio.Event())
    issuer = scene.issuer()
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        waiting = [group.create_task(issuer.find("k1", "RS256")) for _ in range(100)]
        await scene.settle()
        scene.held.popleft().set()
    assert all(task.result() is not None for task in waiting)
    assert scene.key_fetches() == 1


async def test_one_who_gives_up_does_not_end_the_fetch_of_the_others(scene: Scene) -> None:
    scene.held.append(asyncio.Event())
    issuer = scene.issuer()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await issuer.find("k1", "RS256")
    scene.held.popleft().set()
    assert await issuer.find("k1", "RS256") is not None
    assert scene.key_fetches() == 1


async def test_after_a_rotation_both_keys_work_until_the_old_one_leaves(scene: Scene) -> None:
    """S43."""
    issuer = scene.issuer()
    await issuer.find("k1", "RS256")
    scene.documents[f"{ISSUER}/jwks"] = key_set(OLD, NEW)
    scene.now += MIN_INTERVAL
    assert await issuer.find("k2", "RS256") is not None
    assert await issuer.find("k1", "RS256") is not None

    scene.documents[f"{ISSUER}/jwks"] = key_set(NEW)
    scene.now += REFRESH + 1
    issuer.current()
    await scene.settle()
    assert await issuer.find("k1", "RS256") is None
    assert await issuer.find("k2", "RS256") is not None


async def test_keys_are_renewed_in_the_background_and_equal_ones_stay_the_same_object(scene: Scene) -> None:
    issuer = scene.issuer()
    await issuer.find("k1", "RS256")
    before = issuer.current()
    scene.now += REFRESH + 1
    assert issuer.current() is before
    await scene.settle()

    assert scene.results == ["changed", "same"]
    assert issuer.current() is before
    assert [url for url, _ in scene.asked][3:] == [f"{ISSUER}/jwks"]


async def test_in_an_outage_the_last_keys_are_used_for_max_stale_and_then_none(scene: Scene) -> None:
    """S43: never accept."""
    issuer = scene.issuer(max_stale="10m")
    await issuer.find("k1", "RS256")
    good, scene.documents = scene.documents, {}
    while scene.now < 1000 + 600:
        assert await issuer.find("k1", "RS256") is not None
        await scene.settle()
        scene.now += 50
    scene.now = 1000 + 601
    assert issuer.current() is None
    with pytest.raises(KeysUnavailable):
        await issuer.find("k1", "RS256")
    assert set(scene.results[1:]) == {"failed"}
    assert len(scene.reasons) == len(scene.results) - 1

    scene.documents = good
    scene.now += MIN_INTERVAL
    assert await issuer.find("k1", "RS256") is not None


async def test_in_an_outage_an_unknown_key_is_neither_true_nor_false(scene: Scene) -> None:
    issuer = scene.issuer()
    await issuer.find("k1", "RS256")
    scene.documents = {}
    scene.now += MIN_INTERVAL
    for _ in range(5):
        with pytest.raises(KeysUnavailable):
            await issuer.find("k2", "RS256")
    assert await issuer.find("k1", "RS256") is not None


async def test_an_issuer_that_was_never_reached_is_asked_every_ten_seconds(scene: Scene) -> None:
    scene.documents = {}
    issuer = scene.issuer()
    for _ in range(5):
        with pytest.raises(KeysUnavailable):
            await issuer.find("k1", "RS256")
    assert scene.results == ["failed"]
    assert scene.reasons == ["status 404"]


async def test_a_move_of_the_keys_is_followed_after_one_failure(scene: Scene) -> None:
    issuer = scene.issuer()
    await issuer.find("k1", "RS256")
    scene.documents = {
        f"{ISSUER}/.well-known/openid-configuration": METADATA.replace(b"/jwks", b"/moved"),
        f"{ISSUER}/moved": key_set(NEW),
    }
    scene.now += MIN_INTERVAL
    with pytest.raises(KeysUnavailable):
        await issuer.find("k2", "RS256")
    scene.now += MIN_INTERVAL
    assert await issuer.find("k2", "RS256") is not None


async def test_keys_can_be_fetched_before_anybody_needs_them(scene: Scene) -> None:
    issuer = scene.issuer()
    issuer.warm()
    await scene.settle()
    issuer.warm()
    assert issuer.current() is not None
    assert scene.key_fetches() == 1


def test_an_issuer_serves_every_config_that_leads_to_the_same_keys() -> None:
    issuer = Issuer(settings(), Means(None, None, None))  # type: ignore[arg-type]  # reason: nothing of it is used.

    assert issuer.serves(settings(audience="api://x", required_scopes=["x"]))
    assert not issuer.serves(settings(algorithms=["ES256"]))
    assert not issuer.serves(settings(max_stale="2h"))
    assert not issuer.serves(settings(issuer="https://other.example"))
