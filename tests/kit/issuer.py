"""A real authorization server: npm's ``oidc-provider`` as a process of its own, and a browser that signs in to it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPMessage
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any, TypeAlias

from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from tests.environments import prepare
from tests.kit.gateway import free_port
from tests.kit.peers import environment
from tests.kit.tokens import ec_key, rsa_key

Json: TypeAlias = dict[str, Any]
SECRET = "robot-secret-of-the-tests"


def private_jwk(name: str, algorithm: str = "RS256") -> Json:
    """Return a signing key with both halves, named after ``name``."""
    found: Json = (
        RSAAlgorithm.to_jwk(rsa_key(name), as_dict=True)
        if algorithm == "RS256"
        else ECAlgorithm.to_jwk(ec_key(name), as_dict=True)
    )
    found.pop("key_ops", None)
    return {**found, "kid": name, "alg": algorithm, "use": "sig"}


class AuthorizationServer:
    """The running process."""

    def __init__(self, resource: str, lifetime: int, log: Path) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._resource, self._lifetime, self._log = resource, lifetime, log
        self._process: subprocess.Popen[bytes] | None = None
        self._keys = [private_jwk("first")]

    def start(self) -> None:
        """Start it, with the keys it had when it was stopped."""
        folder = environment("oidc")
        variables = {**os.environ, "PEERS": str(folder), "KEYS": json.dumps(self._keys), "NODE_NO_WARNINGS": "1"}
        script = prepare.HERE / "oidc" / "issuer.mjs"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [prepare.node(), script, str(self.port), self._resource, str(self._lifetime)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=variables,
            )
        assert "issuer" in self._line(), self._log.read_text()[-2000:]

    def stop(self) -> None:
        """End it at once."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def rotate(self, *keys: Json) -> None:
        """Sign with the first of these keys from now on, and publish all."""
        self._keys = [*keys]
        self._order({"rotate": self._keys})

    def requests(self) -> list[str]:
        """Return every path that was asked for."""
        found: list[str] = self._order({"requests": True})["requests"]
        return found

    def robot_token(self, scope: str = "mcp", resource: str = "") -> str:
        """Return a token of a client that acts for itself."""
        form = {
            "grant_type": "client_credentials",
            "client_id": "robot",
            "client_secret": SECRET,
            "scope": scope,
            "resource": resource or self._resource,
        }
        request = urllib.request.Request(f"{self.url}/token", urllib.parse.urlencode(form).encode())
        with urllib.request.urlopen(request, timeout=10) as reply:
            return str(json.loads(reply.read())["access_token"])

    def _order(self, order: Json) -> Json:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        self._process.stdin.flush()
        return self._line()

    def _line(self) -> Json:
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        found: Json = json.loads(line) if line else {}
        return found


@contextmanager
def authorization_server(resource: str, log: Path, lifetime: int = 300) -> Iterator[AuthorizationServer]:
    """Run an authorization server for a block."""
    server = AuthorizationServer(resource, lifetime, log)
    try:
        server.start()
        yield server
    finally:
        server.stop()


class _Stay(urllib.request.HTTPRedirectHandler):
    """Follows no redirect, so that the last one can be read."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        return None


class Browser:
    """A person at a browser: opens the address a client gives, signs in, consents, and tells where that led."""

    def __init__(self) -> None:
        self._opener = urllib.request.build_opener(_Stay, urllib.request.HTTPCookieProcessor(CookieJar()))

    def sign_in(self, url: str, name: str = "alice") -> str:
        """Return the address on the client's side that the authorization server leads back to."""
        start = urllib.parse.urlsplit(url).netloc
        form: Json | None = None
        for _ in range(20):
            target, body = self._visit(url, form)
            form = None
            if target is not None:
                url = urllib.parse.urljoin(url, target)
                if urllib.parse.urlsplit(url).netloc != start:
                    return url
                continue
            action = re.search(r'action="([^"]+)"', body)
            assert action is not None, body[:2000]
            prompt = re.search(r'name="prompt" value="([^"]+)"', body)
            url = urllib.parse.urljoin(url, action[1])
            form = {"prompt": prompt[1] if prompt else "login", "login": name, "password": "any"}
        raise AssertionError("the sign-in did not end")

    def through(self, url: str, name: str = "alice") -> str:
        """Open a client's own page, which leads to the authorization server and back; returns what is shown then."""
        target, body = self._visit(url, None)
        assert target is not None, body[:2000]
        return self._visit(self.sign_in(urllib.parse.urljoin(url, target), name), None)[1]

    def _visit(self, url: str, form: Json | None) -> tuple[str | None, str]:
        data = urllib.parse.urlencode(form).encode() if form is not None else None
        try:
            with self._opener.open(url, data, timeout=10) as reply:
                return None, reply.read().decode()
        except urllib.error.HTTPError as error:
            location = error.headers.get("Location")
            with error:
                body = error.read().decode()
            assert location, body[:2000]
            return location, body
