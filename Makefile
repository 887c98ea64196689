# Needs Python 3.11+, make and a way to PyPI; everything else is fetched. Only test-adapters needs
# more: Node.js 20+ with npm, and a way to npm's registry.
# Another Python: make test PYTHON=python3.12

PYTHON ?= python3
PORT ?= 2024
RUNS ?= 2000
ROUNDS ?= 20
MODE ?= kills
SCREENSHOTS ?= .checkrail/screenshots
BIN := .venv/bin

# Each folder there has its requirements.txt, and in tests.txt what pytest is to run in it. Those with
# a package.json need packages of npm as well.
ADAPTERS := $(patsubst tests_adapters/%/requirements.txt,%,$(wildcard tests_adapters/*/requirements.txt))
IN_NODE := $(patsubst tests_adapters/%/package.json,%,$(wildcard tests_adapters/*/package.json))

# Checks take one core, so the tests of the engine go beside them. Each prints when it has ended,
# where make knows how to.
SYNCED := $(if $(filter output-sync,$(.FEATURES)),--output-sync=target)

# Tests that are marked as slow, each for itself.
REQUESTS := tests/server/behaviour/test_any_request.py
OUTAGES := tests/crash/test_outages.py
KILLS := tests/crash/test_fleet.py
BLUEPRINTS := tests/server/routes/test_costly_blueprints.py

# The ways to soak: processes are killed, or PostgreSQL goes away and processes freeze.
SOAK_kills = CHECKRAIL_SOAK_RUNS=$(RUNS) $(BIN)/pytest -m slow -s $(KILLS)
SOAK_outages = CHECKRAIL_SOAK_ROUNDS=$(ROUNDS) $(BIN)/pytest -m slow -s $(OUTAGES)

# A uv on the PATH is used if it meets `required-version` in pyproject.toml, else one of our own.
UV := $(shell uv cache dir >/dev/null 2>&1 && command -v uv || echo .tools/bin/uv)

export UV_PYTHON := $(PYTHON)
export UV_PYTHON_DOWNLOADS := never
export UV_PROJECT_ENVIRONMENT := .venv
export UV_SYSTEM_CERTS := 1

# Tests start hundreds of processes. Where nothing compiled may be kept, each compiles all it imports.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help demo dev test test-browser browser screenshots test-engine test-imports test-adapters test-slow test-all build check soak blueprints requests record-reference bench clean python node

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: .venv/synced ## see hooks at work, offline, in a minute
	$(BIN)/python examples/demo/demo.py

dev: .venv/synced ## serve the example project (another port: make dev PORT=2025)
	$(BIN)/checkrail dev --config examples/server --port $(PORT)

# Tests wait for processes and databases about half of the time, so there are six at a time on two
# cores.
test: .venv/synced ## all checks, then all tests; the engine fully covered
	@echo "The checks and the tests of the engine, at the same time:"
	@$(MAKE) --no-print-directory -j3 $(SYNCED) check test-engine test-imports
	$(BIN)/pytest -n 6 --dist loadfile --no-loadscope-reorder tests --ignore=tests/engine --ignore=tests/browser
	@$(MAKE) --no-print-directory test-browser

test-browser: .venv/synced browser ## the dashboard's stories in a real Chromium
	$(BIN)/pytest tests/browser

screenshots: .venv/synced browser ## pictures of every page of the dashboard, in .checkrail/screenshots
	CHECKRAIL_SCREENSHOTS=$(SCREENSHOTS) $(BIN)/pytest -m screenshots tests/browser

# Of the system, else Debian's package where one may be installed, else Playwright's own.
browser: .venv/synced
	@command -v chromium chromium-browser google-chrome >/dev/null || \
		{ [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
			apt-get update -qq && apt-get install -qq -y chromium >/dev/null; } || \
		$(BIN)/playwright install chromium

# What is imported is compiled once, before six processes would each do so at the same time. If that
# fails, they say why.
test-imports: .venv/synced
	@$(BIN)/pytest --collect-only -qqq tests --ignore=tests/engine --ignore=tests/browser >/dev/null || true

test-engine: .venv/synced
	$(BIN)/pytest -n auto --dist loadfile tests/engine --cov=checkrail.engine --cov-branch --cov-fail-under=100

test-adapters: $(ADAPTERS:%=.envs/%/synced) $(IN_NODE:%=.envs/%/node_modules/synced) .envs/aider/synced ## tests of packages that need environments of their own
	set -e; for name in $(ADAPTERS); do \
		echo "$$name:"; .envs/$$name/bin/python -m pytest @tests_adapters/$$name/tests.txt; done

test-slow: .venv/synced ## tests that are marked as slow: soaks, many requests, costly blueprints
	$(BIN)/pytest -m slow --exitfirst -p no:logging -s tests

test-all: test test-adapters build test-slow ## everything: what CI runs, then the slow tests

# Built from the sdist, the wheel shows that the sdist is whole.
build: .venv/synced | $(UV) ## make sdist and wheel, and test both installed with nothing beside them
	rm -rf dist
	$(UV) build --quiet
	UV=$(UV) $(BIN)/pytest tests_build

check: .venv/synced ## lint, format, types and import directions
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

soak: .venv/synced ## 2,000 runs while processes are killed (RUNS=500), or 20 outages (MODE=outages)
	$(SOAK_$(MODE))

blueprints: .venv/synced ## 10,000 blueprints of a member that try to hold the event loop (20 minutes)
	$(BIN)/pytest -m slow -p no:logging -s $(BLUEPRINTS)

requests: .venv/synced ## many requests by the OpenAPI document, and against it
	$(BIN)/pytest -m slow $(REQUESTS)

record-reference: .envs/langgraph_server/synced ## write down again what LangGraph's own server answers
	.envs/langgraph_server/bin/python -m tests_adapters.langgraph_server.record

bench: .venv/synced ## measure against the bars and the peers
	$(BIN)/python bench/run.py

clean: ## remove everything that make and the tools made
	rm -rf .venv .envs .tools bench/.envs examples/server/.checkrail .coverage .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache dist
	find src tests tests_adapters tests_build bench examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

.venv/synced: pyproject.toml uv.lock | python $(UV)
	$(UV) sync --all-extras --frozen
	@touch $@

.envs/%/synced: tests_adapters/%/requirements.txt pyproject.toml | python $(UV)
	$(UV) venv --quiet --clear .envs/$*
	$(UV) pip install --quiet --python .envs/$*/bin/python -r $<
	@touch $@

.envs/javascript/synced: tests_adapters/langgraph_server/requirements.txt

# An agent whose own requirements leave no room for ours.
.envs/aider/synced: tests_adapters/coding_agents/aider.txt | python $(UV)
	$(UV) venv --quiet --clear .envs/aider
	$(UV) pip install --quiet --python .envs/aider/bin/python -r $<
	@touch $@

# Below the environment, which takes this with it when it is made anew. Of the scripts that packages
# bring to finish their installation, those run that a folder names under `finish`.
.envs/%/node_modules/synced: tests_adapters/%/package-lock.json .envs/%/synced | node
	cp tests_adapters/$*/package.json tests_adapters/$*/package-lock.json .envs/$*
	npm ci --prefix .envs/$* --ignore-scripts --no-audit --no-fund
	npm run --prefix .envs/$* --if-present finish
	@touch $@

.tools/bin/uv: | python
	$(PYTHON) -m venv .tools
	.tools/bin/pip install --quiet --disable-pip-version-check "uv>=0.11"

python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "Checkrail needs Python 3.11 or newer, but $(PYTHON) is: $$($(PYTHON) --version 2>&1)" >&2; \
		echo "Name a newer one: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 1; }

node:
	@node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' 2>/dev/null && npm --version >/dev/null 2>&1 || { \
		echo "The clients in $(IN_NODE:%=tests_adapters/%) need Node.js 20 or newer and npm, but node is: $$(node --version 2>&1)" >&2; \
		echo "Install them from https://nodejs.org or your system's packages, then: make $(MAKECMDGOALS)" >&2; exit 1; }
