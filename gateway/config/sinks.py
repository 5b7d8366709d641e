"""Where audit records also go, as written: ``stdout``, ``otlp``, or an address."""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias
from urllib.parse import urlsplit

from pydantic import AfterValidator, SecretStr

from gateway.config.types import is_loopback, split_http_url

STDOUT: Final = "stdout"
OTLP: Final = "otlp"
POSTGRES: Final = ("postgres://", "postgresql://")
_FORMS: Final = "must be stdout, otlp, otlp+https://…, postgres://… or an https address"


def parse_sink(value: SecretStr) -> SecretStr:
    """Check where records are to go; the text may hold a password and is never shown."""
    text = value.get_secret_value()
    if text in (STDOUT, OTLP):
        return value
    if text.startswith(POSTGRES):
        if not urlsplit(text).hostname and "host=" not in text:
            raise ValueError("a postgres address needs a host")
        return value
    scheme = text.partition("://")[0]
    if scheme not in ("https", "http", "otlp+https", "otlp+http"):
        raise ValueError(_FORMS)
    parts = split_http_url(text.removeprefix("otlp+"))
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        raise ValueError("records leave the machine only over https")
    return value


Sink: TypeAlias = Annotated[SecretStr, AfterValidator(parse_sink)]
