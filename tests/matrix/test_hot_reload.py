"""Files of a config change under a gateway that runs: nobody sends a signal, and nobody is disturbed.

All files lie as Kubernetes mounts them at first: symlinks through ``..data``, which is swapped.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
import urllib.request
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path

import pytest
from cryptography import x509

from tests.kit import wire
from tests.kit.answering import answering, hearing
from tests.kit.certificates import make
from tests.kit.field import listening, serving_beside, until
from tests.kit.gateway import Gateway, Json, descendants
from tests.kit.peers import notes
from tests.kit.wire import EraName

KEYS = {"alice": "alice-" + "a" * 40, "bob": "bob-" + "b" * 40}
ROOT = "root-" + "r" * 40
SCRIPTED = Path(__file__).parents[1] / "kit" / "stdio_server.py"
CHANGED = "notifications/tools/list_changed"


def policy(client: str, *allow: str) -> str:
    """Return a policy file."""
    return json.dumps({"policies": [{"name": client, "clients": [client], "allow": list(allow)}]})


@dataclass
class Mount:
    """A folder whose files are all replaced in one step."""

    folder: Path
    files: dict[str, str] = field(default_factory=dict)
    generation: int = 0

    def swap(self, **files: str) -> None:
        """Put these in place of, or beside, those that were there; names have ``_`` for the dot."""
        self.files |= {name.replace("_", "."): text for name, text in files.items()}
        before, self.generation = self.generation, self.generation + 1
        new = self.folder / f"..{self.generation}"
        new.mkdir(parents=True)
        for name, text in self.files.items():
            (new / name).write_text(text)
            if not (self.folder / name).is_symlink():
                (self.folder / name).symlink_to(f"..data/{name}")
        (self.folder / "..data_tmp").symlink_to(new.name)
        (self.folder / "..data_tmp").replace(self.folder / "..data")
        if before:
            for old in (self.folder / f"..{before}").iterdir():
                old.unlink()
            (self.folder / f"..{before}").rmdir()


@dataclass
class Site:
    """One gateway whose policies and config are mounts."""

    gateway: Gateway
    mount: Mount
    policies: Mount
    config: Json
    base: int = 0
    """Reloads that were done when this was last asked."""

    def text(self, **change: object) -> str:
        """Return the config with sections changed."""
        return self.gateway.text({**self.config, **change})

    async def taken(self) -> Json:
        """Wait until one more config has been read; returns how that went."""
        await until(lambda: self.gateway.metric("mcp_gateway_config_reloads_total") > self.base)
        self.base = int(await asyncio.to_thread(self.gateway.metric, "mcp_gateway_config_reloads_total"))
        status = await asyncio.to_thread(self.gateway.status)
        last: Json = status["config"]["last_load"]
        return last

    async def pids(self) -> set[int]:
        return await asyncio.to_thread(descendants, self.gateway.pid)

    async def tools(self, who: str) -> set[str]:
        async with wire.http_client(self.gateway.url, "modern", KEYS[who]) as client:
            return {tool["name"] for tool in await wire.every(client, "tools/list", "tools")}


@asynccontextmanager
async def site(folder: Path, **change: object) -> AsyncIterator[Site]:
    folder.mkdir(exist_ok=True)
    config: Json = {
        "servers": {"one": {"command": sys.executable, "args": ["-I", "-S", str(SCRIPTED)]}},
        "clients": {name: {"key": key} for name, key in KEYS.items()},
        "policies": [f"{folder}/policies/*.yaml"],
        "admin": {"users": {"root": {"token_sha256": sha256(ROOT.encode()).hexdigest(), "roles": ["view", "reload"]}}},
        **change,
    }
    gateway = Gateway(folder, config)
    gateway.token = ROOT
    mount, policies = Mount(folder / "mount"), Mount(folder / "policies")
    policies.swap(alice_yaml=policy("alice", "one/whoami"), bob_yaml=policy("bob", "one/sleep"))
    mount.swap(gateway_yaml=gateway.text({**config, "state": {"dir": "../state"}, "audit": {"dir": "../audit"}}))
    config |= {"state": {"dir": "../state"}, "audit": {"dir": "../audit"}}
    gateway.file = mount.folder / "gateway.yaml"
    try:
        await asyncio.to_thread(gateway.start)
        await asyncio.to_thread(gateway.await_servers, "one")
        yield Site(gateway, mount, policies, config)
    finally:
        await asyncio.to_thread(gateway.stop)


def over(path: Path, text: str) -> None:
    """As most editors and deployments write."""
    path.with_name(".beside").write_text(text)
    path.with_name(".beside").replace(path)


def reached(number: int, *heard: list[str]) -> bool:
    """Tell whether everybody has heard of so many changes."""
    return all(len(each) >= number for each in heard)


def in_place(path: Path, text: str) -> None:
    """As ``>`` of a shell does, in two pieces."""
    with path.open("w") as file:
        file.write(text[: len(text) // 2])
        file.flush()
        file.write(text[len(text) // 2 :])


async def test_however_a_file_is_written_it_is_put_in_force_and_told_to_those_it_concerns(tmp_path: Path) -> None:
    """S183, S185, G036, G056, G128: rename, truncate, swap, and a new file; processes and sessions stay."""
    alice_yaml = tmp_path / "policies" / "alice.yaml"
    added = tmp_path / "policies" / "zz.yaml"
    changes: list[tuple[Callable[[Site], None], set[str]]] = [
        (lambda here: here.policies.swap(alice_yaml=policy("alice", "one/whoami", "one/echo")), {"whoami", "echo"}),
        (lambda _: over(alice_yaml, policy("alice", "one/echo")), {"echo"}),
        (lambda _: in_place(alice_yaml, policy("alice", "one/whoami")), {"whoami"}),
        (lambda _: in_place(added, policy("alice", "one/echo").replace('"alice",', '"more",', 1)), {"whoami", "echo"}),
        (lambda _: added.unlink(), {"whoami"}),
    ]
    async with site(tmp_path) as here, AsyncExitStack() as stack:
        before = await here.pids()
        modern = await stack.enter_async_context(listening(here.gateway, "modern", KEYS["alice"]))
        legacy = await stack.enter_async_context(listening(here.gateway, "legacy", KEYS["alice"]))
        bob = await stack.enter_async_context(listening(here.gateway, "modern", KEYS["bob"]))
        for number, (change, left) in enumerate(changes, 1):
            change(here)
            last = await here.taken()
            assert (last["ok"], last["cause"], last["user"]) == (True, "watch", None)
            await until(partial(reached, number, modern, legacy))
            assert {name.removeprefix("one__") for name in await here.tools("alice")} == left
        assert modern == legacy == [CHANGED] * len(changes)
        assert bob == []
        assert await here.pids() == before
    loads = [record["config"] for record in here.gateway.records() if record["event"] == "config.loaded"]
    assert [load["cause"] for load in loads] == ["watch"] * len(changes)


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_changed_policy_is_announced_for_the_kind_of_list_that_it_changes(tmp_path: Path, era: EraName) -> None:
    """G056: tools, prompts, resources and templates, each to whoever listens for it, and nothing else."""
    file = tmp_path / "policies.yaml"
    allowed = {"tools": "notes/*", "prompts": "prompt:notes/*", "resources": "resource:notes/**"}

    def write(*without: str) -> None:
        over(file, policy("anonymous", *(each for kind, each in allowed.items() if kind not in without)))

    write()
    config = {"servers": {"notes": notes(tmp_path, "notes").config}, "policies": [str(file)]}
    async with (
        serving_beside(tmp_path, config, "notes") as gateway,
        answering(gateway.url, era) as client,
        hearing(client) as news,
    ):
        hidden = ""
        for listed in allowed:
            write(listed)
            changed = {listed, hidden} - {""}
            await news.every({f"notifications/{kind}/list_changed" for kind in changed}, 20)
            assert {bool(await client.every(f"{kind}/list", kind)) for kind in allowed if kind != listed} == {True}
            assert await client.every(f"{listed}/list", listed) == []
            assert {message["method"] for message in news.all} == {
                f"notifications/{kind}/list_changed" for kind in changed
            }
            news.all.clear()
            news.heard.clear()
            hidden = listed


async def test_a_config_swapped_as_a_whole_takes_clients_and_servers_along_and_leaves_the_rest(tmp_path: Path) -> None:
    """S183, S184, G128."""
    async with site(tmp_path) as here, AsyncExitStack() as stack:
        before = await here.pids()
        alice = await stack.enter_async_context(listening(here.gateway, "modern", KEYS["alice"]))
        bob = await stack.enter_async_context(wire.http_client(here.gateway.url, "legacy", KEYS["bob"]))
        group = await stack.enter_async_context(asyncio.TaskGroup())
        call = group.create_task(wire.call(bob, "one__sleep", {"seconds": 30}))
        await until(lambda: here.gateway.metric("mcp_gateway_inflight_calls", server="one") == 1)
        servers = {**here.config["servers"], "two": here.config["servers"]["one"]}
        (tmp_path / "policies" / "bob.yaml").unlink()
        await here.taken()
        clients = {"alice": {"key": KEYS["alice"]}}
        here.mount.swap(gateway_yaml=here.text(servers=servers, clients=clients, listen={"max_body": "1MiB"}))
        last = await here.taken()
        # The call of a client that is gone ends with it.
        async with asyncio.timeout(5):
            assert (await call).status in (200, 401, 403)
        assert last["needs_restart"] == ["listen.max_body"]
        await asyncio.to_thread(here.gateway.await_servers, "one", "two")
        assert before < await here.pids()
        assert alice == []
        async with wire.http_client(here.gateway.url, "modern", KEYS["alice"]) as client:
            assert (await wire.call(client, "one__whoami")).result["structuredContent"]["name"] == "scripted"


async def test_a_server_with_other_settings_or_a_renewed_credential_keeps_its_tools_and_calls_wait_for_it(
    tmp_path: Path,
) -> None:
    """G128: its process is another one, and takes its time."""
    go = tmp_path / "go"
    go.touch()
    start = f"until [ -e {go} ]; do sleep 0.05; done; exec {sys.executable} -I -S {SCRIPTED}"

    def server(token: str, **more: object) -> Json:
        return {
            "one": {
                "command": "sh",
                "args": ["-c", start],
                "env": {"TOKEN": token},
                "pin": {"rotating": ["TOKEN"]},
                **more,
            }
        }

    async with site(tmp_path, servers=server("first")) as here:
        before = await here.pids()
        async with (
            wire.http_client(here.gateway.url, "legacy", KEYS["alice"]) as client,
            asyncio.TaskGroup() as group,
        ):
            for servers in (server("first", timeouts={"call": "50s"}), server("second", timeouts={"call": "50s"})):
                go.unlink()
                here.mount.swap(gateway_yaml=here.text(servers=servers))
                assert (await here.taken())["ok"] is True
                assert {tool["name"] for tool in await wire.every(client, "tools/list", "tools")} == {"one__whoami"}
                call = group.create_task(wire.call(client, "one__whoami"))
                await until(lambda: here.gateway.metric("mcp_gateway_inflight_calls", server="one") == 1)
                go.touch()
                assert (await call).result["structuredContent"]["name"] == "scripted"
        assert len(before - await here.pids()) == 1


async def test_a_bad_file_changes_nothing_and_shows_everywhere_until_it_is_mended(tmp_path: Path) -> None:
    """S182: a secret that is gone, a file cut to nothing."""
    (tmp_path / "token").write_text("t" * 20)
    (tmp_path / "token").chmod(0o600)
    servers = {
        "one": {"command": sys.executable, "args": ["-I", "-S", str(SCRIPTED)]},
        "far": {
            "url": "https://127.0.0.1:9/mcp",
            "headers": {"X-Token": f"${{file:{tmp_path}/token}}"},
        },
    }
    async with site(tmp_path, servers=servers) as here:
        before, tools = await here.pids(), await here.tools("alice")
        for path in (tmp_path / "token", here.gateway.file):
            kept = path.read_text()
            if path == here.gateway.file:
                in_place(path, "")
            else:
                path.rename(path.with_name("kept"))
            last = await here.taken()
            assert (last["ok"], last["cause"]) == (False, "watch")
            assert path.name in last["problems"][0]
            assert here.gateway.metric("mcp_gateway_config_reload_success") == 0
            assert here.gateway.admin("/readyz") == (200, "ready\nconfig_reload_failed\n")
            assert (await here.pids(), await here.tools("alice")) == (before, tools)
            if path == here.gateway.file:
                in_place(path, kept)
            else:
                path.with_name("kept").rename(path)
            assert (await here.taken())["ok"] is True
            assert here.gateway.metric("mcp_gateway_config_reload_success") == 1
            assert here.gateway.admin("/readyz") == (200, "ready\n")
        assert await here.pids() == before
    failed = [record["config"] for record in here.gateway.records() if record["event"] == "config.reload_failed"]
    assert [each["cause"] for each in failed] == ["watch"] * 2


async def test_a_renewed_certificate_is_shown_to_the_next_connection(tmp_path: Path) -> None:
    """As cert-manager does it, without a restart and without a moment in which nobody listens."""
    authority = make("authority")
    trusting = ssl.create_default_context(cafile=authority.write(tmp_path / "authority.pem"))

    def issue(name: str) -> None:
        made = make(name, authority)
        made.write(tmp_path / "tls.crt")
        made.write_key(tmp_path / "tls.key")

    async def shown() -> str:
        _, writer = await asyncio.open_connection("127.0.0.1", here.gateway.port, ssl=trusting)
        der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        return x509.load_der_x509_certificate(der).subject.rfc4514_string()

    issue("first")
    tls = {"cert": str(tmp_path / "tls.crt"), "key": str(tmp_path / "tls.key")}
    async with site(tmp_path, listen={"tls": tls}) as here:
        assert await shown() == "CN=first"
        issue("second")
        assert (await here.taken())["needs_restart"] == []
        assert await shown() == "CN=second"
        # A key that does not belong to it is no certificate to serve with.
        make("third", authority).write(tmp_path / "tls.crt")
        assert (await here.taken())["ok"] is False
        assert await shown() == "CN=second"


async def test_every_answer_is_of_one_config_while_configs_alternate(tmp_path: Path) -> None:
    """S181: no error, no mixture, no stream lost."""
    both = {
        "p": ({"one__whoami", "one__echo"}, policy("alice", "one/whoami", "one/echo")),
        "q": ({"one__sleep"}, policy("alice", "one/sleep")),
    }
    seen: list[str] = []
    async with site(tmp_path) as here, listening(here.gateway, "modern", KEYS["alice"]) as heard:
        over(tmp_path / "policies" / "alice.yaml", both["p"][1])
        await here.taken()
        over_again = asyncio.Event()

        async def ask() -> None:
            async with wire.http_client(here.gateway.url, "modern", KEYS["alice"]) as client:
                while not over_again.is_set():
                    names = {tool["name"] for tool in (await client.request("tools/list")).result["tools"]}
                    (which,) = [name for name, (expected, _) in both.items() if names == expected]
                    seen.append(which)

        async with asyncio.TaskGroup() as group:
            for _ in range(4):
                group.create_task(ask())
            for number in range(60):
                over(tmp_path / "policies" / "alice.yaml", both["qp"[number % 2]][1])
                assert await asyncio.to_thread(reload, here.gateway) == 200
            over_again.set()
        await until(lambda: heard)
        assert set(seen) == {"p", "q"}
        assert set(heard) == {CHANGED}


def reload(gateway: Gateway) -> int:
    """Ask for a reload as an operator does; returns the status."""
    question = urllib.request.Request(
        f"http://127.0.0.1:{gateway.admin_port}/reload", method="POST", headers={"Authorization": f"Bearer {ROOT}"}
    )
    with urllib.request.urlopen(question, timeout=10) as reply:
        status: int = reply.status
        return status
