"""The whole config, frozen."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr

from gateway.config.access import Auth, Client, Limits
from gateway.config.policies import PayloadMode, Policy
from gateway.config.servers import Server
from gateway.config.types import Duration, Model, Size


class ListenTls(Model):
    """TLS of the endpoint."""

    cert: str
    key: str
    client_ca: str = ""


class Listen(Model):
    """The MCP endpoint. Changes need a restart."""

    host: str = "127.0.0.1"
    port: int = Field(default=8080, ge=0, le=65535)
    path: str = Field(default="/mcp", pattern=r"^/[A-Za-z0-9._~/-]*[A-Za-z0-9._~-]$")
    public_url: str = ""
    tls: ListenTls | None = None
    behind_tls_proxy: bool = False
    trusted_proxies: list[str] = []
    allowed_hosts: list[str] = []
    allowed_origins: list[str] = []
    max_body: Size = 4 * 2**20
    drain: Duration = 20.0
    instance_meta: bool = True


class AdminUser(Model):
    """A person who may act on the admin listener."""

    token_sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    roles: list[Literal["view", "approve", "pins", "reload"]] = ["view"]


class Admin(Model):
    """The admin listener. Changes need a restart."""

    host: str = "127.0.0.1"
    port: int = Field(default=9090, ge=0, le=65535)
    users: dict[str, AdminUser] = {}
    metrics_token: SecretStr = SecretStr("")


class Naming(Model):
    """How names are exposed, and how lists are served."""

    separator: str = Field(default="__", pattern=r"^[A-Za-z0-9_-]{1,4}$")
    max_length: int = Field(default=48, ge=16, le=128)
    list_ttl: Duration = 60.0
    page_size: int = Field(default=1000, ge=1, le=10000)


class View(Model):
    """A named subset of everything."""

    include: list[str]
    mode: Literal["list", "search"] = "list"


class State(Model):
    """What outlives a request. Changes need a restart."""

    dir: str = "./state"
    url: str = "memory://"
    sealing_keys: list[SecretStr] = []


class Audit(Model):
    """The audit log. Changes need a restart."""

    dir: str = "audit"
    durability: str = Field(default="group", pattern=r"^(each|group|interval(\(1s\))?)$")
    on_failure: Literal["closed", "open"] = "closed"
    payload: PayloadMode = "shape+hmac"
    retention: Duration = 400 * 86400.0
    sinks: list[str] = []


class RateAlert(Model):
    """An alert for a client that calls more than it used to."""

    factor: float = 5
    window: Duration = 600.0
    min: int = 50


class Alerts(Model):
    """What is worth telling somebody."""

    rate: RateAlert = RateAlert()
    hours: str = ""
    sensitive: list[str] = []
    to: list[str] = []


class Telemetry(Model):
    """Logs, metrics, traces."""

    log_format: Literal["json", "console"] = "json"
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    otlp: str = ""


class Config(Model):
    """Everything an operator wrote. ``policies`` are already read from their files."""

    listen: Listen = Listen()
    admin: Admin = Admin()
    naming: Naming = Naming()
    servers: dict[str, Server] = {}
    clients: dict[str, Client] = {}
    auth: Auth = Auth()
    policies: list[Policy] = []
    views: dict[str, View] = {}
    limits: Limits = Limits()
    state: State = State()
    audit: Audit = Audit()
    alerts: Alerts = Alerts()
    telemetry: Telemetry = Telemetry()


class LoadedConfig(Model):
    """A config that was read and judged, with what the loader learned on the way.

    ``off`` holds servers that cannot run, with the reason to show; they are absent from ``config.servers``.
    ``digest`` is the SHA-256 of everything that was read, in hex. Paths in ``config`` are absolute.
    """

    config: Config
    path: Path
    digest: str
    off: dict[str, str] = {}
    notes: list[str] = []
    files: list[Path] = []

    @property
    def anonymous(self) -> bool:
        """Whether callers without credentials are served (contract §2: nothing that names a caller is configured)."""
        tls = self.config.listen.tls
        return not self.config.clients and self.config.auth.jwt is None and not (tls and tls.client_ca)

    @property
    def enforcing(self) -> bool:
        """Whether any policy is in force, which makes deny the default."""
        return any(policy.mode == "enforce" for policy in self.config.policies)
