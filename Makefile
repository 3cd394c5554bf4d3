PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Inputs of the installation; the compiled modules are rebuilt when their sources change.
TYPES := $(wildcard src/cordwood/*/*.pxd src/cordwood/*/*/*.pxd)
SOURCES := pyproject.toml setup.py constraints.txt Makefile $(TYPES) $(TYPES:.pxd=.py)

# One more than there are cores: many tests mostly wait for sessions and restarts.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(1 + len(getattr(os, "sched_getaffinity", lambda _: range(os.cpu_count()))(0)))')

# Of the tests of clients, those that also run against three nodes with `make test`; `make clients-three` runs all.
THREE_NODES := tests/foreign_clients/test_cluster.py tests/foreign_clients/test_topics.py \
	tests/foreign_clients/test_idempotence.py tests/foreign_clients/test_transactions.py \
	tests/client/admin/test_admin.py tests/client/producer/test_node.py \
	tests/client/consumer/test_reading.py

.PHONY: setup test lint clients-three failovers chaos fuzz-registry demo interop bench docs wheel clean help

help: ## show this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

setup: $(STAMP) ## create the virtual environment and install everything

$(STAMP): $(SOURCES)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[spark,registry]' --group dev
	# A node's start is mostly importing: precompiled bytecode saves a third of it.
	$(BIN)/python -m compileall -q src
	touch $@

lint: setup ## lint, type-check, check the import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --verbose

test: lint ## set up, lint, type-check, check the import rules, run all tests
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(PYTEST_ARGS)
	$(if $(PYTEST_ARGS),,CORDWOOD_TEST_NODES=3 $(BIN)/python -m pytest -n 2 --dist loadfile $(THREE_NODES))

clients-three: setup ## run the tests of clients against three nodes, with three replicas of everything
	CORDWOOD_TEST_NODES=3 $(BIN)/python -m pytest -n 2 --dist loadfile $(or $(PYTEST_ARGS),tests/foreign_clients tests/client)

failovers: setup ## kill coordinators and leaders of three nodes again and again, under all client libraries and Spark
	CORDWOOD_TEST_FAILOVERS=5 SPARK_BROKER_KILL_ROUNDS=2 $(BIN)/python -m pytest \
		tests/foreign_clients/test_failover.py tests/spark/sink/test_broker_kills.py

chaos: setup ## real nodes under random faults and load, every history judged; SEED=… MINUTES=… KAFKA=… (a directory with its jars)
	PYTHONPATH=tools $(BIN)/python -m chaos $(if $(SEED),--seed $(SEED)) $(if $(MINUTES),--minutes $(MINUTES)) $(if $(KAFKA),--kafka $(KAFKA)) $(CHAOS_ARGS)

interop: setup ## clusters of Apache Kafka's and Cordwood's nodes; fetches Kafka with Maven unless KAFKA_HOME is set
	test -n "$$KAFKA_HOME" || $(BIN)/python tools/fetch_kafka.py $(VENV)/kafka
	KAFKA_HOME=$${KAFKA_HOME:-$(VENV)/kafka} $(BIN)/python -m pytest tests/interop $(PYTEST_ARGS)

demo: setup ## 200,000 Avro orders through three brokers and a pipeline on Spark; both are killed, and the schema evolves, in the middle: each is counted once
	rm -rf $(VENV)/demo
	$(BIN)/python examples/demo.py $(VENV)/demo

fuzz-registry: setup ## send 100,000 requests that nobody in their right mind would send to a schema registry
	CORDWOOD_FUZZ_REQUESTS=100000 $(BIN)/python -m pytest tests/registry/test_fuzz.py -s -o timeout=0

bench: setup ## run every benchmark, print the figures and append them to bench/history
	PYTHONPATH=tools $(BIN)/python -m bench

docs: setup ## build the documentation as a site in build/site
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --group docs
	$(BIN)/python tools/assemble_docs.py build/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

wheel: setup ## build a compiled and a pure wheel in dist/, and test each in an empty virtual environment
	$(BIN)/python tools/build_wheels.py

clean: ## remove all build output
	rm -rf $(VENV) build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	rm -f src/cordwood/*/*.so src/cordwood/*/*/*.so src/cordwood/*/*.c src/cordwood/*/*/*.c
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
