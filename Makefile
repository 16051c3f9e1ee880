# Two commands on a fresh machine with python3 (3.11 or later), git and make:
#   make run     compare policies on the paper's main setting
#   make test    everything that CI runs
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
DEV_STAMP := .venv/.installed-dev

.PHONY: run test check format lint types imports tests bench lock clean

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
