"""What the pods are: locked down, on volumes of their own, ended in step with the drain, given secrets by reference."""

from __future__ import annotations

from typing import Any, TypeAlias

import pytest
import yaml

from tests.image import recipe
from tests.kit.chart import VALUE_SETS, config_of, gateway_of, manifests, pod_of, programs, values_of

Json: TypeAlias = dict[str, Any]

NAME = "gw-aiohttp-mcp-gateway"


@pytest.mark.parametrize("values", VALUE_SETS, ids=lambda path: path.stem)
def test_pods_meet_the_restricted_pod_security_standard(values: Any) -> None:
    """S191."""
    found = manifests("helm", values)
    pods = [pod_of(found), *(each["spec"] for each in found.values() if each["kind"] == "Pod")]

    for pod in pods:
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] == 10001
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] is False
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
        assert not [volume for volume in pod.get("volumes", []) if "hostPath" in volume]
        container = pod["containers"][0]
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_security_contexts_are_added_to_and_a_platform_that_chooses_ids_is_let_choose() -> None:
    pod = pod_of(manifests("helm", values_of("everything")))
    chosen = {"runAsUser": None, "runAsGroup": None, "fsGroup": None}
    openshift = pod_of(manifests("helm", values_of("minimal"), {"podSecurityContext": chosen}))["securityContext"]

    assert pod["securityContext"]["supplementalGroups"] == [2000]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["containers"][0]["securityContext"]["seLinuxOptions"] == {"level": "s0:c1,c2"}
    assert pod["containers"][0]["securityContext"]["readOnlyRootFilesystem"] is True
    assert not set(chosen) & set(openshift)
    assert openshift["runAsNonRoot"] is True


def test_the_pod_runs_the_image_as_the_image_is_made() -> None:
    image = recipe.settings(recipe.read(programs("image") / "bin" / "python"), "runtime")
    found = manifests("helm", values_of("minimal"))
    pod, container = pod_of(found), gateway_of(found)

    assert image.user == f"{pod['securityContext']['runAsUser']}:{pod['securityContext']['runAsGroup']}"
    assert image.ports == [str(port["containerPort"]) for port in container["ports"]]
    mounted = {mount["mountPath"]: mount.get("readOnly", False) for mount in container["volumeMounts"]}
    assert {place: mounted[place] for place in image.volumes} == dict.fromkeys(image.volumes, False)
    assert mounted[image.workdir] is True
    assert container["args"][:1] == list(image.command)
    assert "command" not in container


def test_what_the_gateway_writes_is_on_the_volume_of_its_pod() -> None:
    found = manifests("helm", values_of("minimal"))
    config = config_of(found)
    workload = found[f"StatefulSet/{NAME}"]["spec"]
    mounts = {mount["mountPath"]: mount["name"] for mount in gateway_of(found)["volumeMounts"]}

    assert {config["state"]["dir"], config["audit"]["dir"]} == {
        "/var/lib/mcp-gateway/state",
        "/var/lib/mcp-gateway/audit",
    }
    assert mounts["/var/lib/mcp-gateway"] == "data"
    (claim,) = workload["volumeClaimTemplates"]
    assert claim["metadata"]["name"] == "data"
    assert "data" not in [volume["name"] for volume in pod_of(found)["volumes"]]
    assert workload["serviceName"] in [
        each["metadata"]["name"] for each in found.values() if each.get("spec", {}).get("clusterIP") == "None"
    ]


def test_a_deployment_on_one_claim_never_has_two_writers() -> None:
    existing = manifests("helm", values_of("single"))
    made = manifests("helm", values_of("single"), {"persistence": {"existingClaim": ""}})
    claims = [
        volume["persistentVolumeClaim"]["claimName"]
        for found in (existing, made)
        for volume in pod_of(found)["volumes"]
        if volume["name"] == "data"
    ]

    assert claims == ["gateway-data", NAME]
    assert existing[f"Deployment/{NAME}"]["spec"]["strategy"] == {"type": "Recreate"}
    assert made[f"PersistentVolumeClaim/{NAME}"]["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}


def test_pods_without_a_volume_are_replaced_without_a_gap() -> None:
    found = manifests("helm", values_of("locked-down"))[f"Deployment/{NAME}"]["spec"]

    assert found["strategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    assert {"name": "data", "emptyDir": {}} in found["template"]["spec"]["volumes"]


@pytest.mark.parametrize(
    ("more", "grace"),
    [
        ({}, 40),
        ({"drainSeconds": 120, "preStopSeconds": 0}, 135),
        ({"drainSeconds": 33, "preStopSeconds": 7, "terminationGracePeriodSeconds": 50}, 50),
    ],
)
def test_the_grace_period_outlasts_the_wait_and_the_drain(more: Json, grace: int) -> None:
    """S186."""
    found = manifests("helm", values_of("minimal"), more)
    pod = pod_of(found)

    assert pod["terminationGracePeriodSeconds"] == grace
    assert config_of(found)["listen"]["drain"] == f"{more.get('drainSeconds', 20)}s"


def test_a_pod_takes_calls_until_nobody_sends_it_any() -> None:
    new = gateway_of(manifests("helm", values_of("minimal"), kubernetes="1.30"))
    old = gateway_of(manifests("helm", values_of("minimal"), kubernetes="1.29"))
    none = gateway_of(manifests("helm", values_of("minimal"), {"preStopSeconds": 0}))

    assert new["lifecycle"] == {"preStop": {"sleep": {"seconds": 5}}}
    assert old["lifecycle"] == {"preStop": {"exec": {"command": ["sleep", "5"]}}}
    assert "lifecycle" not in none


def test_probes_ask_the_admin_listener_and_clients_reach_only_the_endpoint() -> None:
    """G130."""
    found = manifests("helm", values_of("minimal"))
    container, config = gateway_of(found), config_of(found)

    assert {port["name"]: port["containerPort"] for port in container["ports"]} == {
        "mcp": config["listen"]["port"],
        "admin": config["admin"]["port"],
    }
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "admin"}
    for probe in ("startupProbe", "livenessProbe"):
        assert container[probe]["httpGet"] == {"path": "/healthz", "port": "admin"}
    assert [port["targetPort"] for port in found[f"Service/{NAME}"]["spec"]["ports"]] == ["mcp"]


def test_secrets_are_variables_by_reference_and_nothing_of_them_is_in_the_config() -> None:
    found = manifests("helm", values_of("everything"))
    env = {each["name"]: each for each in gateway_of(found)["env"]}
    config = config_of(found)

    def key_of(variable: str) -> tuple[str, str]:
        reference = env[variable]["valueFrom"]["secretKeyRef"]
        return reference["name"], reference["key"]

    assert config["state"]["url"] == "${MCP_GATEWAY_STATE_URL}"
    assert key_of("MCP_GATEWAY_STATE_URL") == ("gateway-valkey", "uri")
    assert config["state"]["database"] == "${MCP_GATEWAY_STATE_DATABASE}"
    assert key_of("MCP_GATEWAY_STATE_DATABASE") == ("gateway-postgres", "uri")
    assert config["admin"]["metrics_token"] == "${MCP_GATEWAY_METRICS_TOKEN}"
    assert key_of("MCP_GATEWAY_METRICS_TOKEN") == ("gateway-metrics", "token")
    assert not [each for each in found.values() if each["kind"] == "Secret"]


def test_sealing_keys_are_newest_first_so_that_they_can_be_rotated() -> None:
    found = manifests("helm", values_of("ha"))
    env = {each["name"]: each["valueFrom"]["secretKeyRef"]["key"] for each in gateway_of(found)["env"]}
    keys = [name.removeprefix("${").removesuffix("}") for name in config_of(found)["state"]["sealing_keys"]]

    assert [env[name] for name in keys] == ["current", "previous"]


def pod_template(more: Json) -> Json:
    found: Json = manifests("helm", values_of("minimal"), more)[f"StatefulSet/{NAME}"]["spec"]["template"]
    return found


def pod_annotations(more: Json) -> Json:
    found: Json = pod_template(more)["metadata"].get("annotations", {})
    return found


def test_only_what_needs_a_restart_rolls_the_pods() -> None:
    reloads = {
        "config": {"servers": {"more": {"url": "https://more.example.com/mcp"}}, "limits": {"in_flight": 7}},
        "policyFiles": {"a.yaml": "policies: []"},
        "files": {"a.json": "{}"},
    }
    restarts: list[Json] = [
        {"config": {"audit": {"retention": "30d"}}},
        {"config": {"listen": {"trusted_proxies": ["10.0.0.0/8"]}}},
        {"drainSeconds": 21},
    ]

    assert pod_annotations({}) != {}
    assert pod_template({}) == pod_template(reloads)
    for change in restarts:
        assert pod_annotations(change) != pod_annotations({})


def test_another_collector_rolls_the_pods_only_where_the_audit_log_goes_there() -> None:
    """As `gateway/config/restart.py` has it: the log's sinks are opened with the log, traces follow at once."""

    def to(url: str, sinks: list[str] | None) -> Json:
        return pod_template({"config": {"telemetry": {"otlp": url}, "audit": {"sinks": sinks}}})

    old, new = "http://127.0.0.1:4318", "http://127.0.0.1:4319"

    assert to(old, ["otlp"]) != to(new, ["otlp"])
    assert to(old, ["stdout"]) == to(new, ["stdout"])
    assert to(old, None) == to(new, None)


def test_another_version_of_the_chart_alone_does_not_roll_the_pods() -> None:
    found = manifests("helm", values_of("minimal"))[f"StatefulSet/{NAME}"]

    assert "helm.sh/chart" in found["metadata"]["labels"]
    assert "helm.sh/chart" not in found["spec"]["template"]["metadata"]["labels"]


def test_what_rolls_the_pods_can_be_chosen() -> None:
    more = {"policyFiles": {"a.yaml": "policies: []"}}

    assert pod_annotations({"rollPods": "always"}) != pod_annotations({"rollPods": "always", **more})
    assert pod_annotations({"rollPods": "never"}) == {} == pod_annotations({"rollPods": "never", "drainSeconds": 9})


def test_the_config_is_mounted_as_a_folder_so_that_a_change_arrives() -> None:
    found = manifests("helm", values_of("everything"))
    (volume,) = [each for each in pod_of(found)["volumes"] if each["name"] == "config"]
    data = found["ConfigMap/mcp"]["data"]

    assert not [mount for mount in gateway_of(found)["volumeMounts"] if "subPath" in mount]
    # Nothing of it is named here: a file that is new would need other pods then.
    assert volume["configMap"] == {"name": "mcp"}
    assert set(data) == {"gateway.yaml", "policies.ci.yaml", "files.petstore.yaml"}
    assert config_of(found)["policies"] == ["policies.*.yaml"]
    assert yaml.safe_load(data["files.petstore.yaml"])["openapi"] == "3.1.0"


def test_tls_up_to_the_pod_asks_for_certificates_where_they_are_wanted() -> None:
    found = manifests("helm", values_of("everything"))
    listen = config_of(found)["listen"]
    (mount,) = [each for each in gateway_of(found)["volumeMounts"] if each["name"] == "tls"]

    assert listen["tls"] == {
        "cert": f"{mount['mountPath']}/tls.crt",
        "key": f"{mount['mountPath']}/tls.key",
        "client_ca": f"{mount['mountPath']}/ca.crt",
    }
    assert listen["behind_tls_proxy"] is False
    assert found["Service/mcp"]["spec"]["ports"][0]["appProtocol"] == "https"


def test_secret_files_are_where_the_config_looks_for_them() -> None:
    mounts = {
        each["name"]: each["mountPath"]
        for each in gateway_of(manifests("helm", values_of("everything")))["volumeMounts"]
    }

    assert mounts["secret-wiki-token"] == "/etc/mcp-gateway-secrets/wiki-token"


@pytest.mark.parametrize(
    ("image", "said"),
    [
        ({}, "aiohttp-mcp-gateway:0.1.0"),
        ({"variant": "full"}, "aiohttp-mcp-gateway:0.1.0-full"),
        ({"tag": "1.2", "variant": "node"}, "aiohttp-mcp-gateway:1.2"),
        (
            {"repository": "r.example.com:5000/x", "digest": f"sha256:{'a' * 64}"},
            f"r.example.com:5000/x@sha256:{'a' * 64}",
        ),
    ],
)
def test_the_image_is_what_was_asked_for(image: Json, said: str) -> None:
    found = manifests("helm", values_of("minimal"), {"image": image})

    assert gateway_of(found)["image"] == said
    assert found[f"Pod/{NAME}-test"]["spec"]["containers"][0]["image"] == said


@pytest.mark.parametrize(
    "text", [" indented: 1\n", "\n  a: 1\nb: 2\n", "\tx", "last\n\n", "no end", '{{ x }}: "y"\r\n']
)
def test_files_arrive_as_they_were_given(text: str) -> None:
    found = manifests("helm", values_of("minimal"), {"files": {"a.json": text}, "policyFiles": {"p.yaml": text}})
    data = found[f"ConfigMap/{NAME}"]["data"]

    assert (data["files.a.json"], data["policies.p.yaml"]) == (text, text)


def test_the_test_pod_asks_for_the_host_with_its_port_as_clients_do() -> None:
    """The gateway turns away every other one."""
    for url, host in (
        ("https://mcp.example.com:8443/mcp", "mcp.example.com:8443"),
        ("https://a.example/mcp", "a.example"),
    ):
        found = manifests("helm", values_of("minimal"), {"config": {"listen": {"public_url": url}}})
        env = {each["name"]: each["value"] for each in found[f"Pod/{NAME}-test"]["spec"]["containers"][0]["env"]}
        assert env["MCP_HOST"] == host


def test_an_existing_config_map_replaces_the_charts() -> None:
    found = manifests("helm", values_of("locked-down"))
    (volume,) = [each for each in pod_of(found)["volumes"] if each["name"] == "config"]

    assert volume["configMap"] == {"name": "gateway-config"}
    assert not [each for each in found.values() if each["kind"] == "ConfigMap"]
    assert gateway_of(found)["envFrom"] == [{"secretRef": {"name": "gateway-secrets"}}]


def test_replicas_spread_and_a_single_one_does_not() -> None:
    spread = pod_of(manifests("helm", values_of("ha")))["topologySpreadConstraints"]
    selector = manifests("helm", values_of("ha"))[f"StatefulSet/{NAME}"]["spec"]["selector"]

    assert [each["topologyKey"] for each in spread] == ["kubernetes.io/hostname", "topology.kubernetes.io/zone"]
    assert all(each["labelSelector"] == selector for each in spread)
    assert "topologySpreadConstraints" not in pod_of(manifests("helm", values_of("minimal")))
    own: Json = {"topologySpreadConstraints": []}
    assert "topologySpreadConstraints" not in pod_of(manifests("helm", values_of("ha"), own))


def test_the_autoscaler_and_not_the_workload_says_how_many() -> None:
    found = manifests("helm", values_of("ha"))
    scaler = found[f"HorizontalPodAutoscaler/{NAME}"]["spec"]

    assert "replicas" not in found[f"StatefulSet/{NAME}"]["spec"]
    assert scaler["scaleTargetRef"] == {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": NAME}
    assert (scaler["minReplicas"], scaler["maxReplicas"]) == (3, 9)
    assert scaler["metrics"][0]["resource"]["target"]["averageUtilization"] == 65


def test_a_budget_never_holds_up_the_only_pod() -> None:
    assert f"PodDisruptionBudget/{NAME}" not in manifests("helm", values_of("minimal"))
    assert manifests("helm", values_of("ha"))[f"PodDisruptionBudget/{NAME}"]["spec"]["maxUnavailable"] == 1
    everything = manifests("helm", values_of("everything"))["PodDisruptionBudget/mcp"]["spec"]
    assert everything["minAvailable"] == "50%"
    assert "maxUnavailable" not in everything
