"""What the official suite's scenarios about authorization need: a way to get tokens, and a user who says yes.

The user's browser is a cookie jar that follows redirects: the suite's authorization servers ask nothing.
"""

from __future__ import annotations

import urllib.error
import urllib.request
from http.cookiejar import CookieJar
from typing import Any, Final, TypeAlias

Json: TypeAlias = dict[str, Any]

PREFIX: Final = "auth/"
METADATA_URL: Final = "https://conformance-test.local/client-metadata.json"
"""What the suite's authorization servers take for a client metadata document; nobody fetches it."""
LOOPBACK: Final = ["127.0.0.0/8", "::1/128"]
MAX_CONSENTS: Final = 4


class Unwilling(Exception):
    """The gateway does not go on, as it must not; the text is what it says."""


def config(scenario: str, context: Json) -> Json:
    """Return what a scenario's server needs beside its URL."""
    return {"allow_networks": LOOPBACK, "auth": _way(scenario, context)}


def _way(scenario: str, context: Json) -> Json:
    name = {"client_id": context["client_id"]} if "client_id" in context else {}
    secret = {"client_secret": context["client_secret"]} if "client_secret" in context else {}
    if scenario.startswith("auth/client-credentials"):
        key = context.get("private_key_pem")
        proof = {"private_key": key, "algorithm": context.get("signing_algorithm", "ES256")} if key else secret
        return {"client_credentials": {**name, **proof}}
    document = {"client_metadata_url": METADATA_URL} if scenario == "auth/basic-cimd" else {}
    return {"authorization_code": {**name, **secret, **document}}


def consent(server: Json) -> bool:
    """Say yes where a server waits for that; tell whether it did.

    Raises:
        Unwilling: the gateway did not take what came of it, or does not want to ask at all.
    """
    url = server.get("consent_url")
    if not url:
        if server.get("state") == "failed":
            raise Unwilling(server["last_error"])
        return False
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
    try:
        with browser.open(url, timeout=5) as page:
            page.read()
    except urllib.error.HTTPError as error:
        raise Unwilling(f"status {error.code}: {error.read().decode()}") from None
    return True
