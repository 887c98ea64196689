# Needs Python 3.11+, make and a way to PyPI; everything else is fetched.
# Another Python: make test PYTHON=python3.12

PYTHON ?= python3
PORT ?= 2024
RUNS ?= 2000
BIN := .venv/bin

# Each folder there has its requirements.txt, and in tests.txt what pytest is to run in it.
ADAPTERS := $(patsubst tests_adapters/%/requirements.txt,%,$(wildcard tests_adapters/*/requirements.txt))

# Files that take long are begun with, so that nobody is left with one at the end. These tests wait
# for processes and databases about half of the time, so there are four at a time on two cores.
SLOW := tests/test_docs.py tests/crash tests/runner tests/server/behaviour

# Checks take one core, so the tests of the engine go beside them. Each prints when it has ended,
# where make knows how to.
SYNCED := $(if $(filter output-sync,$(.FEATURES)),--output-sync=target)

# A uv on the PATH is used if it meets `required-version` in pyproject.toml, else one of our own.
UV := $(shell uv cache dir >/dev/null 2>&1 && command -v uv || echo .tools/bin/uv)

export UV_PYTHON := $(PYTHON)
export UV_PYTHON_DOWNLOADS := never
export UV_PROJECT_ENVIRONMENT := .venv
export UV_SYSTEM_CERTS := 1

# Tests start hundreds of processes. Where nothing compiled may be kept, each compiles all it imports.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help demo dev test test-engine test-adapters check soak bench clean python

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: .venv/synced ## see hooks at work, offline, in a minute
	$(BIN)/python examples/demo/demo.py

dev: .venv/synced ## serve the example project (another port: make dev PORT=2025)
	$(BIN)/checkrail dev --config examples/server --port $(PORT)

test: .venv/synced ## all checks, then all tests; the engine fully covered
	@echo "The checks and the tests of the engine, at the same time:"
	@$(MAKE) --no-print-directory -j2 $(SYNCED) check test-engine
	$(BIN)/pytest -n 4 --dist loadfile --no-loadscope-reorder $(SLOW) tests --ignore=tests/engine

test-engine: .venv/synced
	$(BIN)/pytest -n auto --dist loadfile tests/engine --cov=checkrail.engine --cov-branch --cov-fail-under=100

test-adapters: $(ADAPTERS:%=.envs/%/synced) ## tests of packages that need environments of their own
	set -e; for name in $(ADAPTERS); do \
		echo "$$name:"; .envs/$$name/bin/python -m pytest @tests_adapters/$$name/tests.txt; done

check: .venv/synced ## lint, format, types and import directions
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

soak: .venv/synced ## 2,000 runs while servers and runners are killed (fewer: make soak RUNS=500)
	CHECKRAIL_SOAK_RUNS=$(RUNS) $(BIN)/pytest tests/crash/test_fleet.py -s

bench: .venv/synced ## measure against the bars and the peers
	$(BIN)/python bench/run.py

clean: ## remove everything that make and the tools made
	rm -rf .venv .envs .tools bench/.envs examples/server/.checkrail .coverage .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache dist
	find src tests tests_adapters bench examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

.venv/synced: pyproject.toml uv.lock | python $(UV)
	$(UV) sync --all-extras --frozen
	@touch $@

.envs/%/synced: tests_adapters/%/requirements.txt pyproject.toml | python $(UV)
	$(UV) venv --quiet --clear .envs/$*
	$(UV) pip install --quiet --python .envs/$*/bin/python -r $<
	@touch $@

.tools/bin/uv: | python
	$(PYTHON) -m venv .tools
	.tools/bin/pip install --quiet --disable-pip-version-check "uv>=0.11"

python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "Checkrail needs Python 3.11 or newer, but $(PYTHON) is: $$($(PYTHON) --version 2>&1)" >&2; \
		echo "Name a newer one: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 1; }
