"""Searches what a program left behind for secrets, in every form they take on the way."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from urllib.parse import quote


def forms(secret: str) -> list[bytes]:
    """Return how a secret reads as it is, in a URL, in hex, inside of Base64 at any offset, and by its SHA-256."""
    raw = secret.encode()
    digest = hashlib.sha256(raw).digest()
    found = [raw, quote(secret, safe="").encode(), quote(secret).encode(), raw.hex().encode()]
    found += [json.dumps(secret)[1:-1].encode(), secret.replace("/", "\\/").encode()]
    found += [digest.hex().encode(), base64.b64encode(digest)[:-1], base64.urlsafe_b64encode(digest)[:-1]]
    for offset in range(3):
        for encode in (base64.standard_b64encode, base64.urlsafe_b64encode):
            coded = encode(b"\0" * offset + raw)
            found.append(coded[4 if offset else 0 : -4])
    return found


def found_in(places: Mapping[str, bytes], marks: Mapping[str, str]) -> set[tuple[str, str]]:
    """Return the name of each mark that was found, with the place."""
    searched = {name: forms(mark) for name, mark in marks.items()}
    return {
        (name, place)
        for place, data in places.items()
        for name, wanted in searched.items()
        if any(form in data for form in wanted)
    }
