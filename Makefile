# Two commands for a new user: `make demo` and `make test`. Each sets up .venv by itself.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test test-all lint docs fuzz kills clean

demo: $(STAMP)
	$(BIN)/fewset demo

PYTEST = $(BIN)/python -m pytest -n 2 --dist worksteal

test: $(STAMP)
	$(PYTEST) -m "not slow and not browser"

# The rest too: browser, fuzzing, kills, several processes, long trainings.
test-all: test
	$(PYTEST) -m "slow or browser"

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The documentation, in docs/_build/html/index.html. A warning is an error.
docs: $(STAMP)
	$(BIN)/python -m sphinx --quiet --fresh-env --nitpicky --fail-on-warning --keep-going docs docs/_build/html

# Damaged input to every reader and every command for MINUTES; and SIGKILL to commands, KILLS times.
# The tables of docs/reliability.md are made from the records.
MINUTES ?= 30
KILLS ?= 50
RECORDS := results/reliability
fuzz: $(STAMP)
	$(BIN)/python -m tests.fuzz run --minutes $(MINUTES) --record $(RECORDS)/fuzz.json
	$(BIN)/python -m tests.fuzz page

kills: $(STAMP)
	$(BIN)/python -m tests.fuzz kills --kills $(KILLS) --record $(RECORDS)/kills.json
	$(BIN)/python -m tests.fuzz page

# Again whenever the requirements change.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("fewset needs Python 3.11 or newer; set PYTHON=python3.11" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,docs]'
	touch $(STAMP)

clean:
	rm -rf $(VENV) build dist docs/_build docs/reference .pytest_cache .mypy_cache .ruff_cache
