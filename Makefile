# Two commands for a new user: `make demo` and `make test`. Each sets up .venv by itself.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test hostile lint docs clean

demo: $(STAMP)
	$(BIN)/fewset demo

test: $(STAMP)
	$(BIN)/python -m pytest -n 2 --dist worksteal

# 10,000 mutated uploads to the server of the page, and their record.
hostile: $(STAMP)
	FEWSET_MUTATIONS=10000 FEWSET_MUTATIONS_RECORD=docs/serve/mutations.json $(BIN)/python -m pytest tests/classify/web/test_hostile.py

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The documentation, in docs/_build/html/index.html. A warning is an error.
docs: $(STAMP)
	$(BIN)/python -m sphinx --quiet --fresh-env --nitpicky --fail-on-warning --keep-going docs docs/_build/html

# Anew whenever what is to be installed changes.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("fewset needs Python 3.11 or newer; set PYTHON=python3.11" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,docs]'
	touch $(STAMP)

clean:
	rm -rf $(VENV) build dist docs/_build docs/reference .pytest_cache .mypy_cache .ruff_cache
