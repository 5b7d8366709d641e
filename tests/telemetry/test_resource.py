"""Who tells of itself over OTLP."""

from __future__ import annotations

import pytest

import gateway
from gateway.telemetry.resource import MAX_ATTRIBUTES, MAX_TEXT, resource

OWN = {"service.name": "mcp-gateway", "service.version": gateway.__version__}


def test_without_variables_it_is_the_gateway() -> None:
    assert resource({}) == OWN


@pytest.mark.parametrize(
    ("variables", "added"),
    [
        ({"OTEL_SERVICE_NAME": "tools"}, {"service.name": "tools"}),
        (
            {"OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=prod, k8s.pod.name = gw-0 ,service.name=other"},
            {"deployment.environment.name": "prod", "k8s.pod.name": "gw-0", "service.name": "other"},
        ),
        (
            {"OTEL_SERVICE_NAME": "tools", "OTEL_RESOURCE_ATTRIBUTES": "service.name=other"},
            {"service.name": "tools"},
        ),
        ({"OTEL_RESOURCE_ATTRIBUTES": "a=x%20y%2Cz,nonsense,=x,b="}, {"a": "x y,z", "b": ""}),
        ({"OTEL_SERVICE_NAME": "  "}, {}),
        ({"HOSTNAME": "gw-0"}, {"service.instance.id": "gw-0"}),
        ({"HOSTNAME": "gw-0", "OTEL_RESOURCE_ATTRIBUTES": "service.instance.id=a"}, {"service.instance.id": "a"}),
    ],
)
def test_variables_of_the_specification_count(variables: dict[str, str], added: dict[str, str]) -> None:
    assert resource(variables) == OWN | added


def test_it_is_bounded_and_printable() -> None:
    many = ",".join(f"k{number}={'v' * 1000}" for number in range(100))
    found = resource({"OTEL_RESOURCE_ATTRIBUTES": many, "OTEL_SERVICE_NAME": "a\nb"})
    assert len(found) == MAX_ATTRIBUTES + 2
    assert len(found["k0"]) == MAX_TEXT
    assert found["service.name"] == "a\\nb"
