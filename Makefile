# `make run` and `make test` set up all they need (see scripts/setup.sh).
SHELL := /bin/bash
BIN := .venv/bin
# Most tests of processes wait for something, so there is one more than processors. A file stays
# in one process, and they begin in the order that tests/conftest.py gives them.
SIDE_BY_SIDE := -n $(shell echo $$((1 + $$(nproc)))) --dist loadfile --no-loadscope-reorder
CODE := scorer exporters dashboards tests benchmarks

.DEFAULT_GOAL := help
.PHONY: help run test check lint format bench-pick bench-proxy bench-outage bench-scrape bench-sim bench-sim-full dashboards dashboards-render replay clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 20

run: ## a pool of emulated engines, a load and the daemon, with no configuration
	@scripts/setup.sh run
	@exec $(BIN)/scorer demo

test: ## install what is needed, then lint and run every test, with branch coverage
	@scripts/setup.sh test
	@$(MAKE) --no-print-directory lint
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) -m "not alone" --cov --cov-report= --cov-fail-under=0
	$(BIN)/python -m pytest -m alone --cov --cov-append --cov-report=term --durations=5

check: ## format, lint, types, import contracts and the fast tests
	@scripts/setup.sh test
	@$(MAKE) --no-print-directory lint
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) -m "not system and not slow"

lint:
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

format: ## format and fix what can be fixed
	@scripts/setup.sh test
	$(BIN)/ruff format $(CODE)
	$(BIN)/ruff check --fix $(CODE)

bench-pick: ## picks a second, latency and CPU per pick: benchmarks/results/pick.md
	@scripts/setup.sh bench
	$(BIN)/python -m benchmarks.pick.run
	$(BIN)/python -m benchmarks.pick.shares

bench-proxy: ## what a pick costs in nginx, HAProxy and Envoy, beside two routers: benchmarks/results/proxy.md
	@scripts/setup.sh bench-proxy
	$(BIN)/python -m benchmarks.proxy.run

bench-outage: ## the daemon killed under load, behind nginx, HAProxy and Envoy: benchmarks/results/outage.md
	@scripts/setup.sh bench-outage
	$(BIN)/python -m benchmarks.proxy.outage

bench-scrape: ## cost of a scrape by engine, and of a daemon with 100, 500, 1,000 targets: benchmarks/results/scrape.md
	@scripts/setup.sh run
	$(BIN)/python -m benchmarks.scrape.run

# Folder with the public traces that docs/benchmarks.md names; without it requests are generated.
TRACES ?=
# Folder to keep finished simulations in: a run that was stopped goes on from there. Empty it when
# the code changes. JOBS is how many processes simulate, one for each core if empty.
KEEP ?=
JOBS ?=
SIMULATE = $(BIN)/python -m benchmarks.simulator.run $(if $(TRACES),--traces $(TRACES)) \
	$(if $(KEEP),--keep $(KEEP)) $(if $(JOBS),--jobs $(JOBS))

bench-sim: ## the scorer and other policies in simulation, S1–S5, in minutes: benchmarks/results/simulator.md
	@scripts/setup.sh plot
	$(SIMULATE)

bench-sim-full: ## … all scenarios and ablations on held-out seeds, about an hour: simulator-full.md
	@scripts/setup.sh plot
	$(SIMULATE) --full

dashboards: ## write dashboards/*.json
	@scripts/setup.sh run
	$(BIN)/python dashboards/generate.py

dashboards-render: ## check the dashboards by Grafana's types and draw them: docs/images/*.png
	@scripts/setup.sh render
	cd dashboards/render && node types.mjs && node_modules/.bin/vite build
	$(BIN)/python -m tests.dashboards.render

replay: ## recorded engines through the scoring code: benchmarks/results/replay-*.png
	@scripts/setup.sh plot
	$(BIN)/python -m benchmarks.replay.replay

clean: ## remove the virtual environment and all caches
	rm -rf .venv .venv-routers build dist *.egg-info .coverage .coverage.* .hypothesis .import_linter_cache
	rm -rf .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
