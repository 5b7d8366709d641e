# `build` installs with hashes and makes the bill of materials; `base` is what runs. On it stand the variants, for the
# programs that servers over stdio need:
#   docker build .                    Python alone (`runtime`)
#   docker build --target node .      npx
#   docker build --target uv .        uvx
#   docker build --target full .      both
# Releases name what they stand on by digest: --build-arg PYTHON_IMAGE=python:3.13-slim-trixie@sha256:… (docs/deploy.md).
ARG PYTHON_IMAGE=python:3.13-slim-trixie
ARG NODE_IMAGE=node:24-trixie-slim

FROM ${PYTHON_IMAGE} AS build
WORKDIR /src
COPY requirements-image.lock requirements-build.lock requirements-sbom.lock ./
# What runs gets no pip: it is installed from beside it.
RUN python -m venv /opt/build \
 && python -m venv /opt/sbom \
 && python -m venv --without-pip /opt/gateway \
 && /opt/build/bin/pip install --no-cache-dir --require-hashes -r requirements-build.lock \
 && /opt/sbom/bin/pip install --no-cache-dir --require-hashes -r requirements-sbom.lock \
 && /opt/build/bin/pip --python /opt/gateway/bin/python install --no-cache-dir --require-hashes -r requirements-image.lock
COPY pyproject.toml README.md LICENSE ./
COPY gateway ./gateway
RUN /opt/build/bin/python -m hatchling build -t wheel -d /dist \
 && /opt/build/bin/pip --python /opt/gateway/bin/python install --no-cache-dir --no-deps /dist/*.whl \
 && install -d /usr/share/sbom \
 && sed "s/^dynamic = .*/version = \"$(/opt/gateway/bin/python -c 'import gateway; print(gateway.__version__)')\"/" \
      pyproject.toml > /dist/pyproject.toml \
 && /opt/sbom/bin/cyclonedx-py environment --pyproject /dist/pyproject.toml --output-reproducible \
      -o /usr/share/sbom/mcp-gateway.cdx.json /opt/gateway/bin/python

FROM build AS uvbuild
COPY requirements-uv.lock ./
RUN python -m venv --without-pip /opt/uv \
 && /opt/build/bin/pip --python /opt/uv/bin/python install --no-cache-dir --require-hashes -r requirements-uv.lock \
 && /opt/sbom/bin/cyclonedx-py environment --output-reproducible \
      -o /usr/share/sbom/uv.cdx.json /opt/uv/bin/python

FROM ${NODE_IMAGE} AS nodejs

FROM ${PYTHON_IMAGE} AS base
# tini is process 1: it reaps what servers' children leave behind. The standard library is compiled here, since nothing
# can be written where it runs.
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install -y --no-install-recommends tini \
 && rm -rf /var/lib/apt/lists/* \
 && groupadd --gid 10001 gateway \
 && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /var/cache/mcp-gateway --shell /usr/sbin/nologin gateway \
 && install -d -o 10001 -g 10001 -m 0700 /var/lib/mcp-gateway /var/cache/mcp-gateway \
 && install -d /etc/mcp-gateway \
 && python -m compileall -q -x '/(test|tests|idlelib|tkinter|turtledemo|ensurepip|site-packages|dist-packages)/' \
      "$(python -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')"
COPY --from=build /opt/gateway /opt/gateway
COPY --from=build /usr/share/sbom /usr/share/sbom
# Python itself is no package of Debian's, nor of the environment: it is listed here, with what lies beside it.
RUN python -c 'import importlib.metadata, json, platform; \
version = platform.python_version(); \
itself = {"type": "application", "name": "cpython", "version": version, "purl": "pkg:generic/cpython@" + version, \
  "cpe": "cpe:2.3:a:python:python:" + version + ":*:*:*:*:*:*:*"}; \
found = importlib.metadata.distributions(); \
beside = {"pkg:pypi/" + each.name.lower().replace("_", "-") + "@" + each.version: each for each in found}; \
parts = [itself] + [{"type": "library", "name": beside[purl].name, "version": beside[purl].version, "purl": purl} \
  for purl in sorted(beside)]; \
components = [{"bom-ref": part["purl"], **part} for part in parts]; \
bill = {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1, "components": components}; \
print(json.dumps(bill, indent=1))' > /usr/share/sbom/python.cdx.json
# Servers get HOME: what npx and uvx fetch is in the cache, apart from keys and audit log.
ENV PATH=/opt/gateway/bin:$PATH \
    HOME=/var/cache/mcp-gateway \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="aiohttp-mcp-gateway" \
      org.opencontainers.image.description="One authenticated MCP endpoint in front of all the tools a team has." \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
USER 10001:10001
# Every command finds the config where it is looked for first: `docker exec NAME mcp-gateway status`.
WORKDIR /etc/mcp-gateway
VOLUME ["/var/lib/mcp-gateway", "/var/cache/mcp-gateway"]
EXPOSE 8080 9090
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s CMD ["mcp-gateway", "health"]
ENTRYPOINT ["tini", "--", "mcp-gateway"]
CMD ["serve"]

FROM base AS node
USER 0:0
# From version 25 on, Node needs what the slim image lacks.
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install -y --no-install-recommends libatomic1 \
 && rm -rf /var/lib/apt/lists/*
COPY --from=nodejs /usr/local/bin/node /usr/local/bin/node
COPY --from=nodejs /usr/local/lib/node_modules/npm /usr/local/lib/node_modules/npm
RUN ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm \
 && ln -s ../lib/node_modules/npm/bin/npx-cli.js /usr/local/bin/npx \
 && install -d /usr/local/etc \
 && printf 'audit=false\nfund=false\nupdate-notifier=false\n' > /usr/local/etc/npmrc \
 && node --version \
 && npx --version
# No lock says what came with Node: it is what lies there, npm with all that it brings, and what Node was built with.
RUN node -e ' \
  const fs = require("fs"), path = require("path"), found = new Map(); \
  const add = (each) => found.set(each.purl, { "bom-ref": each.purl, ...each }); \
  const walk = (folder) => fs.readdirSync(folder).filter((name) => name[0] !== ".").forEach((name) => { \
    const here = path.join(folder, name); \
    if (name[0] === "@") return walk(here); \
    const { name: full, version, license } = JSON.parse(fs.readFileSync(path.join(here, "package.json"))); \
    const licenses = typeof license === "string" ? { licenses: [{ expression: license }] } : {}; \
    const purl = "pkg:npm/" + full.replace("@", "%40") + "@" + version; \
    add({ type: "library", name: full, version, purl, ...licenses }); \
    if (fs.existsSync(path.join(here, "node_modules"))) walk(path.join(here, "node_modules")); \
  }); \
  walk(path.resolve(process.execPath, "../../lib/node_modules")); \
  const known = { node: "nodejs:node.js", openssl: "openssl:openssl" }, called = { uv: "libuv", ares: "c-ares" }; \
  const numbers = ["modules", "napi", "unicode", "cldr", "tz"]; \
  Object.entries(process.versions).filter(([name, text]) => text && !numbers.includes(name)).forEach(([short, text]) => { \
    const name = called[short] || short, version = text.split("+")[0]; \
    const cpe = "cpe:2.3:a:" + known[name] + ":" + version + ":*:*:*:*:*:*:*"; \
    const purl = "pkg:generic/" + name + "@" + version, type = name === "node" ? "application" : "library"; \
    add({ type, name, version, purl, ...(known[name] ? { cpe } : {}) }); \
  }); \
  const components = [...found.keys()].sort().map((purl) => found.get(purl)); \
  console.log(JSON.stringify({ bomFormat: "CycloneDX", specVersion: "1.6", version: 1, components }, null, 1)); \
' > /usr/share/sbom/node.cdx.json
USER 10001:10001

FROM base AS uv
USER 0:0
COPY --from=uvbuild /opt/uv/bin/uv /opt/uv/bin/uvx /usr/local/bin/
COPY --from=uvbuild /usr/share/sbom/uv.cdx.json /usr/share/sbom/
# Servers run on the Python that is here; another one could not be checked.
RUN install -d /etc/uv \
 && printf 'python-downloads = "never"\npython-preference = "only-system"\n' > /etc/uv/uv.toml \
 && uvx --version
USER 10001:10001

FROM node AS full
USER 0:0
COPY --from=uv /usr/local/bin/uv /usr/local/bin/uvx /usr/local/bin/
COPY --from=uv /etc/uv /etc/uv
COPY --from=uv /usr/share/sbom/uv.cdx.json /usr/share/sbom/
RUN uvx --version
USER 10001:10001

# The last stage is what is built unless a target is named.
FROM base AS runtime
