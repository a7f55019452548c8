# Two commands: `make book` and `make test`. Both make the virtual environment first.
#   PYTHON       the interpreter to start from (3.10 or newer)
#   VENV         where the environment goes
#   LAB          more options for JupyterLab, for example LAB="--no-browser --port 9000"
#   CONSTRAINTS  a file of exact versions for pip, for example constraints.txt
PYTHON ?= python3
VENV ?= .venv
CONSTRAINTS ?=

BUILD := _build
PY := $(VENV)/bin/python
NOTEBOOKS = $(shell sed -n 's/^ *- *file: *//p' _toc.yml | while read -r f; do ls "$$f.ipynb" 2>/dev/null; done)

# Contents, not dates, decide what is out of date: a checkout changes dates, and a deleted file has none.
sum = $(shell find $(1) -type f ! -name '*.pyc' ! -path '*/.ipynb_checkpoints/*' | LC_ALL=C sort | xargs cksum | cksum | cut -d ' ' -f 1)
INSTALLED := $(VENV)/installed-$(call sum,requirements.txt pyproject.toml $(CONSTRAINTS))
CODE := $(BUILD)/code-$(call sum,ictd requirements.txt pyproject.toml $(CONSTRAINTS))
BROWSER = $(or $(CHROMIUM),$(shell command -v chromium chromium-browser google-chrome google-chrome-stable | head -n 1))
BOOK := $(BUILD)/book-$(call sum,ictd book _config.yml _toc.yml requirements.txt pyproject.toml $(CONSTRAINTS))
TESTED := $(BUILD)/tested-$(call sum,ictd book tests README.md Makefile _config.yml _toc.yml requirements.txt pyproject.toml $(CONSTRAINTS))-$(shell echo '$(BROWSER) $(ICTD_REQUIRE_BROWSER)' | cksum | cut -d ' ' -f 1)

# One thread: the stored outputs do not depend on the machine's cores. The environment's own kernel goes first.
export OMP_NUM_THREADS ?= 1
export JUPYTER_PREFER_ENV_PATH := 1
export PYDEVD_DISABLE_FILE_VALIDATION := 1

# Stop a run that hangs: $(call limit,seconds) command ...
limit = $(PY) -c 'import subprocess, sys; sys.exit(subprocess.run(sys.argv[2:], timeout=int(sys.argv[1])).returncode)' $(1)

.PHONY: help install book test retest lab clean distclean
help:
	@echo 'make book       build the book and say which file to open'
	@echo 'make test       test the package, the notebooks and the built pages'
	@echo 'make retest     the same, also if nothing changed'
	@echo 'make lab        open the notebooks in JupyterLab'
	@echo 'make clean      remove what was built; make distclean removes the environment too'

install: $(INSTALLED)

$(INSTALLED):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Python 3.10 or newer is needed; name one: make PYTHON=python3.12 book")'
	$(PYTHON) -m venv $(VENV)
	@rm -f $(VENV)/installed-*
	$(PY) -m pip install --quiet --disable-pip-version-check $(if $(CONSTRAINTS),-c $(CONSTRAINTS)) -r requirements.txt
	@touch $@

# The execution cache knows a notebook's code only. Other code or another environment may give other outputs.
$(CODE): $(INSTALLED)
	@rm -rf $(BUILD)/.jupyter_cache $(BUILD)/code-*
	@mkdir -p $(BUILD) && touch $@

# A second build of unchanged pages would forget their warnings, so every page is read anew; only the outputs are cached.
$(BOOK): $(CODE)
	@rm -rf $(BUILD)/html $(BUILD)/.doctrees $(BUILD)/book-*
	$(call limit,1500) $(VENV)/bin/jupyter-book build -W --keep-going -n .
	@touch $@

book: $(BOOK)
	@echo 'The book is built. Open $(BUILD)/html/index.html in a browser.'

test: $(TESTED)
	@echo 'All tests passed on exactly these files. (make retest runs them again.)'

retest:
	@rm -f $(BUILD)/tested-*
	@$(MAKE) --no-print-directory test

$(TESTED): $(BOOK)
	@rm -f $(BUILD)/tested-*
	$(call limit,1500) $(PY) -m pytest tests
	$(if $(NOTEBOOKS),$(call limit,1500) $(PY) -m pytest --nbval --nbval-current-env --nbval-cell-timeout 180 \
	  --nbval-sanitize-with tests/nbval_sanitize.cfg -p no:cacheprovider $(NOTEBOOKS))
	@touch $@

lab: $(INSTALLED)
	$(PY) -m jupyterlab --notebook-dir=book $(if $(filter 0,$(shell id -u)),--allow-root) $(LAB)

clean:
	rm -rf $(BUILD) .pytest_cache .hypothesis .jupyter_cache book/.jupyter_cache
	find ictd tests book \( -name __pycache__ -o -name .ipynb_checkpoints \) -prune -exec rm -rf {} +

distclean: clean
	rm -rf $(VENV) *.egg-info
