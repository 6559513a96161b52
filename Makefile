# Every target except proofs and clean builds the environment .venv first. The stamp is written last, so that a set-up
# that was killed is done again.
PYTHON ?= python3
STAMP := .venv/.complete

.PHONY: verify verify-thorough test test-slow test-all docs docs-execute check proofs artifact format clean

verify: $(STAMP)
	@.venv/bin/ntkfl verify

# The same with all cases of every statement, also where a sixteenth of the cases decides the outcome.
verify-thorough: $(STAMP)
	@.venv/bin/ntkfl verify --thorough

# Bytecode is kept, though the shell may forbid this. Otherwise each of the some hundred processes that the tests start
# would compile the packages again. Files go to the workers in the order of tests/conftest.py, the longest first: in the
# plugin's own order a test of 212 s began when all others were done. tests/conftest.py gives each worker one thread.
test test-slow test-all: export PYTHONDONTWRITEBYTECODE :=
# What Numba compiles is kept in the environment, which saves some six seconds in each process that runs the simulators.
verify verify-thorough test test-slow test-all: export NUMBA_CACHE_DIR := $(CURDIR)/.venv/machine-code
# What XLA compiles is kept too, so that a second run of make test is faster; .ci/run runs the tests only once.
test: export JAX_COMPILATION_CACHE_DIR := $(CURDIR)/.venv/compiled
test: export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS := 0
# On two cores a third worker computes while others wait for the processes that tests start and stop.
PYTEST := .venv/bin/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder
test: $(STAMP)
	$(PYTEST) -m "not slow"

test-slow: $(STAMP)
	$(PYTEST) -m slow

# Quick and slow tests at once, as in .ci/run: tests are collected once, and quick files at the end let no worker wait.
test-all: $(STAMP)
	$(PYTEST)

# The pages, read at docs/_build/html/index.html; docs-execute runs the code on them again (PAGES=name for some).
docs: $(STAMP)
	.venv/bin/python -m sphinx -W --keep-going --quiet docs docs/_build/html

docs-execute: $(STAMP)
	.venv/bin/python docs/execute.py $(PAGES)

check: $(STAMP)
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy
	.venv/bin/lint-imports

# Coq checks the proofs; this needs no .venv. If Coq is missing, the command says what to install.
proofs:
	@$(PYTHON) proofs/check.py

# An anonymous archive of the last commit with a table of claims, the commands that show them, and what they print.
artifact: $(STAMP)
	@mkdir -p dist
	@.venv/bin/python docs/artifact/build.py dist/ntkfl-artifact.tar.gz

format: $(STAMP)
	.venv/bin/ruff format .
	.venv/bin/ruff check --fix .

$(STAMP): pyproject.toml constraints.txt requirements-neural-tangents.txt
	$(PYTHON) -c "import sys; sys.exit(0 if sys.version_info >= (3, 11) else 'Python 3.11 or later is needed; set PYTHON=...')"
	$(PYTHON) -m venv --clear .venv
	.venv/bin/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	.venv/bin/python -m pip install --quiet --no-deps --requirement requirements-neural-tangents.txt
	@touch $@

clean:
	rm -rf .venv docs/_build
