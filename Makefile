# Two commands for a new user: `make demo` and `make test`. Each sets up .venv by itself.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEV := $(VENV)/.dev
OLDEST := .venv-oldest

.PHONY: demo test test-all test-oldest lint docs fuzz kills dist try-dist clean

demo: $(VENV)/.demo
	$(BIN)/fewset demo

PYTEST = $(BIN)/python -m pytest -n 2 --dist worksteal

test: $(DEV)
	$(PYTEST) -m "not slow and not browser"

# The rest too: browser, fuzzing, kills, several processes, long trainings.
test-all: test
	$(PYTEST) -m "slow or browser"

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The documentation, in docs/_build/html/index.html. A warning is an error.
docs: $(DEV)
	$(BIN)/python -m sphinx --quiet --fresh-env --nitpicky --fail-on-warning --keep-going docs docs/_build/html

# Damaged input to every reader and every command for MINUTES; and SIGKILL to commands, KILLS times.
# The tables of docs/reliability.md are made from the records.
MINUTES ?= 30
KILLS ?= 50
RECORDS := results/reliability
fuzz: $(DEV)
	$(BIN)/python -m tests.fuzz run --minutes $(MINUTES) --record $(RECORDS)/fuzz.json
	$(BIN)/python -m tests.fuzz page

kills: $(DEV)
	$(BIN)/python -m tests.fuzz kills --kills $(KILLS) --record $(RECORDS)/kills.json
	$(BIN)/python -m tests.fuzz page

# What needs no other room than these, with the lowest version of each requirement.
KERNEL := $(addprefix tests/,core io tasks models evaluation training data)
test-oldest: $(OLDEST)/.installed
	$(OLDEST)/bin/python -m pytest -n 2 --dist worksteal -m "not slow and not browser" $(KERNEL)

# The wheel and the source distribution, checked, in dist/.
dist: $(VENV)/.release
	rm -rf dist
	$(BIN)/python -m build --quiet
	$(BIN)/twine check --strict dist/*
	$(BIN)/python -m benchmarks contents dist

# The wheel in an empty environment: the README's commands, with time and size. TORCH is what pip installs first.
TORCH ?= torch
try-dist: dist
	$(BIN)/python -m benchmarks install dist/*.whl --torch '$(TORCH)' --record results/installation.json

# Again whenever the requirements change. The pip of Python 3.11 to 3.13 knows no dependency groups.
REQUIREMENTS := pyproject.toml constraints.txt constraints-oldest.txt
INSTALL = $(BIN)/python -m pip install --quiet --constraint constraints.txt

$(VENV)/.demo: $(REQUIREMENTS)
	$(PYTHON) -c 'import sys; sys.exit("fewset needs Python 3.11 or newer; set PYTHON=python3.11" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) pip
	$(INSTALL) --editable '.[report]'
	touch $@

$(DEV): $(VENV)/.demo
	$(INSTALL) --editable '.[all]' --group dev --group docs
	touch $@

$(VENV)/.release: $(VENV)/.demo
	$(INSTALL) --group release
	touch $@

$(OLDEST)/.installed: $(REQUIREMENTS)
	$(PYTHON) -m venv --clear $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet --constraint constraints.txt pip
	$(OLDEST)/bin/python -m pip install --quiet --constraint constraints-oldest.txt --editable '.[hdf5,report]' --group test
	touch $@

clean:
	rm -rf $(VENV) $(OLDEST) build dist docs/_build docs/reference .pytest_cache .mypy_cache .ruff_cache
