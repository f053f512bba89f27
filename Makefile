# GNU make and Python 3.11 or newer are all that is needed; everything else goes into .venv in this folder.
#
#   make demo          install the package, run the demonstration
#   make test          run the tests and every docstring example       make test ARGS="-k newton"
#   make test-lowest   the same with the lowest supported versions     make test-lowest PYTHON=python3.11
#   make test-gpu      the tests of fits on a device: a GPU if there is one, and PyTorch on the CPU
#   make lint          ruff, formatting, mypy
#   make docs          build the documentation site into site/, run its examples, try it in a browser
#   make site          build the documentation site only
#   make gallery       make the figures of docs/gallery and of the README again
#   make bench         compare with other libraries, in an environment of its own
#   make kernels       compile the kernels again after a change of their sources in C
#   make wheels        build the sdist and the wheels of all platforms into dist/, try the one for this machine
#   make bench-map     the map of sizes and the whole process, with pictures   make bench-map ARGS="--cells small"
#   make clean         remove what the above made
#
# Another interpreter: make test PYTHON=python3.12 (after make clean, if .venv exists already).

PYTHON ?= python3
ARGS ?=

# All paths are relative and every tool is run as a module, so that spaces in the folder's name, another
# active environment or a PYTHONPATH make no difference.
unexport PYTHONHOME PYTHONPATH
# Tests start some hundred processes, which would compile every module of ours again.
unexport PYTHONDONTWRITEBYTECODE
SHELL := /bin/sh
PIP := -m pip --disable-pip-version-check --quiet install
# Each pytest worker has a core: a BLAS that starts threads of its own in each would only get in the way.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1

.DELETE_ON_ERROR:
.PHONY: help demo test test-lowest test-gpu lint docs site gallery bench bench-map kernels sanitize wheels clean

help:
	@sed -n '3,15s/^# *//p' Makefile

demo: .venv/.installed-run
	.venv/bin/python -m oddsmith.demo $(ARGS)

test: .venv/.installed-test
	$(ONE_THREAD) .venv/bin/python -m pytest -n auto --dist loadgroup $(ARGS)

test-gpu: .venv/.installed-test .venv/.installed-gpu
	$(ONE_THREAD) .venv/bin/python -m pytest -m gpu $(ARGS)

lint: .venv/.installed-lint
	.venv/bin/python -m ruff check .
	.venv/bin/python -m ruff format --check .
	.venv/bin/python -m mypy --strict src

site: .venv/.installed-docs
	@mkdir -p build
	.venv/bin/python docs/_site/assemble.py
	NO_MKDOCS_2_WARNING=1 .venv/bin/python -m mkdocs build --strict >build/site.log 2>&1 || { cat build/site.log; exit 1; }

docs: site
	ODDSMITH_SITE=site $(ONE_THREAD) .venv/bin/python -m pytest -n auto --dist loadgroup tests/docs $(ARGS)

gallery: .venv/.installed-run
	$(ONE_THREAD) MPLBACKEND=Agg .venv/bin/python docs/gallery/build.py $(ARGS)
	$(ONE_THREAD) MPLBACKEND=Agg .venv/bin/python docs/assets/first_look.py

bench: .venv-bench/.installed-bench
	.venv-bench/bin/python -m benchmarks $(ARGS)

sanitize: .venv/.installed-test
	.venv/bin/python tests/kernels/sanitize.py

kernels: | .venv/bin/python
	.venv/bin/python build_kernels.py

wheels: .venv-wheels/.installed
	rm -f dist/oddsmith-*
	.venv-wheels/bin/python -m hatchling build --directory dist --target sdist
	for target in $$(.venv-wheels/bin/python build_kernels.py --targets); do \
	    ODDSMITH_TARGET=$$target .venv-wheels/bin/python -m hatchling build --directory dist --target wheel || exit 1; done
	.venv-wheels/bin/python tests/check_wheels.py dist

bench-map: .venv-bench/.installed-bench
	.venv-bench/bin/python -m benchmarks.map $(ARGS)
	.venv-bench/bin/python -m benchmarks.startup

# Old libraries use what newer ones deprecate: there a deprecation is shown, not an error.
test-lowest: .venv-lowest/.installed-test
	$(ONE_THREAD) .venv-lowest/bin/python -m pytest -n auto --dist loadgroup -W default::DeprecationWarning \
	    -W default::PendingDeprecationWarning $(ARGS)

clean:
	rm -rf .venv .venv-bench .venv-lowest .venv-wheels build dist site .hypothesis .mypy_cache .pytest_cache .ruff_cache
	rm -f src/oddsmith/kernels/native/*_kernels.*
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# An environment is made once. A stamp in it says which extras it has, and is out of date when pyproject.toml or the
# kernels change; with the stamp in place nothing is fetched. Any set of extras brings the run-time package along.

PACKAGE := pyproject.toml build_kernels.py $(wildcard src/oddsmith/kernels/native/*.[ch])

.venv/bin/python .venv-bench/bin/python .venv-lowest/bin/python .venv-wheels/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "oddsmith needs Python 3.11 or newer, and '$(PYTHON)' is not one." \
	         "Name another: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv $(@:/bin/python=)

.venv/.installed-run: $(PACKAGE) | .venv/bin/python
	.venv/bin/python $(PIP) --editable .
	@touch $@

.venv/.installed-%: $(PACKAGE) | .venv/bin/python
	.venv/bin/python $(PIP) --editable '.[$*]'
	@touch .venv/.installed-run $@

# All that .ci/run needs in one step. Bytecode is left to the first import of each module: most are never imported.
.venv/.installed-ci: $(PACKAGE) | .venv/bin/python
	.venv/bin/python $(PIP) --no-compile --editable '.[lint,test,docs]'
	@touch .venv/.installed-run .venv/.installed-lint .venv/.installed-test .venv/.installed-docs $@

.venv-bench/.installed-%: $(PACKAGE) | .venv-bench/bin/python
	.venv-bench/bin/python $(PIP) --editable '.[$*]'
	@touch $@

.venv-lowest/.installed-%: $(PACKAGE) constraints-lowest.txt | .venv-lowest/bin/python
	.venv-lowest/bin/python $(PIP) --constraint constraints-lowest.txt --editable '.[$*]'
	@touch $@

.venv-wheels/.installed: pyproject.toml | .venv-wheels/bin/python
	.venv-wheels/bin/python $(PIP) 'hatchling>=1.27' 'ziglang>=0.13'
	@touch $@
