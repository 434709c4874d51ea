# Everything runs in .venv, which this file makes from the pinned requirements.
PYTHON ?= python3
BIN := .venv/bin
JOBS ?= 2

.PHONY: quickstart demo test test-browser test-engines notebooks site dist open-bandit bench chaos load sidecar clean

quickstart: .venv/ready ## coordinator, three agents, sidecar and board on this machine
	$(BIN)/fedbandit quickstart

demo: .venv/ready ## a short reproduction of the paper, into demo/
	$(BIN)/fedbandit reproduce --quick --jobs $(JOBS) --out demo

test: .venv/ready ## every check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -n $(JOBS)
	FEDBANDIT_COMPILE=0 $(BIN)/pytest -n $(JOBS) tests/core tests/test_simulation.py

.venv/ready: requirements-dev.txt pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "fedbandit needs Python >= 3.11, this is " + sys.version.split()[0])'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements-dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable .
	touch $@

.venv/more: .venv/ready requirements-more.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements-more.txt
	touch $@

test-browser: .venv/more ## the pages in a real browser; needs Chromium
	$(BIN)/pytest -m browser

.venv-engines/ready: requirements-engines.txt pyproject.toml
	$(PYTHON) -m venv .venv-engines
	.venv-engines/bin/python -m pip install --quiet --disable-pip-version-check --requirement requirements-engines.txt
	.venv-engines/bin/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable .
	touch $@

test-engines: .venv-engines/ready ## on the engines of others, in an environment of its own; SHORT=1 for what CI runs
	.venv-engines/bin/python -m pytest -p no:cacheprovider -m engines $(if $(SHORT),-k short) tests/engines

notebooks: .venv/more ## the notebooks in examples/notebooks with their output, into notebooks/; SHORT=1: shorter
	$(if $(SHORT),FEDBANDIT_SHORT=1) OPENBLAS_NUM_THREADS=1 $(BIN)/python tools/notebooks.py notebooks

site: .venv/more ## the guide as pages, into site/; every block of code in it is run
	$(BIN)/pytest -m docs
	$(BIN)/zensical build --strict --config-file mkdocs.yml

dist: .venv/more ## wheel and source archive, into dist/; the wheel is tried in an empty environment
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist .
	$(BIN)/twine check --strict dist/*
	$(BIN)/python tools/try_wheel.py dist/*.whl

chaos: .venv/ready ## the fault and fuzz suites in full, about half an hour
	$(BIN)/pytest -n $(JOBS) -m chaos
	$(BIN)/python tools/fuzz_wire.py -runs=1000000 -max_len=600
	$(BIN)/python tools/fuzz_endpoints.py -runs=200000 -max_len=700

load: .venv/ready ## a coordinator against an echo, 10,000 agents; MINUTES=30 soaks it afterwards
	$(BIN)/python -m benchmarks.load --minutes $(or $(MINUTES),0)

sidecar: .venv/ready ## a sidecar's latency against bare endpoints that parse the same JSON
	$(BIN)/python -m benchmarks.sidecar

open-bandit: ## our estimates beside obp's on the Open Bandit Dataset's sample, in .venv-obp
	$(PYTHON) -m venv .venv-obp
	.venv-obp/bin/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	.venv-obp/bin/python -m pip install --quiet --disable-pip-version-check --no-deps obp==0.4.1
	.venv-obp/bin/python -m pip install --quiet --disable-pip-version-check \
	  numpy msgspec pandas scikit-learn scipy pyyaml tqdm matplotlib seaborn mypy-extensions pyieoe
	PYTHONPATH=src .venv-obp/bin/python -W ignore benchmarks/open_bandit.py

bench: .venv/ready ## performance as ratios, into benchmarks/results.md
	$(BIN)/python -m benchmarks

clean: ## remove the environment and what the demo wrote
	rm -rf .venv .venv-engines .venv-obp demo dist notebooks quickstart site .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
