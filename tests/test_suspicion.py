"""What an operator should look at is said once for each definition as it is."""

from __future__ import annotations

from gateway.model.catalog import Kind, Suspicion
from gateway.protocol.rawjson import Object
from gateway.suspicion import MAX_REMEMBERED, Suspicions
from gateway.telemetry.metrics import Metrics


def suspicion(digest: str = "d1", rule: str = "override", server: str = "a") -> Suspicion:
    return Suspicion(server, Kind.TOOL, "t", rule, digest)


def test_each_rule_of_each_definition_is_said_once_until_it_changes() -> None:
    records: list[Object] = []
    metrics = Metrics()
    metrics.known_servers(["a"])
    suspicions = Suspicions(records.append, metrics)

    suspicions.tell([suspicion(), suspicion(rule="secrecy")])
    suspicions.tell([suspicion(), suspicion(rule="secrecy")])
    suspicions.tell([suspicion("d2")])

    assert [record["event"] for record in records] == ["definition.suspicious"] * 3
    assert records[0]["definition"] == {"name": "tool:t", "rule": "override", "sha256": "d1"}
    assert 'rule="override",server="a"} 2.0' in metrics.render("")[0].decode()


def test_only_so_much_is_remembered() -> None:
    records: list[Object] = []
    suspicions = Suspicions(records.append, Metrics())
    suspicions.tell(suspicion(f"d{number}") for number in range(MAX_REMEMBERED + 1))
    before = len(records)
    suspicions.tell([suspicion(f"d{MAX_REMEMBERED}")])
    assert len(records) == before
    suspicions.tell([suspicion("d0")])
    assert len(records) == before + 1
