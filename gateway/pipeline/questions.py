"""Which of a server's questions a client can be asked, and what stands for those it cannot. Pure.

Judges elicitation, sampling and roots requests against what the client declared (client/elicitation, client/sampling
and client/roots §Capabilities). Knows no era: the questions of a legacy server have the same shape.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from gateway.model.call import Call
from gateway.model.outcome import Failure, InputRequired, Outcome
from gateway.protocol import capabilities, codes, methods, rawjson
from gateway.protocol.rawjson import JsonError, Members, Object, Raw, Value
from gateway.protocol.versions import Era

MAX_QUESTIONS: Final = 32
"""Questions of one round; a server that has more is not asked for them one by one."""

_CANCEL: Final[Object] = {"action": "cancel"}
_SECRET: Final = re.compile(r"pass(word|wd|phrase|code)|secret|api_?key|credential|token|(^|_)(otp|pin|cvv)(_|$)")
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class Judged:
    """The questions that go to the client, the answers given in its place, and what the audit log is told of both."""

    open: dict[str, Raw] = field(default_factory=dict)
    answered: Object = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def judge(requests: Members, declared: Object) -> Judged:
    """Sort a round's questions for a client with these capabilities."""
    judged, notes = Judged(), []
    for key, item in requests.items():
        method, params = _read(item)
        problem = _problem(method, params, declared)
        if problem is None:
            judged.open[key] = item
            notes += [f"{method} asks for {name}" for name in _secrets(params)]
        else:
            judged.answered[key] = declined(method)
            notes.append(f"{method} declined: {problem}")
    return Judged(judged.open, judged.answered, tuple(dict.fromkeys(notes)))


def declined(method: str) -> Value:
    """Return the answer of a client that does not answer: only elicitation has a word for it, else it is null."""
    return dict(_CANCEL) if method == methods.ELICIT else None


def is_url_error(failure: Failure) -> bool:
    """Tell whether a server of the legacy era wants people to open a page first (2025-11-25 client/elicitation)."""
    return failure.error is not None and failure.error.code == codes.LEGACY_URL_ELICITATION


def of_url_error(call: Call, failure: Failure, asks: Collection[str]) -> Outcome:
    """Return that error as questions where the client knows no such error and can take all of them.

    Asked once: who comes back without having accepted gets the error.
    """
    given = (call.input_responses or {}).values()
    accepted = all(isinstance(answer, dict) and answer.get("action") == "accept" for answer in given)
    if call.caller.era is not Era.MODERN or "elicitation" not in asks or not accepted:
        return failure
    requests = {
        f"url-{number}": rawjson.raw({"method": methods.ELICIT, "params": params})
        for number, params in enumerate(pages_of(failure), 1)
    }
    judged = judge(requests, call.caller.capabilities)
    return InputRequired(requests, None) if judged.open and not judged.answered else failure


def pages_of(failure: Failure) -> list[Object]:
    """Return what that error asks for; nothing where any of it is no page."""
    data = rawjson.peek(failure.error.data) if failure.error is not None else None
    listed = data.get("elicitations") if isinstance(data, dict) else None
    pages = listed if isinstance(listed, list) else []
    read = [page for page in pages if isinstance(page, dict) and page.get("mode") == "url"]
    return read if len(read) == len(pages) else []


def methods_of(requests: Iterable[Raw]) -> str:
    """Name what is asked for, for people."""
    return ", ".join(sorted({_read(item)[0] for item in requests}))


def _read(item: Raw) -> tuple[str, Object]:
    try:
        members = rawjson.decode_members(item)
        params = rawjson.decode_value(members["params"]) if "params" in members else {}
    except JsonError:
        return "", {}
    method = rawjson.peek(members.get("method"))
    return (method if isinstance(method, str) else "", params if isinstance(params, dict) else {})


def _problem(method: str, params: Object, declared: Object) -> str | None:
    capability = capabilities.capability_of(method)
    own = declared.get(capability) if capability is not None else None
    if not isinstance(own, dict):
        return "the client cannot take it"
    if method == methods.ELICIT:
        return _elicitation_problem(params, own)
    if method == methods.SAMPLE and "tools" in params and not isinstance(own.get("tools"), dict):
        return "the client cannot take tools"
    return None


def _elicitation_problem(params: Object, own: Object) -> str | None:
    """Judge the mode: none declared means form alone (client/elicitation §Capabilities; S100)."""
    mode = params.get("mode", "form")
    if mode not in ("form", "url"):
        return "no known mode"
    if not (isinstance(own.get(mode), dict) or (mode == "form" and "url" not in own)):
        return f"the client cannot take mode {mode}"
    if mode == "url" and not _is_safe(params.get("url")):
        return "the URL is neither https nor loopback"
    return None


def _is_safe(url: Value) -> bool:
    """Tell whether people may be sent to a URL: https, or http to this machine, and nobody's name in it."""
    if not isinstance(url, str) or not url.isprintable() or any(char in url for char in ' \\"<>'):
        return False
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        return False
    if not host or "@" in parts.netloc:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and host in _LOOPBACK)


def _secrets(params: Object) -> list[str]:
    """Return the fields of a form that look like secrets, which a form must not ask for (elicitation §Security)."""
    schema = params.get("requestedSchema")
    fields = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(fields, dict):
        return []
    return [name for name in fields if _SECRET.search(_words(name))][:8]


def _words(name: str) -> str:
    """Write a field's name so that word borders show: ``apiKey`` and ``api-key`` alike become ``api_key``."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return re.sub(r"[^a-z0-9]+", "_", spaced.lower())
