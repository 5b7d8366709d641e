"""Authentication keeps what it knows across reloads, and what happens to it is counted and audited."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from pathlib import Path

import pytest

from gateway.admission import Admission, labels
from gateway.config.reading import Reading
from gateway.config.root import Config, Listen, ListenTls, LoadedConfig
from gateway.errors import ConfigError
from gateway.protocol.rawjson import Object, Value
from gateway.tasks import TaskSet
from gateway.telemetry.metrics import Metrics
from tests.kit.certificates import make
from tests.kit.gateway import free_port
from tests.kit.tokens import config, loaded, settings


def admission(metrics: Metrics, written: list[Object] | None = None) -> tuple[Admission, TaskSet]:
    def crashed(name: str, error: BaseException) -> None:
        raise AssertionError(name) from error

    tasks = TaskSet(crashed)
    return Admission(tasks, metrics, (written if written is not None else []).append), tasks


async def test_an_issuer_that_is_down_at_the_start_is_counted_and_audited_and_nothing_waits_for_it() -> None:
    metrics, written = Metrics(), list[Object]()
    made, tasks = admission(metrics, written)
    issuer = f"http://127.0.0.1:{free_port()}"
    made.authenticator(loaded(config(settings(issuer=issuer))))
    made.warm()
    while len(tasks):
        await asyncio.sleep(0.01)
    text = metrics.render("")[0].decode()
    assert 'mcp_gateway_jwks_fetches_total{issuer="127.0.0.1",result="failed"} 1.0' in text
    assert [(entry["event"], entry["auth"]) for entry in written] == [
        ("auth.degraded", {"issuer": "127.0.0.1", "reason": "no connection"})
    ]
    await tasks.aclose()


async def test_a_blocked_dial_is_counted_for_what_it_was() -> None:
    metrics = Metrics()
    made, tasks = admission(metrics)
    made.authenticator(loaded(config(settings(issuer="https://169.254.169.254"))))
    made.warm()
    while len(tasks):
        await asyncio.sleep(0.01)
    assert 'mcp_gateway_ssrf_blocked_total{purpose="jwks"}' in metrics.render("")[0].decode()
    await tasks.aclose()


def test_without_tokens_there_is_nothing_to_warm() -> None:
    made, tasks = admission(Metrics())
    made.authenticator(loaded(Config()))
    made.warm()
    assert len(tasks) == 0


def test_unreadable_authorities_are_the_configs_fault(tmp_path: Path) -> None:
    made, _ = admission(Metrics())
    with pytest.raises(ConfigError):
        made.authenticator(loaded(config(settings(ca=str(tmp_path / "none.pem")))))


def test_a_certificate_refused_in_the_handshake_is_counted_and_audited() -> None:
    told: list[tuple[str, str, Mapping[str, Value]]] = []
    metrics = Metrics()
    made, _ = admission(metrics)
    made.certificate_refused(lambda event, source, facts: told.append((event, source, facts)))("certificate_expired")
    assert told == [("auth.failed", "", {"kind": "cert", "reason": "certificate_expired"})]
    assert 'mcp_gateway_auth_failures_total{kind="cert",reason="certificate"} 1.0' in metrics.render("")[0].decode()


def test_labels_name_clients_and_never_subjects() -> None:
    tls = Listen(tls=ListenTls(cert="c", key="k", client_ca="ca"))
    assert list(labels(config())) == ["jwt:idp.example.com"]
    assert list(labels(Config(listen=tls))) == ["cert"]
    assert list(labels(Config())) == []


def test_authorities_are_read_again_when_their_file_is_another_and_the_issuers_keys_stay(tmp_path: Path) -> None:
    ca = tmp_path / "ca.pem"

    def as_it_is() -> LoadedConfig:
        reading = Reading()
        reading.refer(("auth", "jwt", "ca"), ca)
        whole = loaded(config(settings(issuer="https://id.example", ca=str(ca))))
        return whole.model_copy(update={"sources": reading.sources()})

    made, _ = admission(Metrics())
    contexts = list[ssl.SSLContext]()
    for authority in ("one", "one", "two"):
        if authority == "two" or not contexts:
            make(authority).write(ca)
        made.authenticator(as_it_is())
        assert made._line is not None
        contexts.append(made._line.tls)
    assert contexts[0] is contexts[1]
    names = [context.get_ca_certs()[0]["subject"] for context in contexts]
    assert "one" in str(names[1])
    assert "two" in str(names[2])
    issuer = made._tokens.issuer if made._tokens is not None else None
    made.authenticator(as_it_is())
    assert made._tokens is not None
    assert made._tokens.issuer is issuer
    ca.write_text("nothing")
    with pytest.raises(ConfigError):
        made.authenticator(as_it_is())
