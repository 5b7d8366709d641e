"""``servers``: what stands behind the gateway."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, SecretStr, model_validator

from gateway.config.types import Duration, Model, Size


class Timeouts(Model):
    """How long one server may take."""

    start: Duration = 60.0
    """Starting the process and the handshake."""
    probe: Duration = 5.0
    """Finding the era of a stdio server that was never seen before."""
    call: Duration = 60.0
    """One call; progress extends it, up to ``max``."""
    max: Duration = 600.0
    """The longest any call may take, whatever progress it reports."""
    asks: Duration = 600.0
    """How long a call may wait for people."""


class ProcessLimits(Model):
    """Limits set on a server's process."""

    memory: Size | None = None
    """cgroup where writable, else RLIMIT_DATA."""
    open_files: int | None = Field(default=None, ge=16)
    """RLIMIT_NOFILE."""


class ServerTls(Model):
    """TLS towards one server."""

    ca: str = ""
    """PEM file of the authorities to trust instead of the system's."""
    spki_sha256: list[str] = []
    """Pinned keys (hex SHA-256 of the SubjectPublicKeyInfo)."""
    insecure: bool = False
    """Skip verification; only for a loopback address."""


class ToolChoice(Model):
    """Which tools of a server are exposed, by the server's own names."""

    include: list[str] = ["*"]
    exclude: list[str] = []
    rename: dict[str, str] = {}
    """Own name to the name to expose instead; policies keep using the own name."""


class PinSettings(Model):
    """How the identity of a server and its definitions is held."""

    mode: Literal["off", "warn", "tofu", "strict"] | None = None
    new_tools: Literal["quarantine", "allow"] = "quarantine"
    files: list[str] = []
    rotating: list[str] = []
    probe: dict[str, object] | None = None


class ResultFilters(Model):
    """What is done to texts in results."""

    hidden: Literal["off", "flag", "strip", "block"] = "off"
    secrets: Literal["off", "flag", "redact", "block"] = "off"
    markers: Literal["off", "flag", "strip", "block"] = "off"
    fields: list[str] = []


class Server(Model):
    """One server: a command (stdio), a url (HTTP) or an OpenAPI document."""

    command: str | None = None
    """Executable of a stdio server; never a shell line."""
    args: list[str] = []
    env: dict[str, SecretStr] = {}
    """Given to the process besides PATH HOME LANG LC_ALL TZ TMPDIR USER LOGNAME SHELL TERM."""
    cwd: str = ""
    sandbox: list[str] = []
    """Argument vector put in front of the command, e.g. [bwrap, …]."""
    limits: ProcessLimits = ProcessLimits()
    idle_stop: Duration = 600.0
    """A process of one principal or session ends after this long without a call."""

    url: SecretStr | None = None
    """MCP endpoint of an HTTP server."""
    transport: Literal["auto", "http", "sse"] = "auto"
    headers: dict[str, SecretStr] = {}
    auth: dict[str, object] = {}
    allow_networks: list[str] = []
    redirects: Literal["same-origin", "none"] = "same-origin"
    tls: ServerTls = ServerTls()

    openapi: str | None = None

    namespace: str | None = None
    """Prefix of exposed names; default: the slug of the server's name; "" exposes names bare."""
    protocol: Literal["auto", "modern", "legacy"] = "auto"
    isolation: Literal["auto", "shared", "principal", "session"] = "auto"
    max_instances: int = Field(default=16, ge=1)
    tools: ToolChoice = ToolChoice()
    timeouts: Timeouts = Timeouts()
    concurrency: int = Field(default=64, ge=1)
    """Calls in flight at once on this server."""
    queue: int = Field(default=64, ge=0)
    """Calls that may wait for a free place."""
    max_result: Size = 16 * 2**20
    """Longest message accepted from the server."""
    required: bool = False
    """Refuse to start when a variable this server needs is not set."""
    asks: list[Literal["elicitation", "sampling", "roots"]] = []
    park: bool = True
    instructions: Literal["drop", "forward"] = "drop"
    catalog: Literal["shared", "principal"] = "shared"
    idempotent: list[str] = []
    """Tools that may be sent again when it is unknown whether they ran."""
    validate_: Literal["enforce", "warn", "off"] = Field(default="enforce", alias="validate")
    text: Literal["quarantine", "strip", "escape", "off"] = "quarantine"
    results: ResultFilters = ResultFilters()
    pin: PinSettings = PinSettings()

    @model_validator(mode="after")
    def _one_kind(self) -> Server:
        kinds = [name for name in ("command", "url", "openapi") if getattr(self, name) is not None]
        if len(kinds) != 1:
            found = " and ".join(kinds) if kinds else "none of them"
            raise ValueError(f"needs exactly one of command, url and openapi; found {found}")
        return self

    @property
    def kind(self) -> Literal["stdio", "http", "openapi"]:
        """Transport of the server."""
        return "stdio" if self.command is not None else "http" if self.url is not None else "openapi"
