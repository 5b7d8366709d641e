"""Where what must never expire is kept: in ``state.dir``, in a directory that gateways share, or in a database."""

from __future__ import annotations

import posixpath
from typing import Annotated, Final, TypeAlias
from urllib.parse import unquote, urlsplit

from pydantic import AfterValidator, SecretStr

from gateway.config.sinks import POSTGRES

_FILE: Final = "file://"
_FORMS: Final = "must be postgres://… or file:///an/absolute/directory"


def parse_database(value: SecretStr) -> SecretStr:
    """Check where documents are to be kept; the text may hold a password and is never shown."""
    text = value.get_secret_value()
    if not text or shared_directory(value):
        return value
    if not text.startswith(POSTGRES):
        raise ValueError(_FORMS)
    try:
        has_host = bool(urlsplit(text).hostname) or "host=" in text
    except ValueError:
        raise ValueError(_FORMS) from None
    if not has_host:
        raise ValueError("a postgres address needs a host")
    return value


def is_database(value: SecretStr) -> bool:
    """Tell whether it is a database rather than files."""
    return value.get_secret_value().startswith(POSTGRES)


def shared_directory(value: SecretStr) -> str:
    """Return the directory that an address names, "" for anything else."""
    text = value.get_secret_value()
    path = unquote(text.removeprefix(_FILE))
    if not text.startswith(_FILE) or not path.startswith("/") or "\0" in path or "?" in text or "#" in text:
        return ""
    normal = posixpath.normpath(path)
    return normal if normal.strip("/") else ""


DatabaseUrl: TypeAlias = Annotated[SecretStr, AfterValidator(parse_database)]
