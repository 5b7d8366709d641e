"""Scalars of the config: durations, sizes, rates, networks and addresses, each read from the text an operator writes.

Errors raised here name what is expected, never the value: it may have come from a secret.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Annotated, Final, TypeAlias
from urllib.parse import SplitResult, urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, SecretStr, WithJsonSchema

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SIZES: Final = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "KB": 10**3, "MB": 10**6, "GB": 10**9}
_PERIODS: Final = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}

_DURATION = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,9})?)\s*(ms|s|m|h|d)")
_SIZE = re.compile(r"([0-9]{1,15})\s*(B|KiB|MiB|GiB|KB|MB|GB)?")
_RATE = re.compile(r"([0-9]{1,9})\s*/\s*(second|minute|hour|day)")
_SHA256 = re.compile(r"[0-9a-fA-F]{64}")
_HOST = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]{0,252})|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")
_ORIGIN = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://(?:[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")
_UNSAFE_IN_URL = re.compile(r"[\x00-\x20\x7f\\]")


class Model(BaseModel):
    """Base of every section: frozen, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


def parse_duration(value: object) -> float:
    """Read ``30s``, ``10m``, ``1h``, ``400d``, ``250ms`` as seconds."""
    if isinstance(value, str) and (match := _DURATION.fullmatch(value.strip())):
        return float(match[1]) * _UNITS[match[2]]
    if isinstance(value, float) and value >= 0:
        return value
    raise ValueError("must be a duration such as 30s, 10m, 1h or 400d")


def parse_size(value: object) -> int:
    """Read ``4MiB``, ``512KiB`` or a number of bytes."""
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    if isinstance(value, str) and (match := _SIZE.fullmatch(value.strip())) and int(match[1]) > 0:
        return int(match[1]) * _SIZES[match[2] or "B"]
    raise ValueError("must be a size such as 4MiB or a number of bytes")


@dataclass(frozen=True, slots=True)
class Rate:
    """``count`` calls per ``seconds``."""

    count: int
    seconds: float

    def __str__(self) -> str:
        names = {float(seconds): name for name, seconds in _PERIODS.items()}
        return f"{self.count}/{names[self.seconds]}"


def parse_rate(value: object) -> Rate:
    """Read ``60/minute``."""
    if isinstance(value, Rate):
        return value
    if isinstance(value, str) and (match := _RATE.fullmatch(value.strip())) and int(match[1]) > 0:
        return Rate(int(match[1]), float(_PERIODS[match[2]]))
    raise ValueError("must be a rate such as 60/minute (second, minute, hour or day)")


def refuse_bool(value: object) -> object:
    """Let nothing but ``true`` and ``false`` be a truth value: YAML's ``true`` is not the number 1."""
    if isinstance(value, bool):
        raise ValueError("must be a whole number")
    return value


def parse_sha256(value: str) -> str:
    """Read a SHA-256 digest in hex, any case, as lower case."""
    if not _SHA256.fullmatch(value):
        raise ValueError("must be a SHA-256 digest: 64 hex digits")
    return value.lower()


def parse_network(value: str) -> str:
    """Read an address or a range (``10.0.0.0/8``) as a range."""
    try:
        return str(ipaddress.ip_network(value.strip(), strict=False))
    except ValueError:
        raise ValueError("must be an address or a range such as 10.0.0.0/8") from None


def parse_host(value: str) -> str:
    """Read a ``Host`` header value: a name or address, with a port where it matters."""
    if not _HOST.fullmatch(value):
        raise ValueError("must be a host name as clients send it, such as mcp.example.com or mcp.example.com:8443")
    return value.lower()


def is_loopback(host: str) -> bool:
    """Tell whether a host, as it is written, can only be reached from this machine."""
    if host.casefold() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def split_http_url(value: str) -> SplitResult:
    """Split an absolute http or https URL; whatever else is a ``ValueError`` that does not show it."""
    problem = ValueError("must be an absolute http or https URL with a host, without spaces and without a fragment")
    if _UNSAFE_IN_URL.search(value):
        raise problem
    try:
        parts = urlsplit(value)
        port = parts.port
    except ValueError:
        raise problem from None
    if parts.scheme.lower() not in ("http", "https") or not parts.hostname or parts.fragment or port == 0:
        raise problem
    return parts


def parse_public_url(value: str) -> str:
    """Read the address clients use: no userinfo, no query."""
    if value:
        parts = split_http_url(value)
        if parts.query or "@" in parts.netloc:
            raise ValueError("must be a plain URL such as https://mcp.example.com/mcp, without userinfo or query")
    return value


def parse_origin(value: str) -> str:
    """Read a web origin: scheme, host and port, nothing behind."""
    if not _ORIGIN.fullmatch(value):
        raise ValueError("must be an origin such as https://app.example.com, without a path; no wildcards")
    return value.lower()


def parse_server_url(value: SecretStr) -> SecretStr:
    """Check the address of a server, which may hold userinfo and a query."""
    split_http_url(value.get_secret_value())
    return value


def parse_api_source(value: SecretStr) -> SecretStr:
    """Check where an OpenAPI document is: a file, or an address, which may hold userinfo and a query."""
    text = value.get_secret_value()
    if "://" in text:
        split_http_url(text)
    elif not text.strip() or "\0" in text:
        raise ValueError("must be a file or an absolute http or https URL")
    return value


def format_duration(seconds: float) -> str:
    """Write a duration in the largest unit that divides it."""
    if seconds == 0:
        return "0s"
    milliseconds = round(seconds * 1000)
    for unit in ("d", "h", "m", "s"):
        length = round(_UNITS[unit] * 1000)
        if milliseconds % length == 0 and (milliseconds > length or unit == "s"):
            return f"{milliseconds // length}{unit}"
    return f"{milliseconds}ms"


def format_size(count: int) -> str:
    """Write a number of bytes in the largest unit that divides it."""
    for unit in ("GiB", "MiB", "KiB"):
        if count and count % _SIZES[unit] == 0:
            return f"{count // _SIZES[unit]}{unit}"
    return str(count)


DURATION_PATTERN: Final = r"^[0-9]+(\.[0-9]+)?\s*(ms|s|m|h|d)$"
RATE_PATTERN: Final = r"^[0-9]+\s*/\s*(second|minute|hour|day)$"

Duration: TypeAlias = Annotated[
    float,
    BeforeValidator(parse_duration),
    WithJsonSchema({"type": "string", "pattern": DURATION_PATTERN}),
]
Size: TypeAlias = Annotated[int, BeforeValidator(parse_size), WithJsonSchema({"type": ["string", "integer"]})]
RateText: TypeAlias = Annotated[
    Rate,
    BeforeValidator(parse_rate),
    WithJsonSchema({"type": "string", "pattern": RATE_PATTERN}),
]
Whole: TypeAlias = Annotated[int, BeforeValidator(refuse_bool)]
Sha256: TypeAlias = Annotated[
    str, AfterValidator(parse_sha256), WithJsonSchema({"type": "string", "pattern": "^[0-9a-fA-F]{64}$"})
]
Network: TypeAlias = Annotated[str, AfterValidator(parse_network)]
Host: TypeAlias = Annotated[str, AfterValidator(parse_host)]
Origin: TypeAlias = Annotated[str, AfterValidator(parse_origin)]
PublicUrl: TypeAlias = Annotated[str, AfterValidator(parse_public_url)]
ServerUrl: TypeAlias = Annotated[SecretStr, AfterValidator(parse_server_url)]
ApiSource: TypeAlias = Annotated[SecretStr, AfterValidator(parse_api_source)]
