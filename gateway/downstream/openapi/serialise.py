"""Writes arguments into a request's path, query, header fields and cookies, by the styles of OpenAPI. Pure.

Whatever an argument holds, it stays where its parameter is: everything is percent-encoded that is no plain character,
and what a server might take for a step upwards, or for the end of a header field, is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final
from urllib.parse import quote, unquote

from gateway.downstream.openapi.addresses import METHOD_FIELD, query_name
from gateway.downstream.openapi.output import is_json
from gateway.downstream.openapi.parameters import Parameter
from gateway.protocol import rawjson
from gateway.protocol.rawjson import Object, Value

MAX_TARGET: Final = 64 * 1024
"""Bytes of path and query together."""

_RESERVED: Final = ":/?@!$'()*,="
"""What ``allowReserved`` leaves as it is: not what ends a value or the query, nor the plus that stands for a space.

Nor the semicolon, which some servers take for the end of a value.
"""
_COOKIE: Final = "!#$&'()*+./:<=>?@[]^`{|}"
_CONTROLS: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
"""Those above ASCII too: some parsers of header fields take U+0085 for the end of a line."""
_BETWEEN: Final[Mapping[str, str]] = {"form": ",", "spaceDelimited": "%20", "pipeDelimited": "%7C"}
_DECODINGS: Final = 3
_EXACT: Final = 2**53


class BadArgument(Exception):
    """An argument that cannot be sent; the text says which and why, without its value."""

    def __init__(self, argument: str, why: str) -> None:
        super().__init__(f"{argument}: {why}")


def text_of(value: Value) -> str:
    """Write a value as text: what is no plain value as JSON."""
    match value:
        case str():
            return value
        case float() if value.is_integer() and abs(value) < _EXACT:
            return str(int(value))
        case _:
            return rawjson.encode(value).decode()


def target(template: str, parameters: Sequence[Parameter], arguments: Object, own: str, fixed: frozenset[str]) -> str:
    """Return path and query of a request.

    ``own`` is a query that is always sent, ``fixed`` are the names in it as ``query_name`` gives them.

    Raises:
        BadArgument: an argument cannot be sent.
    """
    path = path_of(template, parameters, arguments)
    pairs = [own] if own else []
    for parameter in parameters:
        if parameter.place == "query" and arguments.get(parameter.argument) is not None:
            pairs += fair_pairs_of(parameter, arguments[parameter.argument], fixed)
    whole = f"{path}?{'&'.join(pairs)}" if pairs else path
    if len(whole) > MAX_TARGET:
        raise BadArgument("arguments", f"together they make an address of more than {MAX_TARGET} bytes")
    return whole


def path_of(template: str, parameters: Iterable[Parameter], arguments: Object) -> str:
    """Put the path's parameters into a template.

    Raises:
        BadArgument: one is missing, or would lead to another path.
    """
    path = template
    made: dict[str, str] = {}
    for parameter in parameters:
        if parameter.place == "path":
            made[parameter.name] = _segment(parameter, arguments.get(parameter.argument))
    path = re.sub(r"\{([^{}/]{1,128})\}", lambda match: made.get(match[1], match[0]), template)
    for parameter in parameters:
        if parameter.place == "path":
            # What two of them make together counts as well.
            for segment in path.split("/"):
                _stays(parameter, unquote(segment))
    return path


def _segment(parameter: Parameter, value: Value) -> str:
    if value is None:
        raise BadArgument(parameter.argument, "it is part of the path and cannot be left out")
    for text in _texts(value):
        _stays(parameter, text)
    written = _by_style(parameter, value)
    if not written:
        raise BadArgument(parameter.argument, "it is part of the path and cannot be empty")
    return written


def _texts(value: Value) -> Iterator[str]:
    if isinstance(value, list):
        yield from map(text_of, value)
    elif isinstance(value, dict):
        yield from value
        yield from map(text_of, value.values())
    else:
        yield text_of(value)


def _stays(parameter: Parameter, text: str) -> None:
    """Refuse what a server could take for a step upwards, also one that decodes more than once."""
    for _ in range(_DECODINGS):
        if _CONTROLS.search(text):
            raise BadArgument(parameter.argument, "it holds a control character")
        if any(part.partition(";")[0].strip() in (".", "..") for part in re.split(r"[/\\]", text)):
            raise BadArgument(parameter.argument, "it would lead to another path")
        text = unquote(text)


def _by_style(parameter: Parameter, value: Value) -> str:
    """Write a path parameter: ``simple``, ``label`` or ``matrix``."""
    name = _quoted(parameter.name)
    if parameter.media:
        return _quoted(_as_media(parameter, value))
    match parameter.style, value:
        case "label", list() | dict():
            return "." + ("." if parameter.explode else ",").join(_parts(value, parameter.explode))
        case "label", _:
            return "." + _quoted(text_of(value))
        case "matrix", list() if parameter.explode:
            return "".join(f";{name}={part}" for part in _parts(value, True))
        case "matrix", dict() if parameter.explode:
            return "".join(f";{part}" for part in _parts(value, True))
        case "matrix", list() | dict():
            return f";{name}={','.join(_parts(value, False))}"
        case "matrix", _:
            return f";{name}={_quoted(text_of(value))}"
        case _, list() | dict():
            return ",".join(_parts(value, parameter.explode))
        case _:
            return _quoted(text_of(value))


def _parts(value: Value, explode: bool, safe: str = "") -> list[str]:
    """Return the parts of a list, or of an object: as ``key=value``, else key and value one after the other."""
    if isinstance(value, list):
        return [_quoted(text_of(item), safe) for item in value]
    members = value.items() if isinstance(value, dict) else ()
    pairs = [(_quoted(key), _quoted(text_of(item), safe)) for key, item in members if item is not None]
    return [f"{key}={item}" for key, item in pairs] if explode else [part for pair in pairs for part in pair]


def pairs_of(parameter: Parameter, value: Value) -> list[str]:
    """Write a query parameter, or a field of a form, as ``name=value`` pairs."""
    safe, name = _RESERVED if parameter.reserved else "", _quoted(parameter.name)
    if parameter.media:
        return [f"{name}={_quoted(_as_media(parameter, value), safe)}"]
    match value:
        case dict() | list() if parameter.style == "deepObject":
            return [f"{key}={_quoted(text, safe)}" for key, text in _deep(name, value)]
        case list() if parameter.explode:
            return [f"{name}={part}" for part in _parts(value, True, safe)]
        case dict() if parameter.explode and parameter.style == "form":
            return _parts(value, True, safe)
        case list() | dict():
            between = _BETWEEN.get(parameter.style, ",")
            return [f"{name}={between.join(_parts(value, False, safe))}"] if value else []
        case _:
            return [f"{name}={_quoted(text_of(value), safe)}"]


def fair_pairs_of(parameter: Parameter, value: Value, fixed: frozenset[str]) -> list[str]:
    """Write ``name=value`` pairs whose names the argument may choose, where they are not the parameter's own.

    Raises:
        BadArgument: a name is not to be chosen.
    """
    pairs, own = pairs_of(parameter, value), query_name(parameter.name)
    for pair in pairs:
        name = unquote(pair.partition("=")[0])
        if query_name(name) != own:
            may_choose(parameter.argument, name, fixed)
    return pairs


def may_choose(argument: str, name: str, fixed: frozenset[str]) -> None:
    """Refuse a name of a query parameter, or of a form's field, that the document does not give.

    Raises:
        BadArgument: the name is one that the config sends, or would change the method.
    """
    match query_name(name):
        case plain if plain in fixed:
            raise BadArgument(argument, "it would set what the gateway's own configuration sets")
        case plain if plain == METHOD_FIELD:
            raise BadArgument(argument, "it would make the request one of another method")


def _deep(name: str, value: Value) -> Iterator[tuple[str, str]]:
    """Yield the leaves of nested objects and lists with their keys in brackets."""
    match value:
        case dict():
            for key, item in value.items():
                yield from _deep(f"{name}%5B{_quoted(key)}%5D", item)
        case list():
            for number, item in enumerate(value):
                yield from _deep(f"{name}%5B{number}%5D", item)
        case None:
            return
        case _:
            yield name, text_of(value)


def header_fields(parameters: Iterable[Parameter], arguments: Object) -> dict[str, str]:
    """Write the header fields that arguments make, all cookies in one of them.

    Raises:
        BadArgument: a value cannot stand in a header field.
    """
    fields: dict[str, str] = {}
    cookies: list[str] = []
    for parameter in parameters:
        value = arguments.get(parameter.argument)
        if value is None:
            continue
        if parameter.place == "header":
            fields[parameter.name] = _field(parameter, value)
        elif parameter.place == "cookie":
            cookies.append(f"{parameter.name}={_cookie(parameter, value)}")
    return fields | {"Cookie": "; ".join(cookies)} if cookies else fields


def _field(parameter: Parameter, value: Value) -> str:
    if parameter.media or not isinstance(value, (list, dict)):
        text = _as_media(parameter, value)
    elif isinstance(value, list):
        text = ",".join(map(text_of, value))
    else:
        between = "=" if parameter.explode else ","
        text = ",".join(f"{key}{between}{text_of(item)}" for key, item in value.items() if item is not None)
    if _CONTROLS.search(text.replace("\t", " ")):
        raise BadArgument(parameter.argument, "it holds a character that cannot be sent in a header field")
    try:
        text.encode("latin-1")
    except UnicodeEncodeError:
        raise BadArgument(parameter.argument, "it holds a character that cannot be sent in a header field") from None
    return text.strip()


def _cookie(parameter: Parameter, value: Value) -> str:
    if isinstance(value, (list, dict)) and not parameter.media:
        return "%2C".join(_parts(value, False, _COOKIE))
    return _quoted(_as_media(parameter, value), _COOKIE)


def _as_media(parameter: Parameter, value: Value) -> str:
    """Write a value as its media type has it; without one as plain text."""
    return rawjson.encode(value).decode() if is_json(parameter.media) else text_of(value)


def _quoted(text: str, safe: str = "") -> str:
    return quote(text, safe=safe, errors="replace")
