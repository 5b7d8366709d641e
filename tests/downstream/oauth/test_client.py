from __future__ import annotations

import base64

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from gateway.config.server_auth import AuthorizationCode, ClientCredentials
from gateway.downstream.oauth.client import Client, Key, configured, supported_method
from gateway.downstream.oauth.errors import NoToken
from gateway.downstream.oauth.metadata import AuthorizationServer

IDP = AuthorizationServer("https://idp.example", "https://idp.example/token")


def idp(*methods: str) -> AuthorizationServer:
    return AuthorizationServer(IDP.issuer, IDP.token_endpoint, auth_methods=methods)


def test_a_secret_is_sent_as_the_authorization_server_wants_it() -> None:
    assert supported_method(IDP) == "client_secret_basic"
    assert supported_method(idp("client_secret_post", "client_secret_basic")) == "client_secret_basic"
    assert supported_method(idp("client_secret_post")) == "client_secret_post"


def test_each_method_puts_the_client_where_it_belongs() -> None:
    assert Client("me").prove(IDP) == ({"client_id": "me"}, {})
    assert Client("me", "client_secret_post", "pw").prove(IDP) == ({"client_id": "me", "client_secret": "pw"}, {})
    form, head = Client("a:b", "client_secret_basic", "p w+").prove(IDP)
    assert form == {}
    assert base64.b64decode(head["Authorization"].removeprefix("Basic ")) == b"a%3Ab:p+w%2B"


def test_a_key_proves_who_we_are_to_one_issuer_for_a_minute() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    form, head = Client("me", "private_key_jwt", key=Key(pem, "ES256", "k1")).prove(IDP)
    assertion = form["client_assertion"]
    claims = jwt.decode(assertion, key.public_key(), ["ES256"], audience=IDP.issuer)
    assert (claims["iss"], claims["sub"], claims["exp"] - claims["iat"]) == ("me", "me", 60)
    assert jwt.get_unverified_header(assertion)["kid"] == "k1"
    again = Client("me", "private_key_jwt", key=Key(pem, "ES256")).prove(IDP)[0]["client_assertion"]
    assert jwt.decode(again, key.public_key(), ["ES256"], audience=IDP.issuer)["jti"] != claims["jti"]
    assert head == {}


def test_a_key_that_does_not_fit_is_reported_without_being_shown() -> None:
    client = Client("me", "private_key_jwt", key=Key("-----BEGIN canary-----", "ES256"))
    with pytest.raises(NoToken) as caught:
        client.prove(IDP)
    assert "canary" not in caught.value.message
    assert "canary" not in repr(client)


def test_the_configured_client_is_taken_as_it_is_configured() -> None:
    assert configured(AuthorizationCode(), IDP) is None
    assert configured(AuthorizationCode(client_id="me"), IDP) == Client("me")
    with_secret = {"client_id": "me", "client_secret": "pw"}
    assert configured(AuthorizationCode.model_validate(with_secret), IDP) == Client("me", "client_secret_basic", "pw")
    post = AuthorizationCode.model_validate({**with_secret, "auth_method": "post"})
    assert configured(post, IDP) == Client("me", "client_secret_post", "pw")
    keyed = ClientCredentials.model_validate({"client_id": "me", "private_key": "PEM", "key_id": "k"})
    assert configured(keyed, IDP) == Client("me", "private_key_jwt", key=Key("PEM", "ES256", "k"))
