# Everything a newcomer needs: `make demo` and `make test` work from a clean checkout.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
TEST_STAMP := $(VENV)/.installed-test
COMPILED := $(VENV)/.compiled
MCP_SERVERS := $(VENV)/.installed-mcp-servers

# Tests, and the hundreds of programs they start, find their modules compiled.
export PYTHONDONTWRITEBYTECODE :=

# On two processors: many tests wait most of their time, for a person at a terminal or for a command.
IN_PARALLEL := -n 6 --dist worksteal

.PHONY: demo test test-bare test-long lint types bench bench-peers pictures standalone mcp-servers clean

demo: $(STAMP)
	$(BIN)/agent demo

test: $(COMPILED)
	$(BIN)/python -m pytest $(IN_PARALLEL)

# What front ends and commands do, on a machine that offers nothing: no home, no locale, a terminal that can do
# nothing, no standard input, output to a file.
BARE := tests/config tests/bootstrap/test_options.py tests/ui/plain/test_repl.py tests/ui/headless/test_runner.py \
	tests/ui/commands/test_registry.py tests/e2e/test_run.py tests/e2e/test_surroundings.py

test-bare: $(TEST_STAMP)
	env -i PATH="$$PATH" LC_ALL=C TERM=dumb $(BIN)/python -m pytest -n 2 --dist worksteal $(BARE) \
		<&- >$(VENV)/bare.log 2>&1 || { cat $(VENV)/bare.log; exit 1; }
	@tail -n 1 $(VENV)/bare.log

test-long: $(COMPILED)
	AGENT_FUZZ=1000 $(BIN)/python -m pytest $(IN_PARALLEL) -m "long or not long"

lint: $(TEST_STAMP)
	$(BIN)/ruff check agent_cli tests benchmarks scripts docs
	$(BIN)/ruff format --check agent_cli tests benchmarks scripts docs

# The second time as on macOS: what only Linux has must be used only there.
types: $(TEST_STAMP)
	$(BIN)/mypy
	$(BIN)/mypy --platform darwin --no-warn-unused-ignores --cache-dir .mypy_cache/darwin

bench: $(TEST_STAMP)
	$(BIN)/python -m compileall -q agent_cli $(VENV)/lib || true
	$(BIN)/python -m benchmarks

# Beside a bare loop in Python and whatever other agents are installed; writes the figures of the README.
bench-peers: $(TEST_STAMP)
	$(BIN)/python -m compileall -q agent_cli $(VENV)/lib || true
	$(BIN)/python -m benchmarks.peers --readme

pictures: $(TEST_STAMP)
	PYTHONPATH=. $(BIN)/python docs/make_pictures.py

# One archive with a Python of its own, for containers that have nothing.
standalone: $(TEST_STAMP)
	$(BIN)/python scripts/make_standalone.py

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(STAMP): $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $(STAMP)

$(TEST_STAMP): $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	touch $(STAMP) $(TEST_STAMP)

# MCP servers that the tests also speak to: version 1 of the Python SDK, which cannot live beside version 2, and the
# reference server, where there is npm. Tests that miss one of them are skipped.
mcp-servers: $(MCP_SERVERS)

$(MCP_SERVERS):
	mkdir -p $(VENV)
	$(PYTHON) -m venv $(VENV)/mcp1
	$(VENV)/mcp1/bin/python -m pip install --quiet --disable-pip-version-check 'mcp>=1.30,<2' || rm -rf $(VENV)/mcp1
	npm install --silent --no-audit --no-fund --fetch-retries 1 --fetch-timeout 20000 --prefix $(VENV)/mcp-node @modelcontextprotocol/server-everything \
		>$(VENV)/mcp-node.log 2>&1 || rm -rf $(VENV)/mcp-node
	touch $@

# Every worker collects all tests at the same time: each would compile every file anew.
$(COMPILED): $(TEST_STAMP) $(shell find agent_cli tests -name '*.py')
	@ls -d tests/*/ | xargs -P 2 -n 8 $(BIN)/python -m pytest --collect-only -qq >$(VENV)/compiled.log 2>&1 || true
	@touch $@

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
