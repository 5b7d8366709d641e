# Two commands matter: `make run` serves the demonstration, `make test` runs everything. `make help` lists the rest.

SHELL := /bin/bash
VENV  := .venv
BIN   := $(VENV)/bin
PIP   := $(BIN)/python -m pip --disable-pip-version-check --quiet
# One more than there are cores, since many tests wait for processes; four are enough.
CORES   := $(shell nproc 2>/dev/null || sysctl -n hw.ncpu 2>/dev/null || echo 2)
WORKERS ?= $(shell echo $$(( $(CORES) < 4 ? $(CORES) + 1 : 4 )))

.PHONY: run help test environments lint types site bench fuzz soak image-steps sbom chart lock clean

## run: install into .venv and serve the demonstration on http://127.0.0.1:8080/mcp
run: $(VENV)/.demo
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/mcp-gateway serve -c demo/gateway.yaml

## help: what can be made
help:
	@sed -n 's/^## //p' Makefile

## test: everything; installs what it needs and ends with pytest's summary
test: lint types environments
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist loadfile --no-loadscope-reorder --durations=10 $(PYTEST)

## lint: style and format
lint: $(VENV)/.test
	$(BIN)/ruff check --output-format concise .
	$(BIN)/ruff format --check --quiet .

## types: mypy, strict, on source, tests and the demonstration
types: $(VENV)/.test
	$(BIN)/mypy

## environments: the real clients and servers that tests talk to, each in its own folder under .envs
environments: $(VENV)/.test
	$(BIN)/python -m tests.environments.prepare
	$(BIN)/python -m tests.environments.wanted

## site: the documentation as a static site, in site/
site: $(VENV)/.docs
	@$(BIN)/python docs/site/build.py

## bench: what the gateway adds to a call, on this machine
bench: $(VENV)/.test
	$(BIN)/python -m tests.bench.load
	$(BIN)/python -m tests.bench.searching

## fuzz: the property tests with many more examples (FUZZ_EXAMPLES, default 5000)
fuzz: $(VENV)/.test
	$(BIN)/python -m pytest -q -m hypothesis --hypothesis-profile=fuzz --timeout=3600

## soak: load with servers dying underneath (SOAK_MINUTES, default 10), then every stress run of tests/bench
soak: $(VENV)/.test
	$(BIN)/python -m tests.bench.soak
	$(BIN)/python -m tests.bench.audit_edits
	$(BIN)/python -m tests.bench.replicas

## image-steps: build every variant of the image without an engine and run it (root, Debian with mmdebstrap; minutes)
image-steps: $(VENV)/.test
	$(BIN)/python -m tests.image.steps

## sbom: the bill of materials of what the image installs, as dist/mcp-gateway.cdx.json
sbom: $(VENV)/.test
	$(BIN)/python -m tests.image.materials dist/mcp-gateway.cdx.json

## chart: lint the chart and pack it into dist
chart: $(VENV)/.test
	$(BIN)/python -c 'from tests.environments import prepare; prepare.make("helm")'
	.envs/helm/helm lint --strict charts/aiohttp-mcp-gateway -f charts/aiohttp-mcp-gateway/ci/minimal-values.yaml
	.envs/helm/helm package charts/aiohttp-mcp-gateway -d dist

## lock: write the lock files anew from pyproject.toml
lock:
	python3 tests/environments/lock.py

## clean: remove what was installed and what the demonstration kept
clean:
	rm -rf $(VENV) .envs .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build site demo/state

# The first Python from 3.13 down to 3.11 that runs and can make environments.
$(BIN)/python:
	@for name in python3.13 python3.12 python3.11 python3; do \
	  if $$name -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
	    echo "making $(VENV) with $$($$name --version)"; exec $$name -m venv $(VENV); \
	  fi; \
	done; echo 'Python 3.11 or newer with its venv module is needed (Debian, Ubuntu: python3-venv).' >&2; exit 1

$(VENV)/.runtime: requirements.lock requirements-build.lock pyproject.toml | $(BIN)/python
	@echo 'installing the gateway'
	@$(PIP) install --require-hashes -r requirements.lock -r requirements-build.lock
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.demo: $(VENV)/.runtime requirements-demo.lock
	@echo 'installing the time server of the demonstration'
	@$(PIP) install --require-hashes -r requirements-demo.lock
	@touch $@

$(VENV)/.docs: $(VENV)/.runtime requirements-docs.lock
	@$(PIP) install --require-hashes -r requirements-docs.lock
	@touch $@

$(VENV)/.test: $(VENV)/.demo requirements-test.lock
	@echo 'installing what the tests need'
	@$(PIP) install --require-hashes -r requirements-test.lock
	@touch $@
