"""The whole config, frozen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr

from gateway.config.access import Auth, Client, Limits
from gateway.config.databases import DatabaseUrl
from gateway.config.policies import PayloadMode, Policy
from gateway.config.servers import Server
from gateway.config.sinks import Sink
from gateway.config.sources import Sources
from gateway.config.stores import MEMORY, StoreUrl
from gateway.config.telemetry import Telemetry
from gateway.config.types import Duration, Host, Model, Network, Origin, PublicUrl, ServerUrl, Sha256, Size, Whole
from gateway.errors import Problem


class ListenTls(Model):
    """TLS of the endpoint."""

    cert: str
    """PEM file of the certificate chain."""
    key: str
    """PEM file of the private key."""
    client_ca: str = ""
    """PEM file of the authorities whose client certificates are accepted."""


class Listen(Model):
    """The MCP endpoint."""

    host: str = "127.0.0.1"
    """Address to bind. Any but loopback needs authentication, and TLS or `behind_tls_proxy`."""
    port: Whole = Field(default=8080, ge=0, le=65535)
    """Port to bind; 0 takes a free one."""
    path: str = Field(default="/mcp", pattern=r"^/[A-Za-z0-9._~/-]*[A-Za-z0-9._~-]$")
    """Path of the endpoint."""
    public_url: PublicUrl = ""
    """The address as clients know it: OAuth resource, and default of `allowed_hosts` off loopback."""
    tls: ListenTls | None = None
    """Serve TLS."""
    behind_tls_proxy: bool = False
    """A proxy in front terminates TLS."""
    trusted_proxies: list[Network] = []
    """Proxies whose `X-Forwarded-For` counts for caps and throttling per source."""
    allowed_hosts: list[Host] = []
    """`Host` values to accept besides loopback names on a loopback bind and the host of `public_url`."""
    allowed_origins: list[Origin] = []
    """Web origins whose requests are accepted; on loopback the own origins always are."""
    max_body: Size = 4 * 2**20
    """Longest request body."""
    drain: Duration = 20.0
    """How long running calls may take to end when the gateway stops."""
    linger: Duration = 0.0
    """How long a gateway that stops still takes requests, already not ready: time for a balancer to turn away."""
    instance_meta: bool = True
    """Say in each result which instance answered."""


class AdminUser(Model):
    """A person who may act on the admin listener."""

    token_sha256: Sha256
    """SHA-256 of the person's token in hex."""
    roles: list[Literal["view", "approve", "pins", "reload"]] = ["view"]
    """What the person may do."""


class Admin(Model):
    """The admin listener: health, metrics, status and acts."""

    host: str = "127.0.0.1"
    """Address to bind. Any but loopback needs `users`."""
    port: Whole = Field(default=9090, ge=0, le=65535)
    """Port to bind; 0 takes a free one."""
    users: dict[str, AdminUser] = {}
    """Persons and their tokens; without any, `serve` makes one token in `state.dir`."""
    metrics_token: SecretStr = SecretStr("")
    """Token for `/metrics` alone; at least 16 characters."""


class Naming(Model):
    """How names are exposed, and how lists are served."""

    separator: str = Field(default="__", pattern=r"^[A-Za-z0-9_-]{1,4}$")
    """Between namespace and name."""
    max_length: Whole = Field(default=48, ge=16, le=128)
    """Longest exposed name; longer ones are cut and get a hash."""
    list_ttl: Duration = 60.0
    """How long a list of a server that says nothing about it may be kept."""
    page_size: Whole = Field(default=1000, ge=1, le=10000)
    """Items per page of a list."""


class View(Model):
    """A named subset of everything."""

    include: list[str]
    """Selectors of what the view shows."""
    mode: Literal["list", "search"] = "list"
    """`search` offers tools on demand instead of a list."""


class State(Model):
    """What outlives a request."""

    dir: str = "./state"
    """Folder for pins, keys and the last known catalog; relative to the config file."""
    url: StoreUrl = SecretStr(MEMORY)
    """Where counters and sessions are kept: `memory://`, or `redis://`, `rediss://`, `valkey://`, `valkeys://` with
    `user:password@host:port/database`, or `unix:///path?db=0`."""
    ca: str = ""
    """File with the authorities that `rediss://` and `valkeys://` accept besides the system's."""
    prefix: str = Field(default="mcpgw", pattern=r"^[A-Za-z0-9_.-]{1,32}$")
    """With what every key and topic begins; gateways with the same one share."""
    database: DatabaseUrl = SecretStr("")
    """Where pins, approvals, kept lists and sign-ins are, for gateways that share them: `postgres://…`, or
    `file:///dir` for a directory that all of them mount. Default: `dir`."""
    sealing_keys: list[SecretStr] = []
    """Keys that seal what clients carry for us, newest first, 32 characters or more each. Default: one in `dir`."""


class Audit(Model):
    """The audit log."""

    dir: str = "audit"
    """Folder of the segments; relative to the config file."""
    durability: str = Field(default="group", pattern=r"^(each|group|interval(\(1s\))?)$")
    """When a record is durable: `each`, `group` or `interval(1s)`."""
    on_failure: Literal["closed", "open"] = "closed"
    """`closed`: no record, no call. `open`: calls go on, losses are counted and recorded."""
    payload: PayloadMode = "shape+hmac"
    """What is kept of arguments and results."""
    retention: Duration = 400 * 86400.0
    """How long segments are kept."""
    sinks: list[Sink] = []
    """Where records also go: `stdout`, `otlp`, `otlp+https://…`, `postgres://…`, or the https address of a webhook."""


class RateAlert(Model):
    """An alert for a client that calls more than it used to."""

    factor: float = Field(default=5, gt=1)
    """How many times the usual rate."""
    window: Duration = 600.0
    """Over how long."""
    min: Whole = Field(default=50, ge=1)
    """Never below this many calls."""


class Alerts(Model):
    """What is worth telling somebody."""

    rate: RateAlert = RateAlert()
    """Unusually many calls."""
    hours: str = ""
    """Calls outside these hours, such as `Mon-Fri 07:00-20:00 Europe/Berlin`; default: none is."""
    sensitive: list[str] = []
    """Selectors whose every call is told, refused ones too."""
    to: list[ServerUrl] = []
    """Webhooks that get each alert, besides the audit log and the metrics: https, or http on this machine."""


class Config(Model):
    """Everything an operator wrote. ``policies`` are already read from their files."""

    listen: Listen = Listen()
    """The MCP endpoint."""
    admin: Admin = Admin()
    """The admin listener."""
    naming: Naming = Naming()
    """How names are exposed, and how lists are served."""
    servers: dict[str, Server] = {}
    """What stands behind the gateway, by name."""
    clients: dict[str, Client] = {}
    """Who may call with a key, by name."""
    auth: Auth = Auth()
    """How callers prove who they are, besides keys."""
    policies: list[Policy] = []
    """Who may call what: policies, or globs of files that hold some."""
    views: dict[str, View] = {}
    """Named subsets at `/mcp/NAME`."""
    limits: Limits = Limits()
    """Caps per principal."""
    state: State = State()
    """What outlives a request."""
    audit: Audit = Audit()
    """The audit log."""
    alerts: Alerts = Alerts()
    """What is worth telling somebody."""
    telemetry: Telemetry = Telemetry()
    """Logs, metrics, traces."""


class LoadedConfig(Model):
    """A config that was read and judged, with what the loader learned on the way.

    ``off`` holds servers that cannot run, with the reason to show; they are absent from ``config.servers``.
    ``digest`` is the SHA-256 of the config and policy files that were read, in hex; what ``${file:}`` and variables
    gave is not in it, so that it can be shown. Paths in ``config`` are absolute.
    ``sources`` is every file that was read or looked for, those of ``${file:}`` and certificates included. ``missing``
    are the servers of ``off`` that want a variable or a file which is not there. ``positions`` says for a path where
    it was written: file, line, and the path there; policies have their name in it, ``policies[NAME].allow[0]``.
    """

    config: Config
    path: Path
    digest: str
    off: dict[str, str] = {}
    notes: list[str] = []
    sources: Sources = Field(default=Sources(), repr=False)
    missing: frozenset[str] = frozenset()
    positions: dict[str, tuple[str, int, str]] = Field(default={}, repr=False)

    def locate(self, problem: Problem) -> Problem:
        """Give a problem that knows only its path the file and line of what it is about."""
        path = problem.path
        while path and path not in self.positions:
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        file, line, own = self.positions.get(path, (str(self.path), 1, ""))
        return replace(problem, file=file, line=line, path=own + problem.path[len(path) :] if path else problem.path)

    @property
    def anonymous(self) -> bool:
        """Whether callers without credentials are served (contract §2: nothing that names a caller is configured)."""
        tls = self.config.listen.tls
        return not self.config.clients and self.config.auth.jwt is None and not (tls and tls.client_ca)

    @property
    def enforcing(self) -> bool:
        """Whether any policy is in force, which makes deny the default."""
        return any(policy.mode == "enforce" for policy in self.config.policies)
