"""From a server's challenge to its authorization server: fetches the documents and follows the order of the spec.

Asked again at every 401, so that a server that moves to another authorization server is followed there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gateway.config.server_auth import AuthorizationCode, ClientCredentials, TokenExchange
from gateway.config.servers import Server
from gateway.downstream.oauth import metadata
from gateway.downstream.oauth.challenge import Challenge
from gateway.downstream.oauth.errors import NoToken
from gateway.downstream.oauth.fetch import Fetcher
from gateway.downstream.oauth.metadata import AuthorizationServer, ResourceMetadata, Unsound

NO_CHALLENGE: Final = Challenge()


@dataclass(frozen=True, slots=True)
class Discovered:
    """Whom to ask for a token for what. ``scopes`` are those that the server supports, None where it names none."""

    resource: str
    server: AuthorizationServer
    scopes: tuple[str, ...] | None = None


class Discovery:
    """The way of one server to its authorization server."""

    def __init__(self, name: str, server: Server, fetcher: Fetcher) -> None:
        way = server.auth.way
        assert way is not None
        assert server.url is not None
        self._name = name
        self._way: ClientCredentials | AuthorizationCode | TokenExchange = way
        self._resource = metadata.canonical(server.url.get_secret_value())
        self._fetcher = fetcher

    @property
    def is_configured(self) -> bool:
        """Tell whether an operator said where tokens come from, so that no challenge is needed to find out."""
        return bool(self._way.issuer or self._token_url)

    @property
    def _token_url(self) -> str:
        return "" if isinstance(self._way, AuthorizationCode) else self._way.token_url

    async def discover(self, challenge: Challenge = NO_CHALLENGE) -> Discovered:
        """Find out.

        Raises:
            NoToken: it cannot be found out, or what was found must not be used.
        """
        if self._token_url:
            return Discovered(self._resource, AuthorizationServer(self._token_url, self._token_url))
        try:
            resource = await self._of_resource(challenge)
            if self._way.issuer:
                return await self._configured(resource)
            if resource is None:
                # Before 2025-06-18 the server's own origin was its authorization server.
                own = metadata.origin(self._resource)
                return Discovered(self._resource, await self.server(own))
            return Discovered(resource.resource, await self.server(resource.issuers[0]), resource.scopes)
        except Unsound as unsound:
            raise NoToken(f'server "{self._name}": {unsound}') from None

    async def _configured(self, resource: ResourceMetadata | None) -> Discovered:
        """Use the configured issuer; a server that names others has moved, which only an operator can follow."""
        issuer = self._way.issuer
        if resource is None:
            return Discovered(self._resource, await self.server(issuer))
        if issuer not in resource.issuers:
            raise Unsound("it names another authorization server than the configured issuer")
        return Discovered(resource.resource, await self.server(issuer), resource.scopes)

    async def _of_resource(self, challenge: Challenge) -> ResourceMetadata | None:
        """Fetch the server's own metadata: where its challenge says, else at its path, else at the root."""
        if challenge.resource_metadata:
            found = await self._fetcher.get(challenge.resource_metadata)
            if found.status != 200:
                raise Unsound("its authorization metadata is not where it says")
            return metadata.read_resource(found.document, self._resource)
        for place in metadata.resource_places(self._resource):
            found = await self._fetcher.get(place)
            if found.status == 200 and found.document:
                return metadata.read_resource(found.document, self._resource)
        return None

    async def server(self, issuer: str) -> AuthorizationServer:
        """Fetch an authorization server's metadata, from the first of its places that has any.

        Raises:
            NoToken: there is none.
            Unsound: it must not be used.
        """
        for place in metadata.server_places(issuer):
            found = await self._fetcher.get(place)
            if found.status == 200 and found.document:
                return metadata.read_server(found.document, issuer)
        raise Unsound("its authorization server has no metadata")
