"""Values that cannot work are refused before anything is deployed, by name and with what to set instead."""

from __future__ import annotations

from typing import Any, TypeAlias

import pytest

from tests.kit.chart import template, values_of

Json: TypeAlias = dict[str, Any]

STATE: Json = {"valkey": {"secret": "a"}, "postgres": {"secret": "b"}, "sealing": {"secret": "c"}}


def refused(name: str, more: Json) -> str:
    done = template("helm", values_of(name), more)
    assert done.returncode != 0, done.stdout
    return done.stderr


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"config": {"clients": None}}, "callers must prove who they are"),
        ({"config": {"admin": {"users": None}}}, "set config.admin.users"),
        ({"config": {"listen": {"public_url": ""}}}, "Set config.listen.public_url"),
        ({"config": {"listen": {"behind_tls_proxy": False}}}, "Keys would travel readable"),
        ({"tls": {"clientCa": True}}, "tls.clientCa needs tls.secret"),
        ({"metrics": {"serviceMonitor": {"enabled": True}}}, "metrics.serviceMonitor needs metrics.token.secret"),
        ({"httpRoute": {"enabled": True}}, "httpRoute.parentRefs"),
        (
            {"tls": {"secret": "a"}, "httpRoute": {"enabled": True, "parentRefs": [{"name": "public"}]}},
            "plain HTTP to what an httpRoute leads to",
        ),
        ({"tls": {"secret": "a"}, "ingress": {"enabled": True}}, "set ingress.controller"),
        ({"terminationGracePeriodSeconds": 34}, "Set 35 or more"),
        ({"sharedState": {"valkey": {"secret": "a"}}}, "set sharedState.sealing.secret"),
        ({"config": {"state": {"database": "postgres://db/mcp"}}}, "set sharedState.sealing.secret"),
        (
            {"existingConfigMap": {"name": "own"}, "policyFiles": {"a.yaml": "policies: []"}},
            "replaces the whole config",
        ),
    ],
)
def test_values_that_cannot_work_together(more: Json, says: str) -> None:
    assert says in refused("minimal", more)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"kind": "Deployment", "updateStrategy": {"type": "RollingUpdate"}}, "two pods write one audit log"),
        ({"service": {"nodePort": 30000}}, "service.nodePort is for"),
        ({"service": {"externalTrafficPolicy": "Local"}}, "service.externalTrafficPolicy is for"),
        ({"service": {"type": "NodePort", "loadBalancerClass": "x"}}, "service.loadBalancerClass is for"),
        ({"service": {"loadBalancerSourceRanges": ["203.0.113.0/24"]}}, "service.loadBalancerSourceRanges is for"),
    ],
)
def test_what_a_cluster_or_the_audit_log_would_not_bear(more: Json, says: str) -> None:
    assert says in refused("minimal", more)


@pytest.mark.parametrize(
    ("budget", "says"),
    [
        ({"minAvailable": 2}, "minAvailable: 2 keeps all of 2 pods"),
        ({"minAvailable": "100%"}, "keeps all of 2 pods"),
        ({"minAvailable": "51%"}, "keeps all of 2 pods"),
        ({"maxUnavailable": 0}, "lets no pod go"),
        ({"maxUnavailable": "0%"}, "lets no pod go"),
        ({"maxUnavailable": None}, "lets no pod go"),
    ],
)
def test_a_budget_that_would_hold_up_every_drain_of_a_node(budget: Json, says: str) -> None:
    more = {"replicas": 2, "sharedState": STATE, "podDisruptionBudget": budget}

    assert says in refused("minimal", more)
    assert template("helm", values_of("minimal"), {"podDisruptionBudget": budget}).returncode == 0


@pytest.mark.parametrize("budget", [{"minAvailable": 1}, {"minAvailable": "50%"}, {"maxUnavailable": "1%"}])
def test_a_budget_that_lets_one_pod_go_is_taken(budget: Json) -> None:
    more = {"replicas": 2, "sharedState": STATE, "podDisruptionBudget": budget}

    assert template("helm", values_of("minimal"), more).returncode == 0


def test_a_way_to_pods_that_speak_tls_is_taken_where_it_is_told_to_speak_it_too() -> None:
    tls = {"tls": {"secret": "a"}}
    route = {"enabled": True, "parentRefs": [{"name": "public"}], "tlsToPods": True}

    assert template("helm", values_of("minimal"), {**tls, "httpRoute": route}).returncode == 0
    for way in ({"controller": "nginx"}, {"controller": "haproxy"}, {"tlsToPods": True}):
        assert template("helm", values_of("minimal"), {**tls, "ingress": {"enabled": True, **way}}).returncode == 0


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"replicas": 3}, "replicas: 3: several pods need state that they share. Set sharedState.valkey.secret"),
        ({"replicas": 2, "sharedState": {**STATE, "valkey": {"secret": ""}}}, "sharedState.valkey.secret (limits"),
        ({"replicas": 2, "sharedState": {**STATE, "postgres": {"secret": ""}}}, "sharedState.postgres.secret (pins"),
        ({"autoscaling": {"enabled": True}}, "autoscaling to 6 pods: several pods need state that they share"),
        ({"autoscaling": {"enabled": True, "minReplicas": 4, "maxReplicas": 3}, "sharedState": STATE}, "maxReplicas"),
        ({"autoscaling": {"enabled": True, "targetCPU": None}, "sharedState": STATE}, "something to go by"),
        ({"kind": "Deployment", "replicas": 2, "sharedState": STATE}, "share one volume. Set kind: StatefulSet"),
        (
            {"kind": "Deployment", "replicas": 2, "sharedState": STATE, "persistence": {"enabled": False}},
            "Set config.audit.sinks, or kind: StatefulSet",
        ),
        ({"replicas": 2, "sharedState": STATE, "persistence": {"enabled": False}}, "Set config.audit.sinks"),
        ({"replicas": 2, "sharedState": STATE, "persistence": {"existingClaim": "x"}}, "cannot share"),
        ({"replicas": 2, "existingConfigMap": {"name": "own"}}, "existingConfigMap.sharesState"),
    ],
)
def test_several_pods_that_would_not_agree(more: Json, says: str) -> None:
    assert says in refused("minimal", more)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"replica": 3}, "replica"),
        ({"replicas": 0}, "replicas"),
        ({"drainSeconds": 0}, "drainSeconds"),
        ({"kind": "DaemonSet"}, "kind"),
        ({"image": {"digest": "latest"}}, "digest"),
        ({"image": {"variant": "java"}}, "variant"),
        ({"image": {"repositry": "x"}}, "repositry"),
        ({"config": {"listen": {"host": "127.0.0.1"}}}, "host"),
        ({"config": {"listen": {"drain": "5s"}}}, "drain"),
        ({"config": {"listen": {"linger": "5s"}}}, "linger"),
        ({"config": {"listen": {"public_url": "http://mcp.example.com/mcp"}}}, "public_url"),
        ({"config": {"admin": {"metrics_token": "secret-in-a-configmap"}}}, "metrics_token"),
        ({"config": {"state": {"dir": "/elsewhere"}}}, "dir"),
        ({"config": {"audit": {"dir": "/elsewhere"}}}, "dir"),
        ({"persistence": {"size": "8 gigabytes"}}, "size"),
        ({"service": {"port": 0}}, "port"),
        ({"service": {"type": "ExternalName"}}, "type"),
        ({"ingress": {"controller": "apache"}}, "controller"),
        ({"ingress": {"annotations": {"a": 1}}}, "annotations"),
        ({"metrics": {"serviceMonitor": {"interval": "often"}}}, "interval"),
        ({"policyFiles": {"../evil.yaml": "x"}}, "../evil.yaml"),
        ({"secretFiles": ["Not_A_Name"]}, "secretFiles"),
        ({"rollPods": "sometimes"}, "rollPods"),
        ({"config": {"serverz": {}}}, "serverz"),
        ({"config": {"listen": {"trusted_proxy": []}}}, "trusted_proxy"),
        ({"config": {"listen": None}}, "listen"),
        ({"nameOverride": "Not-A-Name"}, "nameOverride"),
        ({"fullnameOverride": "0-starts-with-a-digit"}, "fullnameOverride"),
        # Kubernetes takes these two in the other probes only.
        ({"probes": {"liveness": {"successThreshold": 2}}}, "successThreshold"),
        ({"probes": {"readiness": {"terminationGracePeriodSeconds": 5}}}, "terminationGracePeriodSeconds"),
        ({"metrics": {"rules": {"runbookUrl": "docs/monitoring.md"}}}, "runbookUrl"),
        ({"sharedState": {"sealing": {"keys": []}}}, "keys"),
    ],
)
def test_the_schema_names_what_is_wrong(more: Json, says: str) -> None:
    told = refused("minimal", more)

    assert "don't meet the specifications of the schema" in told
    assert says in told
