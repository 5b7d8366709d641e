"""Where short facts are kept: in the process, or on a server that several gateways share."""

from __future__ import annotations

import re
from typing import Annotated, Final, TypeAlias
from urllib.parse import SplitResult, urlsplit

from pydantic import AfterValidator, SecretStr

MEMORY: Final = "memory://"
SECURED: Final = ("rediss", "valkeys")
"""Schemes with TLS."""
_NETWORK: Final = ("redis", "valkey", *SECURED)
_DATABASE: Final = re.compile(r"(|/|/[0-9]{1,5})")
_SOCKET_DATABASE: Final = re.compile(r"(|db=[0-9]{1,5})")
_FORMS: Final = "must be memory://, redis://, rediss://, valkey://, valkeys:// or unix:///path"


def parse_store_url(value: SecretStr) -> SecretStr:
    """Check where facts are to be kept; the text may hold a password and is never shown."""
    text = value.get_secret_value()
    if text == MEMORY:
        return value
    parts = _split(text)
    if parts.scheme not in (*_NETWORK, "unix"):
        raise ValueError(_FORMS)
    if parts.fragment:
        raise ValueError("must not have a fragment: write # in a password as %23")
    if parts.username and not parts.password:
        raise ValueError("a user name needs a password: scheme://user:password@host, or scheme://:password@host")
    if parts.scheme == "unix":
        _judge_socket(parts)
    else:
        _judge_network(parts)
    return value


def is_shared(value: SecretStr) -> bool:
    """Tell whether facts are kept outside the process."""
    return value.get_secret_value() != MEMORY


def is_secured(value: SecretStr) -> bool:
    """Tell whether they travel over TLS."""
    return value.get_secret_value().partition("://")[0] in SECURED


def _split(text: str) -> SplitResult:
    try:
        parts = urlsplit(text)
        parts.port  # noqa: B018 - raises where it is no number.
    except ValueError:
        raise ValueError(_FORMS) from None
    return parts


def _judge_network(parts: SplitResult) -> None:
    if not parts.hostname:
        raise ValueError("needs a host: redis://host:6379/0")
    if parts.query:
        raise ValueError("takes no options behind ?")
    if _DATABASE.fullmatch(parts.path) is None:
        raise ValueError("the path is the number of a database: /0")


def _judge_socket(parts: SplitResult) -> None:
    if parts.hostname or not parts.path.startswith("/"):
        raise ValueError("needs the absolute path of a socket: unix:///path")
    if _SOCKET_DATABASE.fullmatch(parts.query) is None:
        raise ValueError("takes the number of a database alone behind ?: ?db=0")


StoreUrl: TypeAlias = Annotated[SecretStr, AfterValidator(parse_store_url)]
