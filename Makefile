# From a fresh clone: `make verify` or `make test`. Both make .venv and install into it; nothing else is touched.
#   PYTHON=python3.12   the interpreter that .venv is made with
#   ARGS='...'          options of the command that the target runs, such as ARGS='gated_deltanet --rung exact'

PYTHON ?= python3
ARGS ?=
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet
REQUIREMENTS := pyproject.toml constraints.txt
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1

.DEFAULT_GOAL := help
.PHONY: help verify test test-deep lint audit oracle-score bench docs gpu-evidence clean

help:  ## List the targets
	@grep -hE '^[a-z-]+: .*## ' $(MAKEFILE_LIST) | sed 's/:.*## /|/' | while IFS='|' read -r name text; do \
		printf '  make %-12s %s\n' "$$name" "$$text"; done

verify: $(VENV)/.core  ## Check every identity; installs the light core, without Torch
	$(BIN)/attnproof verify $(ARGS)

test: $(VENV)/.test  ## Run the whole test suite, one process per core
	$(ONE_THREAD) $(BIN)/python -m pytest -n auto $(ARGS)

test-deep: $(VENV)/.test  ## The same with many more examples per property
	HYPOTHESIS_PROFILE=deep $(ONE_THREAD) $(BIN)/python -m pytest -n auto $(ARGS)

lint: $(VENV)/.lint  ## Style, formatting and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy benchmarks examples

audit: $(VENV)/.audit  ## Hold other libraries' kernels against the statements; installs transformers and others
	$(BIN)/attnproof audit --backward $(ARGS)

oracle-score: $(VENV)/.audit  ## Plant faults in kernels: which does the oracle catch, and does it ever refute a right one?
	$(ONE_THREAD) $(BIN)/python -m benchmarks.oracle_score $(ARGS)

bench: $(VENV)/.audit  ## Measure times: tables on the screen, JSON in build/bench; installs transformers
	@mkdir -p build/bench
	$(BIN)/python benchmarks/verify_speed.py --json build/bench/verify_speed.json
	$(BIN)/python benchmarks/against_sympy.py --json build/bench/against_sympy.json
	OMP_NUM_THREADS=2 $(BIN)/python benchmarks/torch_kernels.py --json build/bench/torch_kernels.json
	@if $(BIN)/python -c 'import sys, torch; sys.exit(not torch.cuda.is_available())'; \
		then $(BIN)/python -m benchmarks.device_kernels --json build/bench/device_kernels.json; \
		else echo "benchmarks/device_kernels.py isn't run: there is no GPU that Torch can use"; fi

docs: $(VENV)/.docs  ## Write the pages into docs/site
	$(BIN)/attnproof docs $(ARGS)

gpu-evidence: $(VENV)/.cuda  ## Run every implementation on this machine's GPU; writes docs/evidence/<device>.json
	$(BIN)/python -m attnproof.device_evidence $(ARGS)

clean:  ## Remove .venv and everything that was built or cached
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp says that an install is finished, so that an interrupted one is taken up again.

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "attnproof needs Python 3.11 or newer, and $(PYTHON) is $$($(PYTHON) --version 2>&1)." \
			"Name another one: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { \
		echo "$(PYTHON) can't make a virtual environment; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	@touch $@

$(VENV)/.core: $(VENV)/.made $(REQUIREMENTS)
	@echo "installing the core, without Torch, into $(VENV)"
	@$(PIP) --constraint constraints.txt --editable .
	@touch $@

$(VENV)/.test: $(VENV)/.core
	@echo "installing what the tests need, Torch among it, into $(VENV)"
	@$(PIP) --constraint constraints.txt --editable '.[test]'
	@touch $@

$(VENV)/.audit: $(VENV)/.core
	@echo "installing Torch and the libraries that are audited, into $(VENV)"
	@$(PIP) --constraint constraints.txt --editable '.[audit]'
	@touch $@

$(VENV)/.docs: $(VENV)/.core
	@echo "installing what the pages need, into $(VENV)"
	@$(PIP) --constraint constraints.txt --editable '.[docs]'
	@touch $@

$(VENV)/.cuda: $(VENV)/.core
	@echo "installing Torch and CuPy, into $(VENV)"
	@$(PIP) --constraint constraints.txt --editable '.[torch,cuda]'
	@touch $@

$(VENV)/.lint: $(VENV)/.core
	@echo "installing the linters, into $(VENV)"
	@$(PIP) --constraint constraints.txt --editable '.[lint]'
	@touch $@
