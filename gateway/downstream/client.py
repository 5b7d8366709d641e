"""The HTTP client of one server: where it dials, what it sends along, which redirects it follows, how it fails.

Sends what it is given, once; knows no JSON-RPC. Nothing of the environment takes part: no proxies, no netrc, no
cookies (S130). Errors never show the URL, since userinfo and query may be secrets.
"""

from __future__ import annotations

import base64
import re
import ssl
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Final

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from gateway import __version__
from gateway.config.servers import Server
from gateway.downstream import tls
from gateway.downstream.authorizer import Anonymous, Authorizer, Refusal
from gateway.downstream.inspection import WrongKey
from gateway.downstream.lent import Lent
from gateway.downstream.transport import Departure
from gateway.errors import DownstreamError, Reason
from gateway.network import Dialing, Refused, factory

CONNECT_TIMEOUT: Final = 5.0
"""Seconds for name resolution, TCP and TLS together."""
MAX_REFUSALS: Final = 2
"""Times a request is sent again with a better credential: for a token that has ended, and for one that lacks scopes."""
KEEP_ALIVE: Final = 4.0
"""Seconds an idle connection is kept; common servers close theirs after 5, and a race would lose a call."""

_REFUSED: Final = frozenset({401, 403})
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_SEE_OTHER: Final = 303
_SAME_METHOD: Final = frozenset({307, 308})
_FORBIDDEN = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


class HttpClient:
    """Connections to one server. Made inside a running loop; ``aclose`` ends it."""

    def __init__(
        self,
        server: Server,
        on_blocked: Callable[[], None] = lambda: None,
        authorizer: Authorizer | None = None,
    ) -> None:
        """Prepare everything; dials nothing. ``on_blocked`` hears of each dial that the rules forbid.

        Raises:
            DownstreamError: the url, a header or the TLS settings cannot be used.
        """
        url = _url(server)
        self.key_digest = ""
        """Hex SHA-256 of the TLS key of the last new connection; empty before, and without TLS."""
        self._authorizer = authorizer or Anonymous()
        self._follow = server.redirects == "same-origin"
        self._url = self._posts = url.with_user(None).with_fragment(None)
        self._headers = _headers(server, url)
        self._given = self.lent = Lent.of(server)
        """What the server was given, the token that was last sent along included."""
        self._last: Mapping[str, str] = {}
        if url.scheme == "http" and server.tls.spki_sha256:
            raise _unusable("tls.spki_sha256 needs an https url")
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0,
                keepalive_timeout=KEEP_ALIVE,
                ssl=tls.context(server.tls, self._saw_key) if url.scheme == "https" else True,
                socket_factory=factory(Dialing(trusted=True, loopback_only=server.tls.insecure), on_blocked),
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            auto_decompress=False,
            requote_redirect_url=False,
            timeout=aiohttp.ClientTimeout(total=None, connect=CONNECT_TIMEOUT),
            trace_configs=[_departures()],
        )
        # By itself the library sends PUT, DELETE and others again where a connection broke, and there is no option.
        self._session._retry_connection = False

    def _saw_key(self, digest: str) -> None:
        self.key_digest = digest

    async def send(
        self,
        method: str,
        headers: Mapping[str, str],
        body: bytes | None,
        departure: Departure,
        target: str = "",
    ) -> aiohttp.ClientResponse:
        """Send one request and return the answer once its head is there; the caller closes it.

        ``target`` is a path, with a query where it has one, to ask for at the server's origin instead of its url; it
        is sent as it is. A server that refuses the credential has run nothing: with a better one the request is sent
        again.

        Raises:
            DownstreamError: no answer, a redirect that is not followed, or no credential to be had.
        """
        for refusals in range(MAX_REFUSALS + 1):
            lent = await self._authorizer.headers()
            sent = self._headers.copy()
            sent.update(headers)
            sent.update(lent)
            _check(sent)
            if lent != self._last:
                self._last = lent
                self.lent = self._given.also(*lent.values(), *(text.rpartition(" ")[2] for text in lent.values()))
            response = await self._sent(method, sent, body, departure, target)
            if response.status not in _REFUSED or refusals == MAX_REFUSALS:
                return response
            challenges = tuple(response.headers.getall("WWW-Authenticate", ()))
            try:
                again = await self._authorizer.refused(Refusal(response.status, lent, challenges))
            except BaseException:
                # Cancelled, too: nobody reads this answer any more.
                response.close()
                raise
            if not again:
                return response
            response.close()
        raise AssertionError("the last refusal is returned")

    async def _sent(
        self,
        method: str,
        headers: Mapping[str, str],
        body: bytes | None,
        departure: Departure,
        target: str,
    ) -> aiohttp.ClientResponse:
        """Send, and follow a redirect where that is allowed."""
        url = self._posts if method == "POST" else self._url
        if target:
            # What was encoded is not to be encoded, or tidied up, a second time.
            url = URL(f"{self._url.origin()}{target}", encoded=True)
        for last in (False, True):
            try:
                response = await self._session.request(
                    method, url, data=body, headers=headers, allow_redirects=False, trace_request_ctx=departure
                )
            except aiohttp.ClientError as error:
                raise failure(error, departure.sent) from None
            if response.status not in _REDIRECTS:
                return response
            response.close()
            url = self._redirected(url, response, last)
        raise AssertionError("the second redirect raises")

    def post_to(self, reference: str) -> None:
        """Send every POST from now on to another place of the same origin, which a server has named.

        Raises:
            DownstreamError: the place cannot be read, or is at another origin.
        """
        try:
            target = self._url.join(URL(reference)).with_fragment(None)
            same = bool(reference) and target.origin() == self._url.origin() and target.user is None
        except ValueError:
            same = False
        if not same:
            raise _refused("names a place for messages that is not at its own origin")
        self._posts = target

    def _redirected(self, url: URL, response: aiohttp.ClientResponse, last: bool) -> URL:
        """Return where a redirect leads, if it may be followed (contract, section 2: ``redirects``)."""
        status = response.status
        try:
            target = url.join(URL(response.headers.get("Location", ""))).with_fragment(None)
            same = target.origin() == url.with_user(None).origin() and target.user is None
        except ValueError:
            raise _refused(f"redirects ({status}) to nowhere that can be read", status) from None
        if not same:
            raise _refused(f"redirects ({status}) to another origin, which is not followed", status)
        if status not in _SAME_METHOD or not self._follow:
            hint = "probably a missing or extra trailing slash"
            raise _refused(f"redirects ({status}), which is not followed; {hint}", status)
        if last:
            raise _refused(f"redirects ({status}) more than once")
        return target

    async def aclose(self) -> None:
        """Close all connections; what is in flight fails."""
        await self._session.close()


def _url(server: Server) -> URL:
    text = server.url.get_secret_value() if server.url is not None else ""
    try:
        url = URL(text)
    except ValueError:
        url = URL()
    if url.scheme not in ("http", "https") or not url.host:
        raise _unusable("its url is no http or https address")
    return url


def _headers(server: Server, url: URL) -> CIMultiDict[str]:
    headers = CIMultiDict({"User-Agent": f"aiohttp-mcp-gateway/{__version__}", "Accept-Encoding": "identity"})
    if url.user is not None or url.password is not None:
        pair = f"{url.user or ''}:{url.password or ''}".encode()
        headers["Authorization"] = "Basic " + base64.b64encode(pair).decode("ascii")
    headers.update({name: value.get_secret_value() for name, value in server.headers.items()})
    _check(headers)
    return headers


def _check(headers: Mapping[str, str]) -> None:
    if any(_FORBIDDEN.search(name) or _FORBIDDEN.search(value) for name, value in headers.items()):
        raise _unusable("a header holds a character that cannot be sent")


def _departures() -> aiohttp.TraceConfig:
    """Watch for the moment between having a connection and writing to it."""

    async def ready(session: aiohttp.ClientSession, context: SimpleNamespace, params: object) -> None:
        context.trace_request_ctx.leave()

    config = aiohttp.TraceConfig()
    config.on_connection_create_end.append(ready)
    config.on_connection_reuseconn.append(ready)
    return config


def failure(error: aiohttp.ClientError, sent: bool) -> DownstreamError:
    """Say what an error of the client library means, without anything of the request in the text."""
    match error:
        case aiohttp.ClientConnectorCertificateError(certificate_error=tls.NotPinned() as other):
            return WrongKey(f"the server cannot be reached: {other.strerror}", other.digest)
        case aiohttp.ClientConnectorCertificateError() | aiohttp.ClientSSLError():
            return _unusable(f"TLS failed: {_tls_reason(error)}")
        case aiohttp.ConnectionTimeoutError():
            return _unusable(f"no connection within {CONNECT_TIMEOUT:g} s")
        case aiohttp.ClientConnectorDNSError():
            return _unusable("its name cannot be resolved")
        case aiohttp.ClientConnectorError(os_error=Refused() as refusal):
            return _unusable(refusal.strerror or "refused")
        case aiohttp.ClientConnectorError():
            return _unusable("no connection: refused or unreachable")
        case aiohttp.ClientResponseError():
            return DownstreamError(Reason.PROTOCOL_ERROR, "the server's answer is no valid HTTP", may_have_run=sent)
        case aiohttp.InvalidURL() | aiohttp.NonHttpUrlClientError():
            return _unusable("its url is no http or https address")
        case _:
            return DownstreamError(Reason.UNAVAILABLE, "the server disconnected before answering", may_have_run=sent)


def _tls_reason(error: aiohttp.ClientError) -> str:
    inner = getattr(error, "certificate_error", None) or getattr(error, "os_error", None)
    if isinstance(inner, ssl.SSLCertVerificationError):
        return inner.verify_message
    return (getattr(inner, "reason", None) or "handshake failed").replace("_", " ").lower()


def _refused(what: str, status: int = 0) -> DownstreamError:
    # RFC 9110 §15.4.4: what is answered with 303 has been dealt with, and its outcome is elsewhere.
    return DownstreamError(Reason.PROTOCOL_ERROR, f"the server {what}", may_have_run=status == _SEE_OTHER)


def _unusable(what: str) -> DownstreamError:
    return DownstreamError(Reason.UNAVAILABLE, f"the server cannot be reached: {what}")
