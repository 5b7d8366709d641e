"""Server lists of other programs turned into ``servers`` of ours: what ``import`` prints and writes.

Secrets do not come along: each becomes ``${VARIABLE}``, and the variables to set are named. What is a secret is
guessed generously, since a variable too many costs a line and a key in a config costs more. Pure: no I/O.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote

from gateway.config.foreign import Adopted, adopt
from gateway.config.places import Document, Mapping, Tree, shown
from gateway.errors import ConfigError, Problem
from gateway.model.naming import SERVER_NAME, slug
from gateway.text import secrets

_REFERENCE = re.compile(r"\$\{([^}]*)\}?")
_VARIABLE = re.compile(r"(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(:-.*)?", re.DOTALL)
_SECRET_WORD = re.compile(
    r"(?i)key|token|secret|passw|passphrase|pwd|auth|credential|cookie|dsn|session|(?:^|_)pat(?:_|$)"
)
_RANDOM = re.compile(r"(?=[^0-9]*[0-9])(?=[^A-Za-z]*[A-Za-z])[A-Za-z0-9_\-+=~]{24,}")
_SCHEME = re.compile(r"(?i)(bearer|basic|token|apikey) +(.+)", re.DOTALL)
_FLAG = re.compile(r"(--?[A-Za-z][A-Za-z0-9_.-]*)=(.+)", re.DOTALL)
_ASSIGNED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.+)", re.DOTALL)
_HEADER = re.compile(r"([A-Za-z][A-Za-z0-9-]*):( *)(.+)", re.DOTALL)
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)(?:([^/?#@]*)@)?([^?#]*)(\?[^#]*)?(#.*)?", re.DOTALL)
_PLAIN_HEADERS: Final = frozenset({"accept", "accept-language", "content-type", "user-agent", "x-mcp-readonly"})
_HEADER_FLAGS: Final = frozenset({"-H", "--header"})
_PROJECTS: Final = "projects"


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable that the servers need. ``given``: its value stands in the file that was read."""

    name: str
    where: str
    given: bool


@dataclass(slots=True)
class Imported:
    """What became of a file."""

    servers: Mapping
    variables: list[Variable] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def take(document: Document) -> Imported:
    """Turn a server list of another program into servers of ours, in the file's order.

    Raises:
        ConfigError: it holds none.
    """
    listed = _server_list(document)
    adopted = adopt(listed)
    if not adopted.taken and not adopted.problems:
        hint = "mcpServers (Claude, Cursor), or servers with type (VS Code)"
        raise ConfigError([Problem("holds no servers of another program", document.file, 1, hint=hint)])
    if adopted.problems:
        raise ConfigError(adopted.problems)
    entries = adopted.root.get("servers")
    imported = Imported({}, notes=list(adopted.notes))
    if _PROJECTS in document.root:
        imported.notes.append(f"{document.file}: servers of single projects are not read, only those of the user")
    assert isinstance(entries, dict)
    names = _Names()
    for name, entry in entries.items():
        _one(imported, names, adopted, name, entry)
    return imported


def _server_list(document: Document) -> Document:
    """Find the list where programs keep it among other settings: VS Code's user settings have it below ``mcp``."""
    inner = document.root.get("mcp")
    if "mcpServers" in document.root or not isinstance(inner, dict) or "servers" not in inner:
        return document
    root: Mapping = {"servers": inner["servers"], "inputs": inner.get("inputs", [])}
    lines = {loc[1:]: line for loc, line in document.lines.items() if loc[:1] == ("mcp",) and len(loc) > 1}
    return Document(document.file, root, lines)


def _one(imported: Imported, names: _Names, adopted: Adopted, name: str, entry: Tree) -> None:
    def note(text: str) -> None:
        imported.notes.append(adopted.places.note(("servers", name), text))

    if name in adopted.off:
        note(f"is left out: {adopted.off[name]}")
        return
    if not isinstance(entry, dict) or not ("command" in entry or "url" in entry):
        note("is left out: it has neither a command nor a url")
        return
    if unfit := _unfit(entry):
        note(f"is left out: {unfit}")
        return
    own = name if SERVER_NAME.fullmatch(name) else _fitting(name)
    if not own or own in imported.servers or slug(own) in map(slug, imported.servers):
        note("is left out: " + ("its name is too much like another's" if own else "its name has no letter or digit"))
        return
    if own != name:
        note(f"is named {own} here: letters, digits, spaces and . _ - make a name")
    veil = _Veil(own, names, imported, note)
    imported.servers[own] = veil.server({key: value for key, value in entry.items() if (key, value) not in _DEFAULTS})


_DEFAULTS: Final[tuple[tuple[str, Tree], ...]] = (("transport", "auto"), ("args", []), ("env", {}), ("headers", {}))


def _unfit(entry: Mapping) -> str:
    """Say what of an entry no config could have, "" where nothing: what is written must be one that is served."""
    command, args, url = entry.get("command", ""), entry.get("args", []), entry.get("url", "http://")
    if not isinstance(command, str):
        return "its command is no text"
    if not isinstance(args, list) or not all(isinstance(each, str) for each in args):
        return "its args are no list of texts"
    for key in ("env", "headers"):
        held = entry.get(key, {})
        if not isinstance(held, dict) or not all(isinstance(each, str) for each in held.values()):
            return f"its {key} are no names with texts"
    if not isinstance(url, str) or not url.lower().startswith(("http://", "https://", "${")):
        return "its url is no http or https address"
    return ""


def _fitting(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._ -]+", "-", name).strip("-._ ")[:64]


class _Names:
    """Variables by name and by what they stand for, so that one value has one name and one name one value."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}

    def of(self, server: str, wanted: str, value: str) -> tuple[str, bool]:
        """Return the variable for a value, and whether it is a new one."""
        base = _shell(wanted)
        for candidate in (base, _shell(f"{slug(server)}_{base}"), *(f"{base}_{number}" for number in range(2, 1000))):
            known = self._values.get(candidate)
            if known is None:
                self._values[candidate] = value
                return candidate, True
            if known == value:
                return candidate, False
        raise AssertionError("a file of bounded size has fewer values of one name")


def _shell(text: str) -> str:
    word = re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_").upper()
    return word if word[:1].isalpha() else f"V_{word}"


@dataclass(slots=True)
class _Veil:
    """Puts variables in place of the secrets of one server."""

    name: str
    names: _Names
    imported: Imported
    note: Callable[[str], None]

    def server(self, entry: Mapping) -> Mapping:
        """Return the entry without secrets."""
        result: Mapping = {}
        for key, value in entry.items():
            match key, value:
                case "env", dict():
                    result[key] = {name: self._env(name, text) for name, text in value.items()}
                case "headers", dict():
                    result[key] = {name: self._header(name, text) for name, text in value.items()}
                case "args", list():
                    result[key] = self._arguments(value)
                case "url", str():
                    result[key] = self._url(value)
                case _:
                    result[key] = self._referring(key, value) if isinstance(value, str) else value
        return result

    def _env(self, name: str, value: Tree) -> Tree:
        if not isinstance(value, str):
            return value
        if "${" in value:
            return self._referring(f"env.{name}", value)
        if _SECRET_WORD.search(name) or _is_secret(value):
            return self._variable(name, f"env.{name}", value)
        return value

    def _header(self, name: str, value: Tree) -> Tree:
        if not isinstance(value, str):
            return value
        where = f"headers.{name}"
        if "${" in value:
            return self._referring(where, value)
        if name.lower() in _PLAIN_HEADERS and not _is_secret(value):
            return value
        return self._credential(name, where, value)

    def _credential(self, name: str, where: str, value: str) -> str:
        """Keep the scheme of an ``Authorization`` and veil what follows."""
        scheme = _SCHEME.fullmatch(value)
        wanted = "TOKEN" if name.lower() == "authorization" else name
        if scheme is None:
            return self._variable(f"{slug(self.name)}_{wanted}", where, value)
        return f"{scheme[1]} {self._variable(f'{slug(self.name)}_{wanted}', where, scheme[2])}"

    def _arguments(self, values: list[Tree]) -> list[Tree]:
        result: list[Tree] = []
        before = ""
        for index, value in enumerate(values):
            if isinstance(value, str):
                result.append(self._argument(before, value, f"args[{index}]"))
                before = value
            else:
                result.append(value)
        if "mcp-remote" in " ".join(value.split("@")[0] for value in values if isinstance(value, str)).split():
            self.note("runs mcp-remote: the gateway speaks HTTP itself, so write url: and headers: instead")
        return result

    def _argument(self, before: str, value: str, where: str) -> str:
        if "${" in value:
            return self._referring(where, value)
        if before in _HEADER_FLAGS and (header := _HEADER.fullmatch(value)):
            return f"{header[1]}:{header[2]}{self._credential(header[1], where, header[3])}"
        for form in (_FLAG, _ASSIGNED):
            if (match := form.fullmatch(value)) and (_SECRET_WORD.search(match[1]) or _is_secret(match[2])):
                wanted = f"{slug(self.name)}_{match[1]}" if form is _FLAG else match[1]
                return f"{match[1]}={self._variable(wanted, where, match[2])}"
        if "://" in value:
            return self._url(value, where)
        is_flag = before.startswith("-") and "=" not in before
        if not value.startswith("-") and ((is_flag and _SECRET_WORD.search(before)) or _is_secret(value)):
            return self._variable(f"{slug(self.name)}_{before if is_flag else 'SECRET'}", where, value)
        return value

    def _url(self, value: str, where: str = "url") -> str:
        if "${" in value:
            return self._referring(where, value)
        parts = _URL.fullmatch(value)
        if parts is None:
            return value
        user, found = parts[2], ""
        if user is not None:
            name, colon, password = user.partition(":")
            veiled = self._variable(f"{slug(self.name)}_PASSWORD", where, password or name)
            found = f"{name}:{veiled}@" if colon else f"{veiled}@"
        query = "&".join(self._parameter(pair, where) for pair in (parts[4] or "").split("&"))
        if any(_is_secret(unquote(step)) for step in parts[3].split("/")[1:]):
            self.note(f"{where} may hold a secret in its path: put ${{VARIABLE}} in its place")
        return f"{parts[1]}{found}{parts[3]}{query}{parts[5] or ''}"

    def _parameter(self, pair: str, where: str) -> str:
        name, equals, value = pair.partition("=")
        if value and (_SECRET_WORD.search(name) or _is_secret(unquote(value))):
            return f"{name}={self._variable(f'{slug(self.name)}_{name}', where, value)}"
        return f"{name}{equals}{value}"

    def _variable(self, wanted: str, where: str, value: str) -> str:
        name, new = self.names.of(self.name, wanted, value)
        if new:
            self.imported.variables.append(Variable(name, f"{self.name}: {where}", given=True))
        return "${" + name + "}"

    def _referring(self, where: str, value: str) -> str:
        """Write references to variables and inputs the way this gateway reads them."""
        return _REFERENCE.sub(lambda match: self._reference(where, match), value)

    def _reference(self, where: str, match: re.Match[str]) -> str:
        text = match[1]
        if text.startswith("input:"):
            text = _shell(text.removeprefix("input:"))
        elif text == "userHome":
            text = "HOME"
        form = _VARIABLE.fullmatch(text)
        if form is None or not match[0].endswith("}"):
            self.note(f"{where}: ${{{shown(text)}… is no variable here, it is taken as text")
            return "$" + match[0]
        known = any(each.name == form[1] for each in self.imported.variables)
        if not known and not form[2] and form[1] != "HOME":
            self.imported.variables.append(Variable(form[1], f"{self.name}: {where}", given=False))
        return "${" + form[1] + (form[2] or "") + "}"


def _is_secret(value: str) -> bool:
    return bool(secrets.find(value)) or _RANDOM.fullmatch(value) is not None
