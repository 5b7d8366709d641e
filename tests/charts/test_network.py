"""How the pods are reached: Services, Ingress, HTTPRoute and the NetworkPolicy that closes everything else."""

from __future__ import annotations

from tests.kit.chart import manifests, values_of

NAME = "gw-aiohttp-mcp-gateway"


def test_an_ingress_publishes_the_address_that_clients_dial_and_lets_streams_flow() -> None:
    ingress = manifests("helm", values_of("ha"))[f"Ingress/{NAME}"]
    notes = ingress["metadata"]["annotations"]
    (rule,) = ingress["spec"]["rules"]

    assert rule["host"] == "mcp.example.com"
    # With auth.jwt, clients learn at the second one where to sign in.
    assert [path["path"] for path in rule["http"]["paths"]] == ["/mcp", "/.well-known/oauth-protected-resource"]
    assert {path["backend"]["service"]["port"]["name"] for path in rule["http"]["paths"]} == {"mcp"}
    assert ingress["spec"]["ingressClassName"] == "nginx"
    assert ingress["spec"]["tls"] == [{"hosts": ["mcp.example.com"], "secretName": "gateway-public-tls"}]
    assert notes["nginx.ingress.kubernetes.io/proxy-buffering"] == "off"
    assert notes["nginx.ingress.kubernetes.io/backend-protocol"] == "HTTP"
    assert notes["cert-manager.io/cluster-issuer"] == "letsencrypt"


def test_an_ingress_for_haproxy_has_only_what_its_controller_takes_there() -> None:
    """Timeouts of its frontends it takes from its own ConfigMap alone; those of the backend from an Ingress too."""
    notes = manifests("helm", values_of("everything"))["Ingress/mcp"]["metadata"]["annotations"]

    assert {name: text for name, text in notes.items() if name.startswith("haproxy.org/")} == {
        "haproxy.org/timeout-server": "1h",
        "haproxy.org/server-ssl": "true",
    }


def test_own_annotations_win_over_those_for_the_controller() -> None:
    more = {"ingress": {"annotations": {"nginx.ingress.kubernetes.io/proxy-read-timeout": "7200"}}}
    notes = manifests("helm", values_of("ha"), more)[f"Ingress/{NAME}"]["metadata"]["annotations"]

    assert notes["nginx.ingress.kubernetes.io/proxy-read-timeout"] == "7200"


def test_a_host_is_written_as_an_ingress_wants_it() -> None:
    more = {"config": {"listen": {"public_url": "https://MCP.Example.com/mcp"}}}
    found = manifests("helm", values_of("ha"), more)[f"Ingress/{NAME}"]["spec"]

    assert [rule["host"] for rule in found["rules"]] == found["tls"][0]["hosts"] == ["mcp.example.com"]


def test_services_are_of_the_family_that_the_pods_listen_on() -> None:
    for bind, family in (("0.0.0.0", "IPv4"), ("::", "IPv6")):
        found = manifests("helm", values_of("minimal"), {"bind": bind})
        for name in (f"Service/{NAME}", f"Service/{NAME}-admin"):
            assert found[name]["spec"]["ipFamilies"] == [family]
            assert found[name]["spec"]["ipFamilyPolicy"] == "SingleStack"


def test_consent_pages_are_published_where_a_server_needs_them() -> None:
    server = {"url": "https://crm.example.com/mcp", "auth": {"authorization_code": {}}}
    other = {"url": "https://cms.example.com/mcp", "auth": None}
    more = {"config": {"listen": {"path": "/tools"}, "servers": {"crm": server, "cms": other}}}
    (rule,) = manifests("helm", values_of("ha"), more)[f"Ingress/{NAME}"]["spec"]["rules"]

    assert [path["path"] for path in rule["http"]["paths"]] == [
        "/tools",
        "/.well-known/oauth-protected-resource",
        "/oauth/",
    ]


def test_a_route_of_the_gateway_api_has_no_time_limit_for_streams() -> None:
    route = manifests("helm", values_of("everything"))["HTTPRoute/mcp"]["spec"]

    assert route["hostnames"] == ["mcp.example.com"]
    assert route["parentRefs"] == [{"name": "public", "namespace": "gateways", "sectionName": "https"}]
    (rule,) = route["rules"]
    assert rule["timeouts"] == {"request": "0s", "backendRequest": "0s"}
    assert [match["path"] for match in rule["matches"]] == [{"type": "PathPrefix", "value": "/mcp"}]
    assert rule["backendRefs"] == [{"name": "mcp", "port": 80}]


def test_the_admin_listener_is_never_published() -> None:
    found = manifests("helm", values_of("everything"))
    published = [found["Ingress/mcp"], found["HTTPRoute/mcp"], found["Service/mcp"]]

    assert "admin" not in str([each["spec"] for each in published])
    assert found["Service/mcp-admin"]["spec"]["clusterIP"] == "None"
    assert found["Service/mcp-admin"]["spec"]["type"] == "ClusterIP"


def test_the_policy_lets_in_clients_to_the_endpoint_and_admins_to_the_admin_port_alone() -> None:
    found = manifests("helm", values_of("everything"))
    policy = found["NetworkPolicy/mcp"]["spec"]
    test_pod = {
        "podSelector": {"matchLabels": {**policy["podSelector"]["matchLabels"], "app.kubernetes.io/component": "test"}}
    }
    clients, admins = policy["ingress"]

    assert policy["podSelector"] == {"matchLabels": found["StatefulSet/mcp"]["spec"]["selector"]["matchLabels"]}
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert clients["ports"] == [{"port": "mcp", "protocol": "TCP"}]
    assert admins["ports"] == [{"port": "admin", "protocol": "TCP"}]
    assert [each for each in clients["from"] if each != test_pod] == [
        {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress"}}}
    ]
    assert [each for each in admins["from"] if each != test_pod] == [
        {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    ]
    assert test_pod["podSelector"]["matchLabels"].items() <= found["Pod/mcp-test"]["metadata"]["labels"].items()


def test_a_closed_policy_opens_the_admin_port_to_nobody() -> None:
    policy = manifests("helm", values_of("locked-down"))[f"NetworkPolicy/{NAME}"]["spec"]

    assert [rule["ports"][0]["port"] for rule in policy["ingress"]] == ["mcp"]
    dns, data, servers = policy["egress"]
    # OpenShift's DNS pods listen on 5353.
    assert {(port["port"], port["protocol"]) for port in dns["ports"]} == {
        (number, protocol) for number in (53, 5353) for protocol in ("UDP", "TCP")
    }
    assert {port["port"] for port in data["ports"]} == {5432, 6379}
    assert servers["to"] == [{"ipBlock": {"cidr": "198.51.100.0/24"}}]


def test_no_way_out_is_a_policy_with_no_rule() -> None:
    more = {"networkPolicy": {"egress": {"dns": False, "rules": []}}}

    assert manifests("helm", values_of("locked-down"), more)[f"NetworkPolicy/{NAME}"]["spec"]["egress"] == []


def test_a_load_balancer_keeps_addresses_and_sources() -> None:
    service = manifests("helm", values_of("single"))[f"Service/{NAME}"]["spec"]

    assert service["type"] == "LoadBalancer"
    assert service["externalTrafficPolicy"] == "Local"
    assert service["loadBalancerSourceRanges"] == ["203.0.113.0/24"]
    assert service["ports"][0]["appProtocol"] == "https"


def test_legacy_sessions_can_be_kept_at_one_pod() -> None:
    """G130."""
    assert manifests("helm", values_of("everything"))["Service/mcp"]["spec"]["sessionAffinity"] == "ClientIP"
    assert manifests("helm", values_of("minimal"))[f"Service/{NAME}"]["spec"]["sessionAffinity"] == "None"
