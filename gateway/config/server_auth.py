"""``servers.*.auth``: how the gateway gets a token for a protected server, as its OAuth client."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, SecretStr, model_validator

from gateway.config.types import Model, is_loopback, split_http_url

MAX_SCOPES: Final = 100


def parse_oauth_url(value: str) -> str:
    """Read an address of an authorization server: https, or http to this machine; kept as it is written."""
    if not value:
        return value
    parts = split_http_url(value)
    if "@" in parts.netloc:
        raise ValueError("must not hold a user name or password")
    if parts.scheme != "https" and not is_loopback(parts.hostname or ""):
        raise ValueError("must be an https URL; http is for loopback addresses only")
    return value


def parse_metadata_url(value: str) -> str:
    """Read the address of a client metadata document: https, with a path."""
    if value:
        parts = split_http_url(parse_oauth_url(value))
        if parts.scheme != "https" or parts.path in ("", "/"):
            raise ValueError("must be an https URL with a path, such as https://mcp.example.com/oauth/client.json")
    return value


OAuthUrl = Annotated[str, AfterValidator(parse_oauth_url)]
MetadataUrl = Annotated[str, AfterValidator(parse_metadata_url)]
Scope = Annotated[str, Field(pattern=r"^[\x21\x23-\x5b\x5d-\x7e]{1,256}$")]


class OAuthClient(Model):
    """What every way has in common: who the gateway is to an authorization server."""

    issuer: OAuthUrl = ""
    """The authorization server; then no other is used, whatever the server says. Compared as plain text."""
    client_id: str = ""
    """The gateway's id at the authorization server."""
    client_secret: SecretStr = SecretStr("")
    """Its secret there."""
    auth_method: Literal["auto", "basic", "post", "none"] = "auto"
    """How the id and secret are sent to the token endpoint; `auto` takes what the authorization server supports."""
    scopes: list[Scope] = Field(default=[], max_length=MAX_SCOPES)
    """Asked for besides those the server asks for. Default: what the server's challenge or metadata names."""


class KeyedClient(OAuthClient):
    """A client that can prove itself with a key instead of a secret."""

    token_url: OAuthUrl = ""
    """The token endpoint, where the authorization server publishes no metadata."""
    private_key: SecretStr = SecretStr("")
    """PEM text of the key of `private_key_jwt` (RFC 7523), such as `${file:/run/secrets/client.pem}`."""
    key_id: str = ""
    """`kid` in the assertions."""
    algorithm: Literal["ES256", "ES384", "RS256", "PS256", "EdDSA"] = "ES256"
    """Signs the assertions."""
    audience: str = ""
    """`audience` of token requests, for authorization servers that need one besides `resource`."""

    @model_validator(mode="after")
    def _can_prove_itself(self) -> KeyedClient:
        secret, key = self.client_secret.get_secret_value(), self.private_key.get_secret_value()
        if not self.client_id:
            raise ValueError("needs client_id")
        if bool(secret) == bool(key):
            raise ValueError("needs either client_secret or private_key")
        if self.issuer and self.token_url:
            raise ValueError("issuer already leads to the token endpoint: remove token_url")
        return self


class ClientCredentials(KeyedClient):
    """The gateway acts as itself, whoever calls (client credentials grant)."""


class AuthorizationCode(OAuthClient):
    """Somebody consents in a browser (authorization code grant with PKCE)."""

    per: Literal["server", "principal"] = "server"
    """Whose account it is: one for the whole gateway, to which an operator consents, or each principal's own."""
    client_metadata_url: MetadataUrl = ""
    """Address of the gateway's client metadata document, which then is its `client_id` where that is supported."""
    redirect_uri: OAuthUrl = ""
    """Where browsers come back to. Default: `/oauth/callback` at the origin of `listen.public_url`, or of the bind."""

    @model_validator(mode="after")
    def _is_consistent(self) -> AuthorizationCode:
        if self.client_secret.get_secret_value() and not self.client_id:
            raise ValueError("client_secret needs client_id")
        if self.redirect_uri and not self.redirect_uri.endswith("/oauth/callback"):
            raise ValueError("redirect_uri must end in /oauth/callback, which is where the gateway listens")
        return self


class TokenExchange(KeyedClient):
    """The caller's own token is exchanged for one for this server (RFC 8693)."""

    subject_token_type: Literal[
        "urn:ietf:params:oauth:token-type:access_token", "urn:ietf:params:oauth:token-type:jwt"
    ] = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105 - a type's name.
    """What the caller's token is called in the request."""

    @model_validator(mode="after")
    def _knows_where(self) -> TokenExchange:
        if not self.issuer and not self.token_url:
            raise ValueError("needs issuer or token_url: a caller's token is sent to no address a server names")
        return self


class ServerAuth(Model):
    """One way to get a token for a server; at most one of the three."""

    client_credentials: ClientCredentials | None = None
    """The gateway's own account."""
    authorization_code: AuthorizationCode | None = None
    """An account somebody consents to in a browser."""
    token_exchange: TokenExchange | None = None
    """The caller's own account, by exchange of its token."""
    ca: str = ""
    """PEM file of the authorities to trust for authorization servers instead of the system's."""

    @model_validator(mode="after")
    def _one_way(self) -> ServerAuth:
        if len(self.ways) > 1:
            raise ValueError(f"needs one way to get a token; found {' and '.join(self.ways)}")
        return self

    @property
    def ways(self) -> list[str]:
        """The ways that are configured."""
        known = ("client_credentials", "authorization_code", "token_exchange")
        return [name for name in known if getattr(self, name) is not None]

    @property
    def way(self) -> ClientCredentials | AuthorizationCode | TokenExchange | None:
        """The one way, None where no token is to be had."""
        return self.client_credentials or self.authorization_code or self.token_exchange

    @property
    def is_per_principal(self) -> bool:
        """Tell whether every caller has a token of its own."""
        code = self.authorization_code
        return self.token_exchange is not None or (code is not None and code.per == "principal")
