"""``telemetry``: what operators are told, and over what. ``gateway/telemetry`` does it."""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import AfterValidator, Discriminator, Field, SecretStr, Tag, model_validator

from gateway.config.types import Model, is_loopback, split_http_url

_TOKEN: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}")
_VISIBLE: Final = re.compile(r"[\x20-\x7e]*")
_OURS: Final = frozenset(
    {"content-type", "content-encoding", "content-length", "transfer-encoding", "host", "user-agent"}
)


def parse_collector(value: SecretStr) -> SecretStr:
    """Check the address of a collector: the base that ``/v1/traces`` is put behind, or the whole."""
    text = value.get_secret_value()
    if text:
        parts = split_http_url(text)
        if parts.query:
            raise ValueError("must be an address without a query; tokens belong into headers")
        if "@" in parts.netloc and parts.scheme == "http" and not is_loopback(parts.hostname or ""):
            raise ValueError("a password leaves the machine only over https")
    return value


CollectorUrl: TypeAlias = Annotated[SecretStr, AfterValidator(parse_collector)]


class Collector(Model):
    """An OpenTelemetry collector."""

    url: CollectorUrl
    """Its address over HTTP, such as `https://collector.example.com:4318`; `/v1/traces` is put behind it."""
    headers: dict[str, SecretStr] = {}
    """Headers of every request, such as `Authorization`."""
    sample: float = Field(default=1.0, ge=0, le=1)
    """Share of the requests that are recorded, drawn by the gateway, whosever trace they are in."""
    follow: bool = False
    """Trust clients to decide for their own traces: record those they say they record, and no others of theirs."""
    ca: str = ""
    """PEM file of the authorities that its certificate may be signed by, instead of the system's."""

    @model_validator(mode="after")
    def _usable(self) -> Collector:
        text = self.url.get_secret_value()
        if not text:
            raise ValueError("url must not be empty")
        for name, value in self.headers.items():
            if not _TOKEN.fullmatch(name) or name.lower() in _OURS:
                raise ValueError("headers must be names of HTTP headers, and none that the gateway sets itself")
            if not _VISIBLE.fullmatch(value.get_secret_value()):
                raise ValueError("the value of a header must be visible ASCII")
        parts = split_http_url(text)
        if self.headers and parts.scheme == "http" and not is_loopback(parts.hostname or ""):
            raise ValueError("headers leave the machine only over https")
        return self

    def opened(self) -> tuple[str, dict[str, str], str]:
        """Return address, headers and authorities as they are used, secrets included."""
        headers = {name: value.get_secret_value() for name, value in self.headers.items()}
        return self.url.get_secret_value(), headers, self.ca


def _form(value: object) -> str | None:
    """Tell which form was written, so that its errors speak of that form alone."""
    if isinstance(value, (str, SecretStr)):
        return "address"
    return "section" if isinstance(value, (dict, Collector)) else None


Otlp: TypeAlias = Annotated[
    Annotated[CollectorUrl, Tag("address")] | Annotated[Collector, Tag("section")],
    Discriminator(
        _form,
        custom_error_type="otlp_form",
        custom_error_message="must be the address of a collector, or a mapping with url",
    ),
]


class Telemetry(Model):
    """Logs, metrics, traces."""

    log_format: Literal["json", "console"] = "json"
    """One JSON object per line, or text for people."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """The least important line to write."""
    otlp: Otlp = SecretStr("")
    """OpenTelemetry collector for traces: its address, or more about it. Without one nothing is traced."""

    @property
    def collector(self) -> Collector | None:
        """The collector, whichever way it was written; None where there is none."""
        if isinstance(self.otlp, Collector):
            return self.otlp
        return Collector(url=self.otlp) if self.otlp.get_secret_value() else None
