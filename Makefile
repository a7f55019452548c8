# `make book` and `make test` are all a reader needs; `make help` lists the rest. All make the virtual environment first.
#   PYTHON       the interpreter to start from (3.10 or newer)
#   VENV         where the environment goes
#   LAB          more options for JupyterLab, for example LAB="--no-browser --port 9000"
#   CONSTRAINTS  a file of exact versions for pip, for example constraints.txt
#   MODULE       for `make mutants`: the modules to try, for example MODULE=td
PYTHON ?= python3
VENV ?= .venv
CONSTRAINTS ?=
MODULE ?=

BUILD := _build
PY := $(VENV)/bin/python
PIP := $(PY) -m pip install --quiet --disable-pip-version-check $(if $(CONSTRAINTS),-c $(CONSTRAINTS))

# Contents and names, not dates, decide what is out of date: a checkout changes dates, and a deleted file has none.
# Names may hold anything, links are followed, and what cannot be read counts by its error.
sum = find -L $(1) \( -type f -o -type l \) ! -name '*.pyc' ! -path '*/.ipynb_checkpoints/*' -print0 2>/dev/null \
	| LC_ALL=C sort -z | LC_ALL=C xargs -0 cksum 2>&1 | cksum | cut -d ' ' -f 1

REQUIRED := requirements.txt pyproject.toml $(CONSTRAINTS)
RUN := ictd Makefile $(REQUIRED)
PAGES := $(RUN) book _config.yml _toc.yml
CHECKED := $(PAGES) tests .ci LICENSE constraints.txt *.md *.cff
BROWSER = $(or $(CHROMIUM),$(shell command -v chromium chromium-browser google-chrome google-chrome-stable | head -n 1))

stamp = $(1)-$(shell $(call sum,$(2)))-$(shell echo '$(VENV) $(3)' | cksum | cut -d ' ' -f 1)
INSTALLED := $(VENV)/installed-$(shell $(call sum,$(REQUIRED)))
CODE := $(call stamp,$(BUILD)/code,$(RUN))
BOOK := $(call stamp,$(BUILD)/book,$(PAGES))
TESTED := $(call stamp,$(BUILD)/tested,$(CHECKED),$(BROWSER) $(ICTD_REQUIRE_BROWSER))

# $(call done,files): leave the stamp, unless the files have changed since the name of the stamp was made
done = @case $@ in *-"$$($(call sum,$(1)))"-*) touch $@;; \
	*) echo 'Files were changed meanwhile. Please run make again.'; exit 1;; esac

# One thread: the stored outputs do not depend on the machine's cores. The environment's own kernel goes first.
export OMP_NUM_THREADS ?= 1
export JUPYTER_PREFER_ENV_PATH := 1
export PYDEVD_DISABLE_FILE_VALIDATION := 1
unexport MPLBACKEND PYTHONWARNINGS

# What the programs keep for themselves goes here: a home that cannot be written, or that holds the reader's own
# settings, must not change an output.
SETTINGS := $(CURDIR)/$(BUILD)/settings
$(BOOK) $(TESTED): export MPLCONFIGDIR := $(SETTINGS)/matplotlib
$(BOOK) $(TESTED): export IPYTHONDIR := $(SETTINGS)/ipython
$(BOOK) $(TESTED): export JUPYTER_RUNTIME_DIR := $(SETTINGS)/jupyter

# matplotlib's list of fonts, made once and without its message, which would count as an output of the first notebook
fonts = @mkdir -p "$(SETTINGS)/matplotlib" "$(SETTINGS)/ipython" "$(SETTINGS)/jupyter" && \
	$(PY) -c 'import logging; logging.disable(); import matplotlib.font_manager'

# Test files and notebooks run side by side, one process for each core up to four, in the order of tests/conftest.py.
PARALLEL := --numprocesses auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder
NBVAL := --nbval --nbval-current-env --nbval-cell-timeout 180 --nbval-sanitize-with tests/nbval_sanitize.cfg

# Stop a run that hangs: $(call limit,seconds) command ...
limit = $(PY) -c 'import subprocess, sys; sys.exit(subprocess.run(sys.argv[2:], timeout=int(sys.argv[1])).returncode)' $(1)

.PHONY: help install book style test retest format coverage lowest mutants lab clean distclean
help:
	@echo 'make book       build the book and say which file to open'
	@echo 'make test       test the style, the package, the notebooks and the built pages'
	@echo 'make retest     the same, also if nothing changed'
	@echo 'make format     mend what can be mended in the style of code and notebooks'
	@echo 'make coverage   say which lines and branches of floors 1 to 5 their tests leave out'
	@echo 'make lowest     try the oldest versions that the package asks for'
	@echo 'make mutants    say which small changes of the core its tests do not notice (MODULE=td: of td alone)'
	@echo 'make lab        open the notebooks in JupyterLab'
	@echo 'make clean      remove what was built; make distclean removes the environment too'

install: $(INSTALLED)

$(INSTALLED):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Python 3.10 or newer is needed; name one: make PYTHON=python3.12 book")'
	$(PYTHON) -m venv $(VENV)
	@rm -f $(VENV)/installed-*
	$(PIP) -r requirements.txt
	@touch $@

# The execution cache knows a notebook's code only. Other code or another environment may give other outputs.
$(CODE): $(INSTALLED)
	@rm -rf $(BUILD)/.jupyter_cache $(BUILD)/code-*
	@mkdir -p $(BUILD) && touch $@

# A second build of unchanged pages would forget their warnings, so every page is read anew; only the outputs are cached.
$(BOOK): $(CODE)
	@rm -rf $(BUILD)/html $(BUILD)/.doctrees $(BUILD)/book-*
	$(fonts)
	$(call limit,1500) $(VENV)/bin/jupyter-book build -W --keep-going -n .
	$(call done,$(PAGES))

book: $(BOOK)
	@echo 'The book is built. Open $(BUILD)/html/index.html in a browser.'

# The style first, which takes a second.
test: style $(TESTED)
	@echo 'All tests passed on exactly these files. (make retest runs them again.)'

retest:
	@rm -f $(BUILD)/tested-*
	@$(MAKE) --no-print-directory test

$(TESTED): $(BOOK)
	@rm -f $(BUILD)/tested-*
	$(fonts)
	@$(PY) tests/book_site.py > $(BUILD)/notebooks
	$(call limit,3000) $(PY) -m pytest tests @$(BUILD)/notebooks $(NBVAL) $(PARALLEL)
	$(call done,$(CHECKED))

style: $(INSTALLED)
	@$(PY) -m ruff check --quiet . && $(PY) -m ruff format --check --quiet . || \
	  { echo 'The style is not the one that pyproject.toml asks for: make format mends what can be mended.'; exit 1; }

format: $(INSTALLED)
	-@$(PY) -m ruff check --quiet --fix .
	@$(PY) -m ruff format --quiet .
	@$(PY) -m ruff check --quiet .

# Which lines and branches of floors 1 to 5 no test of theirs reaches. Beside make test: it takes minutes.
coverage: $(INSTALLED)
	@$(PIP) -r tests/requirements-dev.txt
	@rm -rf $(BUILD)/coverage && mkdir -p $(BUILD)/coverage
	$(PY) -m coverage run -m pytest --quiet $$($(PY) tests/floors.py tests) $(PARALLEL)
	@$(PY) -m coverage combine --quiet
	$(PY) -m coverage report --include "$$($(PY) tests/floors.py code)"

# The oldest NumPy, matplotlib and ipywidgets that the package asks for, with the rest of the environment.
LOWEST := $(BUILD)/lowest
lowest: $(INSTALLED)
	@rm -rf $(LOWEST) && $(PY) -m venv $(LOWEST)
	@$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check -r tests/lowest.txt
	@$(PY) -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > \
	  "$$($(LOWEST)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/the_rest.pth"
	$(LOWEST)/bin/python -m pytest --quiet $$($(PY) tests/floors.py numpy) $(PARALLEL)

# Which small changes of the core no test of theirs notices. Some twenty minutes; written to $(BUILD)/mutants.
mutants: $(INSTALLED)
	$(PY) tests/mutants.py $(MODULE)

lab: $(INSTALLED)
	$(PY) -m jupyterlab --notebook-dir=book $(if $(filter 0,$(shell id -u)),--allow-root) $(LAB)

clean:
	rm -rf $(BUILD) .pytest_cache .hypothesis .jupyter_cache book/.jupyter_cache
	find ictd tests book \( -name __pycache__ -o -name .ipynb_checkpoints \) -prune -exec rm -rf {} +

distclean: clean
	rm -rf $(VENV) *.egg-info
