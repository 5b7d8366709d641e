# aiohttp-mcp-gateway

One authenticated MCP endpoint in front of all the tools a team has: policies, pins, approvals, and a signed audit log.
[docs/kubernetes.md](../../docs/kubernetes.md) explains how it runs in a cluster; this page lists every value.

```console
$ kubectl create secret generic gateway-keys --from-literal=CI_BOT_KEY="$KEY"
$ helm install gateway charts/aiohttp-mcp-gateway -f my-values.yaml
$ helm test gateway
```

The least that starts (`ci/minimal-values.yaml`):

```yaml
secrets: [gateway-keys]
config:
  listen:
    public_url: https://mcp.example.com/mcp
  admin:
    users:
      # printf %s "$TOKEN" | sha256sum
      alice: {token_sha256: 2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae, roles: [view, reload]}
  clients:
    ci-bot: {key: "${CI_BOT_KEY}"}
  servers:
    wiki: {url: "https://wiki.example.com/mcp"}
  policies:
    - {name: ci, clients: [ci-bot], allow: ["wiki/*"]}
```

More in `ci/`: one replica with servers over stdio (`single`), several replicas (`ha`), everything at once (`everything`), and nothing but what is needed (`locked-down`).
The tests render each with Helm 3 and Helm 4, check it against the schemas of several Kubernetes versions, and start the gateway with what comes out.

Values that cannot work together are refused with a sentence: several pods without shared state, a grace period shorter than the drain, an endpoint without authentication.

## Values

{{ values }}
