PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# What the installation is made from; the compiled room is rebuilt when its source changes.
TYPES := $(wildcard src/cordwood/*/*.pxd)
SOURCES := pyproject.toml setup.py constraints.txt Makefile $(TYPES) $(TYPES:.pxd=.py)

# One more than there are processors: many tests wait for sessions and restarts more than they compute.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(1 + len(getattr(os, "sched_getaffinity", lambda _: range(os.cpu_count()))(0)))')

.PHONY: setup test lint demo bench clean help

help: ## show this list
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

setup: $(STAMP) ## create the virtual environment and install everything

$(STAMP): $(SOURCES)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[spark]' --group dev
	# A node's start is mostly importing: bytecode that is there saves a third of it.
	$(BIN)/python -m compileall -q src
	touch $@

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --verbose

test: lint ## set up, lint, type-check, check the import rules, run all tests
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(PYTEST_ARGS)

demo: setup ## 200,000 orders through a node and a pipeline on Spark that is killed in the middle: each is counted once
	rm -rf $(VENV)/demo
	$(BIN)/python examples/demo.py $(VENV)/demo

bench: setup ## run every benchmark and print the figures
	$(BIN)/python -m bench

clean: ## remove everything that was built
	rm -rf $(VENV) build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	rm -f src/cordwood/*/*.so src/cordwood/*/*.c
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
