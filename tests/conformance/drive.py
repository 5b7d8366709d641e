"""The client that the official suite starts: a gateway in front of the suite's server, and somebody who uses it.

``conformance client --command 'python -m tests.conformance.drive' --scenario NAME`` appends the URL of its server and
names the scenario in ``MCP_CONFORMANCE_SCENARIO``, the revision in ``MCP_CONFORMANCE_PROTOCOL_VERSION`` and what the
client has to know in ``MCP_CONFORMANCE_CONTEXT`` (JSON). The gateway gets the server without a namespace; ``SCRIPTS``
says what the client in front does; a scenario without a row gets ``use_everything``. Exit status 0: it could be done.

``CONFIGS`` has what a scenario's server needs beside its URL, by the longest prefix of the scenario's name, and
``consent`` is called while the server is not up, to let a user say yes where it waits for one.

A gateway takes longer to start than a scenario to run: ``GATEWAY`` in the environment is the folder of one that runs
already (``lend`` wrote there how to reach it); it gets the server by a reload and loses it again at the end. Without
it the driver starts its own, whose files are kept in ``GATEWAY_FOLDER`` if that is set.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from tests.conformance import consenting
from tests.conformance.front import Front, Refused, front
from tests.kit.gateway import READY_SECONDS, Gateway, eventually, serving
from tests.kit.wire import LEGACY

Json: TypeAlias = dict[str, Any]

LOAN: Final = "loan.json"
ASKS: Final = ["elicitation", "sampling", "roots"]


@dataclass(frozen=True, slots=True)
class Task:
    """What the suite wants: ``context`` is {} where a scenario needs none."""

    scenario: str
    version: str
    url: str
    context: Json

    @property
    def server(self) -> str:
        """The name of the suite's server: another one each time, since the gateway remembers servers by name."""
        return re.sub(r"[^a-z0-9]+", "-", f"{self.scenario} {self.url}".lower()).strip("-")[:64].strip("-")


Script: TypeAlias = Callable[[Front, Task], Awaitable[None]]
Configure: TypeAlias = Callable[[Task], Json]


def plain(task: Task) -> Json:
    """Return what the server of a scenario without authorization needs beside its URL: nothing."""
    return {}


def protected(task: Task) -> Json:
    """Return how to get tokens for the server of a scenario about authorization."""
    return consenting.config(task.scenario, task.context)


def unchecked(task: Task) -> Json:
    """Return that the server gets arguments which do not fit: the scenario sends null where its schema has no null."""
    return {"validate": "off"}


CONFIGS: Final[Mapping[str, Configure]] = {"": plain, consenting.PREFIX: protected, "http-custom-headers": unchecked}
"""The longest prefix of a scenario's name that is here says what is added to the server's entry in the config."""


def consent(gateway: Gateway, task: Task) -> bool:
    """Say yes as a user would, where the server waits for one; called again and again until the server is up."""
    if not task.scenario.startswith(consenting.PREFIX):
        return False
    return consenting.consent(gateway.status()["servers"].get(task.server, {}))


async def add_numbers(client: Front, task: Task) -> None:
    """Call the one tool."""
    await client.request("tools/list")
    await client.request("tools/call", {"name": "add_numbers", "arguments": {"a": 5, "b": 3}})


async def use_everything(client: Front, task: Task) -> None:
    """Call every listed tool without arguments, read every resource, get every prompt."""
    for tool in await client.every("tools/list", "tools"):
        arguments = dict.fromkeys(tool["inputSchema"].get("required", []), "words")
        await client.request("tools/call", {"name": tool["name"], "arguments": arguments})
    for resource in await client.every("resources/list", "resources"):
        await client.request("resources/read", {"uri": resource["uri"]})
    for prompt in await client.every("prompts/list", "prompts"):
        await client.request("prompts/get", {"name": prompt["name"]})


async def with_given_arguments(client: Front, task: Task) -> None:
    """Make the calls that the context has."""
    await client.request("tools/list")
    for call in task.context["toolCalls"]:
        await client.request("tools/call", {"name": call["name"], "arguments": call["arguments"]})


async def echo_schema(client: Front, task: Task) -> None:
    """Hand the schema of one tool, as it arrived, to the other."""
    tools = {tool["name"]: tool for tool in await client.every("tools/list", "tools")}
    schema = tools["json_schema_2020_12_tool"]["inputSchema"]
    await client.request("tools/call", {"name": "json_schema_echo", "arguments": {"schema": schema}})


async def rounds(client: Front, task: Task) -> None:
    """Answer questions, with a call that has nothing to do with them in between."""

    async def unrelated() -> None:
        await client.request("tools/call", {"name": "test_mrtr_unrelated"})

    await client.request("tools/list")
    for name in ("test_mrtr_echo_state", "test_mrtr_no_state"):
        await client.request("tools/call", {"name": name}, unrelated)
    result = await client.request("tools/call", {"name": "test_mrtr_no_result_type"})
    if result["resultType"] != "complete":
        raise Refused(f"a result is of type {result['resultType']}")


async def list_tools(client: Front, task: Task) -> None:
    """Look at the tools and do no more."""
    await client.every("tools/list", "tools")


SCRIPTS: Final[Mapping[str, Script]] = {
    "initialize": list_tools,
    "tools_call": add_numbers,
    "http-custom-headers": with_given_arguments,
    "json-schema-ref-no-deref": list_tools,
    "json-schema-2020-12-preservation": echo_schema,
    "sep-2322-client-request-state": rounds,
}


def server_of(task: Task) -> Json:
    """Return the config of the scenario's server."""
    return {"url": task.url, "namespace": "", "asks": ASKS, **longest(CONFIGS, task)(task)}


def longest(table: Mapping[str, Configure], task: Task) -> Configure:
    """Return the row with the longest prefix of the scenario's name; there is one for all."""
    return table[max((prefix for prefix in table if task.scenario.startswith(prefix)), key=len)]


class Borrowed(Gateway):
    """A gateway that the harness runs; its config file is written here, and read by a reload."""

    def __init__(self, folder: Path) -> None:
        told: Json = json.loads((folder / LOAN).read_text())
        super().__init__(folder, {})
        self.port, self.admin_port, self.url = told["port"], told["admin_port"], told["url"]
        self._pid: int = told["pid"]

    @property
    def pid(self) -> int:
        """Pid of the gateway itself."""
        return self._pid


def lend(gateway: Gateway) -> None:
    """Write down how drivers reach a running gateway."""
    told = {"port": gateway.port, "admin_port": gateway.admin_port, "pid": gateway.pid, "url": gateway.url}
    (gateway.folder / LOAN).write_text(json.dumps(told))


@contextmanager
def gateway_for(task: Task, borrowed: str, folder: Path) -> Iterator[Gateway]:
    """Have a gateway in front of the scenario's server for a block."""
    servers = {"servers": {task.server: server_of(task)}}
    if not borrowed:
        with serving(folder, servers) as own:
            yield own
        return
    gateway = Borrowed(Path(borrowed))
    gateway.reload(servers)
    try:
        yield gateway
    finally:
        # The suite waits for the end of every connection to its server.
        gateway.reload({})


def is_up(gateway: Gateway, task: Task) -> bool:
    """Tell whether the server can be used; a user who is waited for says yes."""
    state = gateway.status()["servers"].get(task.server, {})
    if state.get("state") == "up" and state.get("listed"):
        return True
    consent(gateway, task)
    return False


async def carry_out(task: Task, gateway: Gateway) -> None:
    """Do as the scenario wants."""
    async with front(gateway.url, task.version) as client:
        script = SCRIPTS.get(task.scenario, use_everything)
        await script(client, task)
        for _ in range(consenting.MAX_CONSENTS):
            # More scopes may be needed for what was asked for.
            if not await asyncio.to_thread(consent, gateway, task):
                break
            await script(client, task)


def main(arguments: list[str]) -> None:
    """Read what the suite says; what went wrong goes to stderr, which the suite shows."""
    told = os.environ
    scenario, version = told["MCP_CONFORMANCE_SCENARIO"], told.get("MCP_CONFORMANCE_PROTOCOL_VERSION", LEGACY)
    task = Task(scenario, version, arguments[0], json.loads(told.get("MCP_CONFORMANCE_CONTEXT") or "{}"))
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(told.get("GATEWAY_FOLDER") or scratch)
        try:
            with gateway_for(task, told.get("GATEWAY", ""), folder) as gateway:
                eventually(lambda: is_up(gateway, task), "the suite's server is up", READY_SECONDS)
                asyncio.run(carry_out(task, gateway))
        except (AssertionError, Refused, TimeoutError, consenting.Unwilling) as error:
            log = Path(told.get("GATEWAY") or folder) / "gateway.log"
            sys.exit(f"{type(error).__name__}: {error}\n{log.read_text()[-8000:] if log.exists() else ''}")


if __name__ == "__main__":
    main(sys.argv[1:])
