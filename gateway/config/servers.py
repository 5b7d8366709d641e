"""``servers``: what stands behind the gateway."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field, PrivateAttr, SecretStr, field_validator, model_validator

from gateway.config.api_document import ApiDocument
from gateway.config.server_auth import ServerAuth
from gateway.config.types import ApiSource, Duration, Model, Network, ServerUrl, Sha256, Size, Whole


class Timeouts(Model):
    """How long one server may take."""

    start: Duration = 60.0
    """Starting the process and the handshake."""
    probe: Duration = 5.0
    """Finding the era of a stdio server that was never seen before; waiting for a caller's own lists."""
    call: Duration = 60.0
    """One call; progress extends it, up to `max`."""
    max: Duration = 600.0
    """The longest any call may take, whatever progress it reports."""
    asks: Duration = 600.0
    """How long a call may wait for people."""

    @field_validator("start", "probe", "call", "max", "asks")
    @classmethod
    def _some_time(cls, value: float) -> float:
        if value <= 0:
            raise ValueError("must be longer than nothing")
        return value


class ProcessLimits(Model):
    """Limits set on a server's process."""

    memory: Size | None = None
    """Memory: by cgroup where writable, else RLIMIT_DATA. Default: none."""
    open_files: Whole | None = Field(default=None, ge=16)
    """Open files (RLIMIT_NOFILE). Default: none."""


class ServerTls(Model):
    """TLS towards one server."""

    ca: str = ""
    """PEM file of the authorities to trust instead of the system's."""
    spki_sha256: list[Sha256] = []
    """Pinned keys (hex SHA-256 of the SubjectPublicKeyInfo)."""
    insecure: bool = False
    """Skip verification; only for a loopback address."""


class ToolChoice(Model):
    """Which tools of a server are exposed, by the server's own names."""

    include: list[str] = ["*"]
    """Globs of the tools to expose."""
    exclude: list[str] = []
    """Globs of the tools to leave out."""
    rename: dict[str, str] = {}
    """Own name to the name to expose instead; policies keep using the own name."""


class PinProbe(Model):
    """A tool call whose answer proves which data is behind a server; asked on every connect."""

    tool: str = Field(min_length=1)
    """The server's own name of the tool."""
    arguments: dict[str, object] = {}
    """What it is called with."""
    expect: dict[str, object] = Field(min_length=1)
    """JSON pointers into the result, and the values that must be there, e.g. `/structuredContent/dataset`."""

    @field_validator("expect")
    @classmethod
    def _pointers(cls, value: dict[str, object]) -> dict[str, object]:
        for pointer in value:
            if not re.fullmatch(r"(/([^/~]|~[01])*)+", pointer):
                raise ValueError(f"{pointer[:80]!r} is not a JSON pointer, such as /structuredContent/dataset")
        return value


class PinSettings(Model):
    """How the identity of a server and its definitions is held."""

    mode: Literal["off", "warn", "tofu", "strict"] | None = None
    """`off`, `warn` (report), `tofu` (hold what was seen first) or `strict` (only what the pin file holds).
    Default: `warn` while nothing but servers is configured, else `tofu`."""
    new_tools: Literal["quarantine", "allow"] = "quarantine"
    """What becomes of a definition that was not there before: held back until approved, or exposed."""
    files: list[str] = []
    """Files whose content belongs to the identity; relative to the config file."""
    rotating: list[str] = []
    """Headers and variables whose value may change."""
    probe: PinProbe | None = None
    """A tool call, asked on every connect, whose answer proves which data is behind."""


class ResultFilters(Model):
    """What is done to texts in results."""

    hidden: Literal["off", "flag", "strip", "block"] = "off"
    """Characters that people do not see."""
    secrets: Literal["off", "flag", "redact", "block"] = "off"
    """What looks like a key, token or password."""
    markers: Literal["off", "flag", "strip", "block"] = "off"
    """Text that poses as instructions to a model."""
    fields: list[str] = []
    """JSON pointers to leave out of structured results and of texts that repeat them; `*` is every item."""

    @field_validator("fields")
    @classmethod
    def _pointers(cls, value: list[str]) -> list[str]:
        for pointer in value:
            if not pointer.startswith("/"):
                raise ValueError(f'"{pointer}" is no JSON pointer (it begins with /)')
        return value


class Server(Model):
    """One server: a command (stdio), a url (HTTP) or an OpenAPI document."""

    command: str | None = None
    """Executable of a stdio server; never a shell line."""
    args: list[str] = Field(default=[], repr=False)
    """Arguments, each passed as it is."""
    env: dict[str, SecretStr] = {}
    """Given to the process besides PATH HOME LANG LC_ALL TZ TMPDIR USER LOGNAME SHELL TERM."""
    cwd: str = ""
    """Working directory of the process; relative to the config file."""
    sandbox: list[str] = []
    """Argument vector put in front of the command, e.g. [bwrap, …]."""
    limits: ProcessLimits = ProcessLimits()
    """Limits of the process."""
    idle_stop: Duration = 600.0
    """A process of one principal or session ends after this long without a call."""

    url: ServerUrl | None = None
    """MCP endpoint of an HTTP server; beside `openapi` the address that its operations are called at."""
    transport: Literal["auto", "http", "sse"] = "auto"
    """`http` is Streamable HTTP, `sse` the transport of 2024-11-05; `auto` tries them in this order."""
    headers: dict[str, SecretStr] = {}
    """Sent with every request."""
    auth: ServerAuth = ServerAuth()
    """How the gateway gets a token for this server: at most one of the three ways."""
    allow_networks: list[Network] = []
    """Private ranges in which addresses learned from this server may lie."""
    redirects: Literal["same-origin", "none"] = "same-origin"
    """Whether 307 and 308 to the same origin are followed; all others are errors."""
    tls: ServerTls = ServerTls()
    """TLS towards this server."""

    openapi: ApiSource | None = None
    """File or URL of an OpenAPI document whose operations become tools; a file is relative to the config file."""

    namespace: str | None = Field(default=None, pattern=r"^[A-Za-z0-9_-]{0,64}$")
    """Prefix of exposed names; default: the slug of the server's name; "" exposes names bare."""
    protocol: Literal["auto", "modern", "legacy"] = "auto"
    """Era the server speaks; `auto` finds out."""
    isolation: Literal["auto", "shared", "principal", "session"] = "auto"
    """Who shares a process or session of this server."""
    max_instances: Whole = Field(default=16, ge=1)
    """Instances at once; then the longest idle one stops."""
    tools: ToolChoice = ToolChoice()
    """Which tools are exposed, and as what."""
    timeouts: Timeouts = Timeouts()
    """How long this server may take."""
    concurrency: Whole = Field(default=64, ge=1)
    """Calls in flight at once on this server."""
    queue: Whole = Field(default=64, ge=0)
    """Calls that may wait for a free place."""
    max_result: Size = 16 * 2**20
    """Longest message accepted from the server."""
    required: bool = False
    """Refuse to start when a variable this server needs is not set."""
    asks: list[Literal["elicitation", "sampling", "roots"]] = []
    """What this server may ask clients for."""
    park: bool = True
    """Hold a call open while its question travels to the client."""
    instructions: Literal["drop", "forward"] = "drop"
    """Whether the server's instructions reach clients."""
    catalog: Literal["shared", "principal"] = "shared"
    """`principal` for a server whose list depends on the caller's credentials: everybody sees their own."""
    idempotent: list[str] = []
    """Tools that may be sent again when it is unknown whether they ran."""
    validate_: Literal["enforce", "warn", "off"] = Field(default="enforce", alias="validate")
    """Arguments against the tool's inputSchema."""
    text: Literal["quarantine", "strip", "escape", "off"] = "quarantine"
    """Hidden characters in definitions."""
    results: ResultFilters = ResultFilters()
    """What is done to texts in results."""
    pin: PinSettings = PinSettings()
    """How the identity of this server is held."""

    _document: ApiDocument | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _one_kind(self) -> Server:
        kinds = [name for name in ("command", "url", "openapi") if getattr(self, name) is not None]
        if len(kinds) != 1 and kinds != ["url", "openapi"]:
            found = " and ".join(kinds) if kinds else "none of them"
            raise ValueError(f"needs exactly one of command, url and openapi; found {found}")
        return self

    @property
    def kind(self) -> Literal["stdio", "http", "openapi"]:
        """What the server speaks, and over what."""
        return "stdio" if self.command is not None else "http" if self.openapi is None else "openapi"

    @property
    def document(self) -> ApiDocument | None:
        """The OpenAPI document, where it was read from a file with the config."""
        return self._document

    def with_document(self, document: ApiDocument) -> Server:
        """Return the server with the document that its file holds."""
        made = self.model_copy()
        made._document = document
        return made

    @property
    def document_url(self) -> str:
        """The address that the OpenAPI document is fetched from, "" for a file."""
        text = self.openapi.get_secret_value() if self.openapi is not None else ""
        return text if "://" in text else ""

    @property
    def document_file(self) -> str:
        """The file that the OpenAPI document is in, "" for an address."""
        text = self.openapi.get_secret_value() if self.openapi is not None else ""
        return "" if "://" in text else text

    def at(self, url: str, *, bare: bool = False) -> Server:
        """Return the server as one that is an address and nothing else; ``bare`` without what is sent along."""
        made: dict[str, object] = {"url": SecretStr(url), "openapi": None}
        return self.model_copy(update=made | ({"headers": {}} if bare else {}))
