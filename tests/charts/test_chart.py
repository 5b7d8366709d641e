"""The chart as a whole: five sets of values, rendered by Helm 3 and Helm 4, against the schemas of Kubernetes."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import yaml
from pydantic import BaseModel

import gateway
from gateway.config.restart import RESTART_SECTIONS
from gateway.config.root import Config
from tests.charts import told
from tests.environments import prepare
from tests.kit.chart import CHART, HELMS, VALUE_SETS, helm, manifests, template, values_of
from tests.kit.peers import environment

Json: TypeAlias = dict[str, Any]

KUBERNETES = ("1.25", "1.29", "1.34", "1.37")
"""The oldest that the chart takes, and newer ones on both sides of what it asks the cluster's version for."""
CUSTOM = {
    "HTTPRoute": "@kubernetes-models/gateway-api/gateway.networking.k8s.io/v1/HTTPRoute",
    "PrometheusRule": "@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1/PrometheusRule",
    "ServiceMonitor": "@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1/ServiceMonitor",
}
JUDGE = """
const [where, objects] = JSON.parse(require("fs").readFileSync(0));
(async () => {
  for (const object of objects) {
    new (await import(where[object.kind]))[object.kind](object).validate();
    console.log(object.kind);
  }
})();
"""


def test_there_are_five_sets_of_values() -> None:
    names = {path.name.removesuffix("-values.yaml") for path in VALUE_SETS}

    assert names >= {"minimal", "single", "ha", "everything", "locked-down"}


@pytest.mark.parametrize("version", HELMS)
@pytest.mark.parametrize("values", VALUE_SETS, ids=lambda path: path.stem)
def test_each_set_lints_strictly(version: str, values: Path) -> None:
    done = helm(version, "lint", "--strict", CHART, "-f", values)

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("values", VALUE_SETS, ids=lambda path: path.stem)
def test_helm_3_and_helm_4_render_the_same(values: Path) -> None:
    assert manifests("helm", values) == manifests("helm3", values)


@pytest.mark.parametrize("kubernetes", KUBERNETES)
def test_every_object_is_valid_for_kubernetes(tmp_path: Path, kubernetes: str) -> None:
    rendered = tmp_path / "rendered.yaml"
    found = [each for values in VALUE_SETS for each in manifests("helm", values, kubernetes=kubernetes).values()]
    builtin = [json.dumps(each) for each in found if each["kind"] not in CUSTOM]
    # JSON is YAML, and quick to write.
    rendered.write_text("\n---\n".join(builtin))
    validate = environment("charts") / "bin" / "kubernetes-validate"
    command: list[str | Path] = [validate, "-k", kubernetes, "--strict", rendered]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "Couldn't find schema" not in done.stdout + done.stderr


def test_custom_resources_are_valid_by_their_own_schemas() -> None:
    objects = [each for each in manifests("helm", values_of("everything")).values() if each["kind"] in CUSTOM]
    assert sorted(each["kind"] for each in objects) == sorted(CUSTOM)

    def judged(given: list[dict[str, object]]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [prepare.node(), "-e", JUDGE],
            input=json.dumps([CUSTOM, given]),
            cwd=environment("crds"),
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )

    done = judged(objects)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.split()) == sorted(CUSTOM)

    broken = [{**each, "spec": {**each["spec"], "groups": 7, "endpoints": 7, "hostnames": 7}} for each in objects]
    assert all(judged([each]).returncode != 0 for each in broken)


def test_everything_has_every_part() -> None:
    kinds = {each["kind"] for each in manifests("helm", values_of("everything")).values()}
    scaled = {each["kind"] for each in manifests("helm", values_of("ha")).values()}
    single = {each["kind"] for each in manifests("helm", values_of("single")).values()}

    assert kinds | scaled | single == {
        "ConfigMap",
        "Deployment",
        "HTTPRoute",
        "HorizontalPodAutoscaler",
        "Ingress",
        "NetworkPolicy",
        "Pod",
        "PodDisruptionBudget",
        "PrometheusRule",
        "Service",
        "ServiceAccount",
        "ServiceMonitor",
        "StatefulSet",
    }


def test_objects_are_found_by_labels_that_an_upgrade_does_not_change() -> None:
    before = manifests("helm", values_of("ha"))["StatefulSet/gw-aiohttp-mcp-gateway"]["spec"]
    more = {"image": {"tag": "9.9.9"}, "podLabels": {"a": "b"}, "commonLabels": {"app.kubernetes.io/name": "other"}}
    after = manifests("helm", values_of("ha"), more)["StatefulSet/gw-aiohttp-mcp-gateway"]["spec"]

    assert before["selector"] == after["selector"]
    assert before["volumeClaimTemplates"] == after["volumeClaimTemplates"]
    labels = after["template"]["metadata"]["labels"]
    assert after["selector"]["matchLabels"].items() <= labels.items()
    assert labels["app.kubernetes.io/version"] == "9.9.9"


def test_no_selector_takes_the_pod_of_helm_test_for_a_gateway() -> None:
    found = manifests("helm", values_of("everything"))
    test_labels = found["Pod/mcp-test"]["metadata"]["labels"].items()
    gateways = found["StatefulSet/mcp"]["spec"]["template"]["metadata"]["labels"].items()

    for name in ("Service/mcp", "Service/mcp-admin"):
        selector = found[name]["spec"]["selector"].items()
        assert selector <= gateways
        assert not selector <= test_labels


def test_every_object_has_the_common_labels_and_annotations_and_a_namespace() -> None:
    found = manifests("helm", values_of("everything"))
    ours = {name: each for name, each in found.items() if name != "ConfigMap/mcp-more"}

    for name, each in ours.items():
        assert each["metadata"]["labels"]["team"] == "platform", name
        assert each["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "Helm", name
        assert each["metadata"]["annotations"]["example.com/owner"] == "platform@example.com", name
        assert each["metadata"]["namespace"] == "tools", name


def test_the_notes_say_what_to_do_next() -> None:
    done = helm("helm", "install", "gw", CHART, "-f", values_of("minimal"), "--dry-run=client", "--namespace", "tools")
    notes = done.stdout.partition("NOTES:")[2]

    assert done.returncode == 0, done.stderr
    assert "https://mcp.example.com/mcp" in notes
    assert "Nothing leads there from outside yet" in notes
    assert "kubectl -n tools rollout status statefulset/gw-aiohttp-mcp-gateway" in notes
    assert "helm -n tools test gw" in notes
    assert "networkPolicy.enabled is off" in notes
    assert "trusted_proxies" not in notes
    assert "image.repository names no registry" in notes


def test_the_notes_say_whom_a_network_policy_keeps_away() -> None:
    def notes(more: str) -> str:
        done = helm("helm", "install", "gw", CHART, "-f", values_of("everything"), "--dry-run=client", "--set", more)
        assert done.returncode == 0, done.stderr
        return done.stdout.partition("NOTES:")[2]

    assert "networkPolicy" not in notes("tests.enabled=false")
    assert "Prometheus does not get through" in notes("networkPolicy.admins=null")
    assert "the pods reach no server" in notes("networkPolicy.egress.rules=null")


def test_the_notes_say_that_callers_behind_a_proxy_would_count_as_one() -> None:
    def notes(*more: str) -> str:
        done = helm("helm", "install", "gw", CHART, "-f", values_of("minimal"), "--dry-run=client", *more)
        assert done.returncode == 0, done.stderr
        return done.stdout.partition("NOTES:")[2]

    trusted = "config.listen.trusted_proxies={10.0.0.0/8}"
    assert "config.listen.trusted_proxies is empty" in notes("--set", "ingress.enabled=true")
    assert "trusted_proxies" not in notes("--set", "ingress.enabled=true", "--set", trusted)


def test_the_chart_is_of_this_version_and_of_these_restarts() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    template_text = (CHART / "templates" / "_config.tpl").read_text()

    assert chart["appVersion"] == gateway.__version__
    assert yaml.safe_load(chart["annotations"]["artifacthub.io/changes"])
    sections = " ".join(f'"{name}"' for name in RESTART_SECTIONS)
    assert f"pick $config {sections} -" in template_text


def test_the_schema_knows_the_keys_of_the_config_down_to_its_sections() -> None:
    """So a key that is not spelled right is refused before anything is deployed, and none that there is."""
    schema = json.loads((CHART / "values.schema.json").read_text("utf-8"))["properties"]["config"]

    assert schema["additionalProperties"] is False
    assert set(schema["properties"]) == set(Config.model_fields) | {"mcpServers"}
    for name, field in Config.model_fields.items():
        section = field.annotation
        if isinstance(section, type) and issubclass(section, BaseModel):
            assert schema["properties"][name]["additionalProperties"] is False
            assert set(schema["properties"][name]["properties"]) == set(section.model_fields), name


NEEDED_BY_OTHERS = {
    "autoscaling.targetCPU",
    "existingConfigMap.name",
    "httpRoute.parentRefs",
    "ingress.controller",
    "metrics.token.secret",
    "podDisruptionBudget.maxUnavailable",
    "sharedState.postgres.secret",
    "sharedState.sealing.secret",
    "sharedState.valkey.secret",
    "tls.secret",
}
"""Values without which some of the sets would be refused, by a sentence of its own."""


def optional(node: Json, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the values that may be left empty, as `key:` with nothing behind it does, which Helm takes for "none"."""
    for name, child in node["properties"].items():
        if (*path, name) in (("global",), ("enabled",)) or path[:1] in (("config",), ("probes",)):
            continue
        if "properties" in child:
            assert name in node["required"], (*path, name)
            yield from optional(child, (*path, name))
        elif name not in node.get("required", []):
            yield (*path, name)


@pytest.mark.parametrize("values", VALUE_SETS, ids=lambda path: path.stem)
def test_what_is_left_empty_is_none_or_refused_by_name(values: Path) -> None:
    """Never an error of a template, which says nothing to whoever wrote the values."""
    schema = json.loads((CHART / "values.schema.json").read_text("utf-8"))
    more: Json = {}
    for path in optional(schema):
        if ".".join(path) not in NEEDED_BY_OTHERS:
            node = more
            for name in path[:-1]:
                node = node.setdefault(name, {})
            node[path[-1]] = None
    done = template("helm", values, more)

    assert done.returncode == 0, done.stderr
    assert not re.search(r"<nil>|%!", done.stdout)
    assert all(yaml.safe_load_all(done.stdout))


@pytest.mark.parametrize("section", ["ingress", "probes", "securityContext", "podSecurityContext"])
def test_a_section_that_is_left_empty_is_refused_by_name(section: str) -> None:
    done = template("helm", values_of("minimal"), {section: None})

    assert done.returncode != 0
    assert f"missing property '{section}'" in done.stderr


def test_a_second_rendering_is_the_same_to_the_letter() -> None:
    """Whoever compares what is deployed with what is written down sees no change where there is none."""
    for values in VALUE_SETS:
        assert template("helm", values).stdout == template("helm", values).stdout != ""


def test_readme_and_descriptions_are_those_of_the_values() -> None:
    text = "run `python docs/generate_chart.py`"

    assert (CHART / "README.md").read_text("utf-8") == told.readme(), text
    assert (CHART / "values.schema.json").read_text("utf-8") == told.schema(), text


def test_every_value_has_a_description_and_a_place_in_the_schema() -> None:
    described = set(told.comments((CHART / "values.yaml").read_text("utf-8")))
    schema = json.loads((CHART / "values.schema.json").read_text("utf-8"))

    def leaves(node: object, path: str) -> set[str]:
        if path in described or not isinstance(node, dict) or not node:
            return {path}
        return {found for key, value in node.items() for found in leaves(value, f"{path}.{key}".strip("."))}

    assert leaves(yaml.safe_load((CHART / "values.yaml").read_text("utf-8")), "") <= described

    def closed(node: dict[str, object], path: str) -> set[str]:
        properties = node.get("properties")
        if not isinstance(properties, dict) or path in described:
            return set()
        open_here = set() if node.get("additionalProperties") is False else {path}
        return open_here | {
            found for key, value in properties.items() for found in closed(value, f"{path}.{key}".strip("."))
        }

    assert closed(schema, "") == set()


def test_nothing_of_a_checkout_gets_into_the_package(tmp_path: Path) -> None:
    done = helm("helm", "package", CHART, "-d", tmp_path)
    assert done.returncode == 0, done.stderr
    (archive,) = tmp_path.glob("*.tgz")
    names = subprocess.run(["tar", "tzf", archive], capture_output=True, text=True, check=True).stdout

    assert "aiohttp-mcp-gateway/files/alerts.yaml" in names
    assert "/ci/" not in names
    assert ".tpl\n" in names
    assert "README.md.tpl" not in names


def test_a_cluster_that_is_too_old_is_refused() -> None:
    done = template("helm", values_of("minimal"), kubernetes="1.24")

    assert done.returncode != 0
    assert "kubeVersion" in done.stderr


def test_it_can_be_a_dependency_of_another_chart(tmp_path: Path) -> None:
    chart = {"apiVersion": "v2", "name": "tools", "version": "1.0.0"}
    dependency = {"name": "aiohttp-mcp-gateway", "version": "*", "condition": "aiohttp-mcp-gateway.enabled"}
    (tmp_path / "Chart.yaml").write_text(json.dumps({**chart, "dependencies": [dependency]}))
    (tmp_path / "charts").mkdir()
    (tmp_path / "charts" / "aiohttp-mcp-gateway").symlink_to(CHART)
    values = {"enabled": True, **yaml.safe_load(values_of("minimal").read_text())}
    (tmp_path / "values.yaml").write_text(json.dumps({"global": {"team": "x"}, "aiohttp-mcp-gateway": values}))
    done = helm("helm", "template", "all", tmp_path)

    assert done.returncode == 0, done.stderr
    assert "name: all-aiohttp-mcp-gateway\n" in done.stdout
    assert "checksum/restart-config" in done.stdout


@pytest.mark.parametrize("release", ["my.release", "1st"])
def test_a_release_that_no_service_can_be_named_after_is_refused(release: str) -> None:
    done = helm("helm", "template", release, CHART, "-f", values_of("minimal"))
    named = helm("helm", "template", release, CHART, "-f", values_of("minimal"), "--set", "fullnameOverride=mcp")

    assert done.returncode != 0
    assert "set fullnameOverride" in done.stderr
    assert named.returncode == 0


def test_a_long_name_is_cut_to_what_kubernetes_takes() -> None:
    found = manifests("helm", values_of("minimal"), {"nameOverride": "n" * 50})
    names = [each["metadata"]["name"] for each in found.values()]

    assert max(map(len, names)) <= 63
    # A StatefulSet adds the number of the pod and the hash of the revision to its name.
    assert max(len(name) for key, name in zip(found, names, strict=True) if key.startswith("StatefulSet")) <= 52
