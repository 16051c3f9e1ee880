# Two commands on a fresh machine with python3 (3.11 or later), git and make:
#   make run     compare policies on the paper's main setting
#   make test    everything that CI runs
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
DEV_STAMP := .venv/.installed-dev

.PHONY: run test check format lint types imports tests bench report lock clean

run: $(STAMP)
	$(BIN)/headway compare --out out

test: check tests

check: format lint types imports

format: $(DEV_STAMP)
	$(BIN)/ruff format --check src tests bench

lint: $(DEV_STAMP)
	$(BIN)/ruff check src tests bench

types: $(DEV_STAMP)
	$(BIN)/mypy

imports: $(DEV_STAMP)
	$(BIN)/lint-imports

tests: $(DEV_STAMP)
	$(BIN)/python -m pytest

bench: $(DEV_STAMP)
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python bench/run.py

# A Debian python3 comes without venv; its package is small.
.venv/bin/python:
	$(PYTHON) -m venv .venv || (rm -rf .venv; apt-get update; apt-get install -y python3-venv; \
		$(PYTHON) -m venv .venv)

$(STAMP): requirements.lock pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	touch $@

$(DEV_STAMP): requirements-dev.lock $(STAMP)
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements-dev.lock
	touch $@

# Versions and hashes only: no index address.
lock:
	$(PYTHON) -m venv .venv-lock && .venv-lock/bin/pip install --quiet pip-tools
	.venv-lock/bin/pip-compile --quiet --generate-hashes --strip-extras --allow-unsafe \
		--no-emit-index-url --no-emit-trusted-host --no-emit-find-links --no-header \
		--no-annotate --all-build-deps --extra results --extra data -o requirements.lock \
		pyproject.toml
	.venv-lock/bin/pip-compile --quiet --generate-hashes --strip-extras --allow-unsafe \
		--no-emit-index-url --no-emit-trusted-host --no-emit-find-links --no-header \
		--no-annotate --extra results --extra data --extra dev -o requirements-dev.lock \
		pyproject.toml
	rm -rf .venv-lock

clean:
	rm -rf .venv out .mypy_cache .ruff_cache .pytest_cache .hypothesis

# The reproduction at the size that is published: about ten minutes of CPU, and as much again for
# the real data (HEADWAY_DATA_DIR names their folder; without it they are downloaded).
SYNTHETIC := baselines slack-cqb-eps slack-cqb-opt servers-cqb-eps servers-cqb-opt \
	dimension-cqb-eps dimension-cqb-opt
report: $(STAMP)
	$(BIN)/headway reproduce $(SYNTHETIC) --replicas 200 --out out/report
	$(BIN)/headway reproduce mnist heart coupon --replicas 20 --out out/report-data
	cp out/report/report.html docs/reproduction/report.html
	cp out/report/claims.json docs/reproduction/claims.json
	cp out/report/baselines.png docs/reproduction/baselines.png
	cp out/report-data/report.html docs/reproduction/data.html
	cp out/report-data/claims.json docs/reproduction/data-claims.json
	$(BIN)/python bench/publish.py
