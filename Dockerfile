# Two stages: the first installs with hashes and builds the package, the second has only what runs.
ARG PYTHON=3.13

FROM python:${PYTHON}-slim AS build
WORKDIR /src
COPY requirements.lock requirements-build.lock ./
RUN python -m venv /opt/gateway \
 && /opt/gateway/bin/pip install --no-cache-dir --require-hashes -r requirements.lock \
 && python -m venv /opt/build \
 && /opt/build/bin/pip install --no-cache-dir --require-hashes -r requirements-build.lock
COPY pyproject.toml README.md LICENSE ./
COPY gateway ./gateway
RUN /opt/build/bin/python -m hatchling build -t wheel -d /dist \
 && /opt/gateway/bin/pip install --no-cache-dir --no-deps /dist/*.whl

FROM python:${PYTHON}-slim
# tini is process 1: it reaps what servers' children leave behind.
RUN apt-get update && apt-get install -y --no-install-recommends tini && rm -rf /var/lib/apt/lists/* \
 && useradd --uid 10001 --no-create-home --home-dir /var/lib/mcp-gateway --shell /usr/sbin/nologin gateway \
 && install -d -o 10001 -g 10001 -m 0700 /var/lib/mcp-gateway \
 && install -d /etc/mcp-gateway
COPY --from=build /opt/gateway /opt/gateway
ENV PATH=/opt/gateway/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 10001:10001
WORKDIR /var/lib/mcp-gateway
VOLUME /var/lib/mcp-gateway
EXPOSE 8080 9090
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=15s --timeout=5s --start-period=30s \
  CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:9090/healthz', timeout=3)"]
ENTRYPOINT ["tini", "--", "mcp-gateway"]
CMD ["serve", "-c", "/etc/mcp-gateway/gateway.yaml"]
