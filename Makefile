# make run and make test are all that a stranger needs; make help lists the rest.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.set-up
RUN_FLAGS ?=
FUSEKI_FLAGS ?=
TEST_FLAGS ?= -n 2 --dist loadgroup

.PHONY: help run test test-fast setup check docs bench soak hbase fuseki clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/\t/' | expand -t 10

run: $(STAMP)  ## set up all that is needed, Java too, then serve on http://127.0.0.1:8000 (RUN_FLAGS="--engine inline")
	$(BIN)/rillet serve $(RUN_FLAGS)

test: $(STAMP)  ## set up all that is needed, then run the tests (those of HBase, Fuseki and Kafka also need JDK 17 and Maven)
	$(BIN)/python -m pytest $(TEST_FLAGS)

test-fast: $(STAMP)  ## the tests of language, plans, operators and layouts: a minute, no processes
	$(BIN)/python -m pytest $(TEST_FLAGS) tests/test_names.py tests/docs/test_links.py tests/law tests/hbase_store/layout \
	  tests/hbase_store/sorted tests/stream_ext/language tests/stream_ext/plan tests/stream_ext/network tests/stream_ext/rows

setup: $(STAMP)  ## the virtual environment, the packages, the editor of the console, compiled kernels, Spark's classes

$(STAMP): pyproject.toml $(wildcard endpoint/console/web/*.js*)
	$(PYTHON) -c 'import sys; sys.exit("Rillet needs Python 3.11 or later" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	@echo "setting up $(VENV): packages first, then kernels and the classes of Spark are prepared; two or three minutes together"
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable . --group dev
	$(BIN)/python -m endpoint.console.web
	$(BIN)/rillet warm
	@touch $@

check: $(STAMP)  ## everything that continuous integration runs: style, types, layers, tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest $(TEST_FLAGS)

docs: $(STAMP)  ## the documentation as a site, in site/; it needs no network
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "open site/index.html, or serve it: $(BIN)/python -m http.server --directory site 8080"

bench: $(STAMP)  ## the benchmarks, quick; raw figures go to docs/explanation/figures
	for name in line store language oneshot http streams attacks; do \
	  $(BIN)/rillet bench $$name --quick --json docs/explanation/figures/$$name.json || exit 1; \
	done

soak: $(STAMP)  ## the long, seeded campaigns that continuous integration runs a short version of
	$(BIN)/python -m pip install --quiet --group soak
	$(BIN)/python -m pytest -m soak -o faulthandler_timeout=7500 $(TEST_FLAGS)

hbase: $(STAMP)  ## a real HBase on this machine, for --store hbase://127.0.0.1:9090/rillet (needs JDK 17 and Maven)
	$(BIN)/rillet hbase up

fuseki: $(STAMP)  ## a real Apache Jena Fuseki on this machine, http://127.0.0.1:3030/ds/sparql, in memory (needs JDK 17 and Maven)
	$(BIN)/python -m tests.parts.fuseki.server run --home rillet-data/fuseki --port 3030 $(FUSEKI_FLAGS)

clean:  ## remove the virtual environment and caches (data stays)
	rm -rf $(VENV) site endpoint/console/web/node_modules endpoint/console/static/libraries .mypy_cache .ruff_cache .pytest_cache .hypothesis dist
