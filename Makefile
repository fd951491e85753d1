# Everything a newcomer needs: `make demo` and `make test` work from a clean checkout.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
TEST_STAMP := $(VENV)/.installed-test

.PHONY: demo test test-long lint types bench picture clean

demo: $(STAMP)
	$(BIN)/agent demo

test: $(TEST_STAMP)
	$(BIN)/python -m pytest -n 2 --dist worksteal

test-long: $(TEST_STAMP)
	AGENT_FUZZ=1000 $(BIN)/python -m pytest -n 2 --dist worksteal -m "long or not long"

lint: $(TEST_STAMP)
	$(BIN)/ruff check agent_cli tests benchmarks scripts docs
	$(BIN)/ruff format --check agent_cli tests benchmarks scripts docs

types: $(TEST_STAMP)
	$(BIN)/mypy

bench: $(TEST_STAMP)
	$(BIN)/python -m compileall -q agent_cli $(VENV)/lib || true
	$(BIN)/python -m benchmarks

picture: $(TEST_STAMP)
	PYTHONPATH=. $(BIN)/python docs/make_picture.py

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(STAMP): $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $(STAMP)

$(TEST_STAMP): $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	touch $(STAMP) $(TEST_STAMP)

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
