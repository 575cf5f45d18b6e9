# What people and CI run. Needs make and Python 3.11 or newer with venv; everything else is installed
# into .venv, once, and again when pyproject.toml has changed.

# The first Python that is new enough and can make virtual environments; `make PYTHON=... run` names another.
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$python -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& echo $$python && break; done)

BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
DATA ?= ./data

.DEFAULT_GOAL := help
.PHONY: help run test soak check format bench docs docs-api docs-settings docs-protocol docs-command-line sync-client clean

help: ## Show these targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 30

run: .venv/server.stamp ## Start a server on 127.0.0.1:8090 with its data in ./data
	@echo
	@echo 'Windsprite starts on 127.0.0.1:8090 with its data in $(DATA). Ctrl-C stops it. In another shell:'
	@echo '  $(BIN)/windsprite ping'
	@echo '  echo hello | $(BIN)/windsprite send greetings all --create --file -'
	@echo '  $(BIN)/windsprite poll greetings all --from first --all --raw'
	@echo 'Any Iggy 0.9 client connects with iggy://iggy:iggy@127.0.0.1:8090 on a new data directory.'
	@echo
	@exec $(BIN)/windsprite-server run --data-dir $(DATA) --tcp-address 127.0.0.1:8090

test: .venv/dev.stamp ## Run the whole test suite, on all cores
	$(BIN)/pytest -n logical

soak: .venv/dev.stamp ## Run the long form of the tests, which says how far it is
	$(BIN)/pytest -m soak --capture=no --timeout=3600

check: .venv/dev.stamp ## Lint, formatting, types, layers
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(if $(wildcard tests/typing/*.py),$(BIN)/mypy tests/typing)
	$(BIN)/lint-imports

format: .venv/dev.stamp ## Format the code and mend what the linter can
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: .venv/bench.stamp ## Run the benchmarks of tests/bench; ARGS='--help' tells what there is
	PYTHONPATH=tests $(BIN)/python -m bench $(if $(PROFILE),--profile $(PROFILE),$(ARGS))

docs: .venv/docs.stamp ## Build the site of the documentation in build/site
	$(BIN)/zensical build --clean --strict

docs-api: .venv/dev.stamp ## Write docs/api anew
	$(BIN)/python docs/api_pages.py

docs-settings: .venv/dev.stamp ## Write docs/settings.md and config/windsprite.toml anew
	$(BIN)/python docs/settings_pages.py

docs-protocol: .venv/dev.stamp ## Write docs/protocol.md anew
	$(BIN)/python docs/protocol_page.py

docs-command-line: .venv/dev.stamp ## Write docs/command-line.md anew
	$(BIN)/python docs/command_line_page.py

sync-client: .venv/dev.stamp ## Write the methods of windsprite.sync anew
	$(BIN)/python docs/sync_modules.py

clean: ## Remove the environment and all caches; data stays
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist

.venv/bin/python:
	@test -n '$(PYTHON)' || { echo 'No Python 3.11 or newer with venv was found (Debian: apt-get install python3-venv).' >&2; exit 1; }
	$(PYTHON) -m venv .venv

# Tests need all that a server needs, so their stamp serves for both.
.venv/dev.stamp: pyproject.toml | .venv/bin/python
	$(PIP) install --editable '.[dev]'
	@touch .venv/dev.stamp .venv/server.stamp

.venv/bench.stamp: pyproject.toml | .venv/bin/python
	$(PIP) install --editable '.[bench]'
	@touch $@

.venv/docs.stamp: pyproject.toml | .venv/bin/python
	$(PIP) install --editable '.[docs]'
	@touch $@

.venv/server.stamp: pyproject.toml | .venv/bin/python
	$(PIP) install --editable '.[server]'
	@touch $@
