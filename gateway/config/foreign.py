"""Server lists of other programs, taken as they are: ``mcpServers``, and VS Code's ``servers`` with ``inputs``.

What their keys mean here is one table; what means nothing here is noted, never silently dropped. A file that has
``mcpServers`` beside sections of ours is ours: there only keys those programs are known to write are noted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from gateway.config.places import Document, Loc, Mapping, Places, Tree, shown
from gateway.config.shape import keys_at, nearest
from gateway.errors import Problem

SWITCHED_OFF: Final = "switched off in its file"
"""The reason of a server that is off because its file says so, which is nobody's mistake."""
_STREAMABLE: Final = frozenset({"http", "streamable-http", "streamablehttp", "streamable_http"})
_PROCESS_KEYS: Final = ("args", "env", "cwd", "sandbox", "limits")
_ADDRESS_KEYS: Final = ("url", "serverUrl", "httpUrl")

_NOT_USED: Final = {
    "envFile": "is not read: put its variables into env, or into the environment of the gateway as ${NAME}",
    "timeout": "is not used, its unit differs between programs: set timeouts.call",
    "initTimeout": "is not used: set timeouts.start",
    "autoApprove": "is not used: which calls are allowed is for policies to say",
    "alwaysAllow": "is not used: which calls are allowed is for policies to say",
    "trust": "is not used: which calls are allowed is for policies to say",
    "oauth": "is not used: the gateway does not log in for this server",
    "headersHelper": "is not used: the gateway runs no commands for headers",
    "sandboxEnabled": "is not used: set sandbox",
    "dev": "is not used",
    "gallery": "is not used",
    "version": "is not used",
    "name": "is not used: the key is the name",
    "description": "is not used",
    "icon": "is not used",
    "metadata": "is not used",
}
_CHOICES: Final = {
    "disabledTools": "exclude",
    "excludeTools": "exclude",
    "enabledTools": "include",
    "includeTools": "include",
}


@dataclass(slots=True)
class Adopted:
    """A document in the form of our own files.

    ``taken`` are the servers whose entries were written for another program, ``off`` those their file switches off.
    """

    root: Mapping
    places: Places
    inputs: bool = False
    taken: set[str] = field(default_factory=set)
    off: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def adopt(document: Document) -> Adopted:
    """Bring a document into the form of our own files; one of ours comes back as it is."""
    adopted = Adopted(dict(document.root), Places(document))
    own_keys = keys_at(())
    if "mcpServers" in document.root:
        others = [key for key in document.root if key != "mcpServers"]
        ours = any(key in own_keys for key in others)
        entries = adopted.root.pop("mcpServers")
        if not ours:
            _leave_out(adopted, others)
        _Adoption(adopted, document, "mcpServers", strict=ours).take(entries)
    elif _is_vscode(document.root):
        adopted.inputs = True
        adopted.root.pop("inputs", None)
        entries = adopted.root.pop("servers", {})
        _Adoption(adopted, document, "servers", strict=False).take(entries)
    return adopted


def _is_vscode(root: Mapping) -> bool:
    if not root or not set(root) <= {"servers", "inputs"}:
        return False
    servers = root.get("servers")
    typed = isinstance(servers, dict) and any(isinstance(entry, dict) and "type" in entry for entry in servers.values())
    return "inputs" in root or typed


def _leave_out(adopted: Adopted, others: list[str]) -> None:
    for key in others:
        del adopted.root[key]
    if others:
        names = ", ".join(shown(key) for key in others[:5]) + (", …" if len(others) > 5 else "")
        adopted.notes.append(adopted.places.note(("mcpServers",), f"of this file only this is used, not {names}"))


@dataclass(slots=True)
class _Adoption:
    adopted: Adopted
    document: Document
    section: str
    strict: bool

    def take(self, entries: Tree) -> None:
        """Put each entry among the servers."""
        places = self.adopted.places
        servers = self.adopted.root.get("servers", {})
        if not isinstance(entries, dict) or not isinstance(servers, dict):
            self.adopted.problems.append(places.problem((self.section,), "must be a mapping of names to servers"))
            return
        merged = dict(servers)
        for name, entry in entries.items():
            if name in merged:
                text = "this server is there twice: in servers and in mcpServers"
                self.adopted.problems.append(places.problem((self.section, name), text))
                continue
            self.adopted.taken.add(name)
            places.graft(("servers", name), self.document, (self.section, name))
            merged[name] = self._entry(name, entry) if isinstance(entry, dict) else entry
        self.adopted.root["servers"] = merged

    def _entry(self, name: str, entry: Mapping) -> Tree:
        result: Mapping = {}
        for key, value in entry.items():
            if value is None:
                continue
            handler = _HANDLERS.get(key)
            if handler is not None:
                handler(self, name, value, result)
            elif key in keys_at(("servers", name)):
                result[key] = _texts(value) if key in ("env", "headers", "args") else value
            else:
                self._unknown(name, key)
                if self.strict and key not in _NOT_USED:
                    result[key] = value
        has_address = any(entry.get(key) is not None for key in _ADDRESS_KEYS)
        if has_address and entry.get("command") is None:
            for key in [key for key in _PROCESS_KEYS if result.pop(key, None)]:
                self._note(name, key, "is not used: the server has a URL and no command")
        return result

    def _unknown(self, name: str, key: str) -> None:
        words = _NOT_USED.get(key)
        if words is None and self.strict:
            return
        hint = nearest(key, keys_at(("servers", name))) if words is None else ""
        self._note(name, key, words or f"is not used{': ' + hint if hint else ''}")

    def _note(self, name: str, key: str, text: str) -> None:
        self.adopted.notes.append(self.adopted.places.note(("servers", name, key), text))

    def moved(self, name: str, key: str, target: Loc) -> None:
        """Let errors in what became ``target`` be reported where it was written."""
        self.adopted.places.graft(("servers", name, *target), self.document, (self.section, name, key))


def _kind(key: str) -> Callable[[_Adoption, str, Tree, Mapping], None]:
    def handle(adoption: _Adoption, name: str, value: Tree, result: Mapping) -> None:
        kind = value.casefold() if isinstance(value, str) else ""
        if kind == "sse":
            result["transport"] = "sse"
            adoption.moved(name, key, ("transport",))
        elif kind == "auto" or kind in _STREAMABLE:
            result["transport"] = "auto"
        elif kind not in ("stdio", "local", "remote"):
            adoption.adopted.notes.append(
                adoption.adopted.places.note(("servers", name, key), "is of no known kind: stdio, http or sse")
            )

    return handle


def _off(switched: Tree) -> Callable[[_Adoption, str, Tree, Mapping], None]:
    def handle(adoption: _Adoption, name: str, value: Tree, result: Mapping) -> None:
        if value is switched:
            adoption.adopted.off[name] = SWITCHED_OFF

    return handle


def _address(key: str) -> Callable[[_Adoption, str, Tree, Mapping], None]:
    def handle(adoption: _Adoption, name: str, value: Tree, result: Mapping) -> None:
        result["url"] = value
        adoption.moved(name, key, ("url",))

    return handle


def _choice(key: str, side: str) -> Callable[[_Adoption, str, Tree, Mapping], None]:
    def handle(adoption: _Adoption, name: str, value: Tree, result: Mapping) -> None:
        tools = result.setdefault("tools", {})
        if isinstance(tools, dict):
            tools[side] = value
            adoption.moved(name, key, ("tools", side))

    return handle


def _tools(adoption: _Adoption, name: str, value: Tree, result: Mapping) -> None:
    """Some programs write ``tools`` as the list of those to expose."""
    if not isinstance(value, list):
        tools = result.setdefault("tools", {})
        result["tools"] = {**value, **tools} if isinstance(value, dict) and isinstance(tools, dict) else value
        return
    _HANDLERS["includeTools"](adoption, name, value, result)
    adoption.moved(name, "tools", ("tools", "include"))


def _texts(value: Tree) -> Tree:
    """Give numbers and truth values as text: these programs pass them on so."""
    if isinstance(value, dict):
        return {key: _texts(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_texts(item) for item in value]
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else value


_HANDLERS: Final[dict[str, Callable[[_Adoption, str, Tree, Mapping], None]]] = {
    "type": _kind("type"),
    "transport": _kind("transport"),
    "disabled": _off(True),
    "enabled": _off(False),
    "serverUrl": _address("serverUrl"),
    "httpUrl": _address("httpUrl"),
    "tools": _tools,
    **{key: _choice(key, side) for key, side in _CHOICES.items()},
}

FOREIGN_KEYS: Final = (*_HANDLERS, *_NOT_USED)
"""Keys of other programs that mean something here, or that are known to mean nothing."""
