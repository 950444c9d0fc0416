# Two commands need nothing else: `make demo` and `make test`. Each creates .venv and installs what it needs, once.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-slow lint types docs links clean

demo: .venv/installed
	$(BIN)/domainwise demo

test: lint types
	$(BIN)/python -m pytest -n 2 -m "not slow"

test-slow: .venv/with-frameworks
	$(BIN)/python -m pytest -m slow --timeout 3600

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/installed
	$(BIN)/mypy

.venv/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "domainwise needs Python 3.11 or newer, and %s is %s: make PYTHON=python3.12 ..." % (sys.executable, sys.version.split()[0]))'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet -c constraints.txt -e '.[dev]'
	@touch $@

# What other people's training loops are written with, for the tests that run such loops.
.venv/with-frameworks: .venv/installed
	$(BIN)/pip install --quiet -c constraints.txt accelerate lightning-fabric tensorboard
	@touch $@

# Every generated page, table and picture, from the code and the committed records; then the site, with its examples run.
docs: .venv/installed
	$(BIN)/python docs/make_all.py
	$(BIN)/python -m sphinx -q -W --keep-going docs docs/_build/html
	@echo "docs/_build/html/index.html"

# Links that lead out of the site; needs a network.
links: .venv/installed
	$(BIN)/python -m sphinx -q -b linkcheck -D plot_gallery=0 docs docs/_build/links

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache dist build domainwise-demo docs/_build docs/gallery docs/reference docs/project
