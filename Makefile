# Every target starts from nothing: it makes .venv and installs what it needs, once for every
# change of pyproject.toml. Choose another interpreter with `make PYTHON=python3.12 …`. Those who
# time or use calitree (`warmed`) get the local engine compiled too, which takes some ten seconds.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest
PARALLEL := -n auto --dist loadgroup
ARGS ?=

user_extras := spark,pandas,polars,urls,verify,sql,demo
demo_extras := spark,demo
dev_extras := spark,demo,dev
bench_extras := spark,bench
warmed := user bench

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install demo test test-all lint types bench docs warm clean

help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(VENV)/.installed-user ## Install calitree with all that a user may need into .venv

demo: $(VENV)/.installed-demo ## Show calitree at work on a year of flights
	$(BIN)/calitree demo $(ARGS)

test: $(VENV)/.installed-dev ## Run the tests but the slow ones (more options: ARGS="-k name")
	HYPOTHESIS_PROFILE=default $(PYTEST) $(PARALLEL) -m "not slow" $(ARGS)

test-all: $(VENV)/.installed-dev ## Run all tests, with ten times as many random examples
	HYPOTHESIS_PROFILE=thorough $(PYTEST) $(PARALLEL) --timeout 14400 $(ARGS)

lint: $(VENV)/.installed-dev ## Check style, format and who imports whom
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(VENV)/.installed-dev ## Check types
	$(BIN)/mypy

bench: $(VENV)/.installed-bench ## Measure (which benchmark: ARGS="star …")
	$(BIN)/python -m benchmarks $(or $(ARGS),star)

docs: $(VENV)/.installed-dev ## Run the examples in the documentation and follow its links
	$(PYTEST) tests/test_readme.py tests/test_architecture.py $(ARGS)

warm: $(VENV)/.installed-dev ## Let Spark start in half the time (200 MB of cache, Java 25)
	$(BIN)/calitree warm-up --spark

clean: ## Remove .venv and all that can be made again
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis \
		spark-warehouse metastore_db derby.log artifacts
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.installed-%: pyproject.toml | $(BIN)/python
	@echo "Installing calitree[$($*_extras)] into $(VENV); Spark takes a few minutes the first time"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$($*_extras)]'
	$(if $(filter $*,$(warmed)),$(BIN)/calitree warm-up)
	@touch $@

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "calitree needs Python 3.11 or newer, and $(PYTHON) is" \
			"$$($(PYTHON) --version 2>/dev/null || echo not there)." \
			"Name a newer one: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
