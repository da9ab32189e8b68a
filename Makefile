# `make demo` shows gatewatch at work, `make test` checks it. Both set up all that they need.
# Needs Python 3.11 or newer, git and make.

.DEFAULT_GOAL := help
.PHONY: help demo test lint bench lock clean

PYTHON ?= $(shell for each in python3 python3.13 python3.12 python3.11; do \
	$$each -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$each && break; done)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
PIP := $(BIN)/python -m pip install --quiet --no-input --disable-pip-version-check --root-user-action=ignore
WORKERS ?= 2
# Tests of browsers, real programs and deadlines want a core for themselves.
ALONE := tests/dashboards tests/real tests/detectors/test_delivery.py
SECONDS_ = $(if $(SECONDS),--seconds $(SECONDS))

help:
	@echo 'make demo [SECONDS=90]  a simulated fleet of agents, its alerts and the dashboard'
	@echo 'make test               formatting, lint, types, import contracts, tests'
	@echo 'make lint               the same without the tests'
	@echo 'make bench              how fast it is, on this machine'
	@echo 'make lock               write requirements.lock anew from pyproject.toml'
	@echo 'make clean              remove what the other targets made'

demo: $(READY)
	$(BIN)/gatewatch demo $(SECONDS_)

# The tests scrape with a real Prometheus and look at pages with a real browser.
test: lint
	@.ci/debian prometheus=prometheus promtool=prometheus chromium=chromium \
		prometheus-alertmanager=prometheus-alertmanager amtool=prometheus-alertmanager \
		prometheus-pushgateway=prometheus-pushgateway
	$(BIN)/python -m pytest -n $(WORKERS) $(addprefix --ignore=,$(ALONE))
	$(BIN)/python -m pytest $(ALONE)

lint: $(READY)
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(READY)
	$(BIN)/python -m tests.bench

# The stamp is newer than both files, so a changed pin or dependency installs again.
$(READY): requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo 'gatewatch needs Python 3.11 or newer: none was found.' >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || .ci/debian /=python3-venv
	$(PYTHON) -m venv $(VENV)
	$(PIP) -r requirements.lock
	$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

lock:
	rm -rf build/lock && $(PYTHON) -m venv build/lock
	build/lock/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	build/lock/bin/python -m pip install --quiet . --group dev hatchling
	{ echo '# Every package that runs, builds and checks gatewatch, pinned. Written by `make lock`.'; \
	build/lock/bin/python -m pip freeze --exclude gatewatch --exclude pip; } > requirements.lock
	rm -rf build/lock

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
