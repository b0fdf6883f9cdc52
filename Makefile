# make demo            set up, run the main study, draw its pictures
# make test            set up, linters, type checker, fast tests
# make test-all        the same, and the long tests
# make test-part       the long tests of a part: PART=2/6 is the second of six
# make installed-test  tests of files, commands and processes again, on an installed wheel instead of this tree
# make installed-docs  README.md and the tutorials again, in an environment with the wheel and no extra
# make docs            set up, build the site of the documentation, check it
# make check           linters and type checker only
# make clean           remove what these made, except results/
#
# PYTHON=/path/to/python chooses the interpreter, WORKERS=4 the number of test processes.

PYTHON ?= $(shell for python in python3.11 python3 python; do \
	"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$python" && break; done)
WORKERS ?= auto
DEMO ?= results
PART ?= 1/6
comma := ,

BIN := .venv/bin
# Half the time of an installation goes into byte-compiling all of the dependencies; Python does it for the few
# modules that are used, when they are used first, if it may write the result.
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check --no-compile
unexport PYTHONDONTWRITEBYTECODE

# Tests of what may differ where the package lies elsewhere: its files, data and command, processes and caches.
INSTALLED := $(patsubst %,tests/test_%.py,package cli problems kernels codegen from_file results \
	studies plotting pendulum_study checkpoint surroundings) \
	$(patsubst %,benchmarks/tests/test_%.py,peers scaling modelica_models)

.PHONY: demo docs test fast-tests test-all test-part installed-test installed-docs check clean
.DELETE_ON_ERROR:

# $(call make-venv,directory)
define make-venv
	@test -n "$(PYTHON)" || { echo "no Python 3.11 or later found; name one: make PYTHON=/path/to/python" >&2; exit 1; }
	"$(PYTHON)" -m venv $(1) || { echo "Python's venv module is incomplete; \
	install it (package python3.11-venv on Debian and Ubuntu)" >&2; exit 1; }
endef

.venv/stamp: pyproject.toml
	$(call make-venv,.venv)
	$(BIN)/python $(PIP_INSTALL) --editable ".[mpi,test,bench,klu,certify,fmu]"
	@touch $@

.venv/stamp-docs: .venv/stamp
	$(BIN)/python $(PIP_INSTALL) --editable ".[docs]"
	@touch $@

# Empty at first: the wheel must bring all it needs.
.venv-installed/stamp .venv-plain/stamp: pyproject.toml
	$(call make-venv,$(@D))
	@touch $@

demo: .venv/stamp
	@mkdir -p "$(DEMO)"
	$(BIN)/dae-sdc convergence simple --sweeper fully-implicit --nodes 3 --qdelta LU --out "$(DEMO)/conv.npy"
	$(BIN)/dae-sdc plot loglog "$(DEMO)/conv.npy" -o "$(DEMO)/conv.png"
	$(BIN)/dae-sdc iterations simple --sweeper fully-implicit --nodes 3 --qdelta LU --out "$(DEMO)/iter.npy"
	$(BIN)/dae-sdc plot semilogy "$(DEMO)/iter.npy" -o "$(DEMO)/iter.png"
	@echo "The pictures are $(DEMO)/conv.png (error against step size) and $(DEMO)/iter.png (error against sweeps)."

# Warnings are errors, links between pages included; nothing is fetched. All pages are read anew (-E), as Sphinx
# loses words of the index of pages that it keeps. The tests look at what was built.
docs: .venv/stamp-docs
	$(BIN)/python -m sphinx -E -b html -q -W --keep-going docs build/site
	DAE_SDC_SITE="$(CURDIR)/build/site" $(BIN)/python -m pytest --quiet tests/test_site.py
	@echo "The site is build/site/index.html."

check: .venv/stamp
	$(BIN)/python -m ruff check
	$(BIN)/python -m ruff format --check
	$(BIN)/python -m mypy

# Each process gets a piece of the tests in their order, so that it makes the fixtures of a file once, and takes
# from the others when it has no more.
PARALLEL = --numprocesses "$(WORKERS)" --dist worksteal --max-worker-restart 0

# The type checker has one core for half a minute, so the tests begin beside it. Which tests are long:
# tests/helpers/suites.py.
test: .venv/stamp
	@$(MAKE) --no-print-directory --jobs=2 check fast-tests

# Benchmarks are long, and need not be collected by each process.
fast-tests: .venv/stamp
	$(BIN)/python -m pytest $(PARALLEL) -m "not long" tests

test-all: test
	$(BIN)/python -m pytest $(PARALLEL) -m long

test-part: .venv/stamp
	$(BIN)/python -m pytest $(PARALLEL) -m long --part "$(PART)"

# The tree is copied before it is built, so that no leftover build directory gets into the wheel, and the tests
# are copied before they run, so that nothing can be imported from this tree.
# $(call on-wheel,environment,what is installed beside the wheel with its extras,tests)
define on-wheel
	@set -e; work=$$(mktemp -d); trap 'rm -rf "$$work"' EXIT; \
	mkdir "$$work/source" "$$work/tests-only"; \
	tar -cf - --exclude __pycache__ pyproject.toml README.md LICENSE dae_sdc | tar -xf - -C "$$work/source"; \
	cp -R conftest.py tests benchmarks docs README.md CONTRIBUTING.md LICENSE CITATION.cff CHANGELOG.md Makefile pyproject.toml "$$work/tests-only"; \
	python="$(CURDIR)/$(1)/bin/python"; \
	"$$python" -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$$work" "$$work/source"; \
	wheel=$$(echo "$$work"/dae_sdc-*.whl); \
	"$$python" -m pip uninstall --quiet --yes dae_sdc; \
	"$$python" $(PIP_INSTALL) "$$wheel"$(2); \
	cd "$$work/tests-only"; \
	DAE_SDC_INSTALLED=1 "$$python" -m pytest $(3)
endef

installed-test: .venv-installed/stamp
	$(call on-wheel,.venv-installed,[mpi$(comma)test$(comma)bench$(comma)klu$(comma)certify],$(PARALLEL) -m "not long" $(INSTALLED))

# Each page in an empty directory, as for somebody who has installed the package and nothing else.
installed-docs: .venv-plain/stamp
	$(call on-wheel,.venv-plain, pytest hypothesis,tests/test_documents.py -k "examples_of_a_page and (README or tutorial)")

clean:
	rm -rf .venv .venv-installed .venv-plain build dist docs/api docs/gallery dae_sdc.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find dae_sdc benchmarks tests -name __pycache__ -type d -prune -exec rm -rf {} +
