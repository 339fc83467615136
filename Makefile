# make train    the main job: install, get the default model, train it on short instructions
# make test     install, then the fast tests
# make test-learning  every algorithm trains a tiny model, and fails to with its sign flipped
# make test-all everything: lint, types, slow tests
# make bench    beside TRL: speed, memory, gradients; make bench SCENARIO=A for one, make bench-quick JSON=PATH
# make bench-plan  what groupwise plan predicts beside what is measured on this machine
# make install  the environment alone, in .venv

PYTHON ?= python3
TORCH ?= cpu
RUN ?= follow_instructions
VENV := .venv
BIN := $(VENV)/bin

# One thread per test process: the tests' models are tiny, and threads would only wait for each other.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --maxprocesses 8

.PHONY: train test test-learning test-all bench bench-quick bench-plan lint format install clean

train: install
	$(BIN)/groupwise train $(RUN)

test: install
	$(PYTEST) -m "not slow"

test-learning: install
	$(PYTEST) -m learning

test-all: install lint
	$(PYTEST) --hypothesis-profile=drawn

bench: install
	sh benchmarks/install_peer.sh
	$(BIN)/python benchmarks/run.py $(if $(SCENARIO),--scenario $(SCENARIO)) $(if $(JSON),--json $(JSON))

bench-quick: install
	sh benchmarks/install_peer.sh
	$(BIN)/python benchmarks/run.py --quick $(if $(JSON),--json $(JSON))

bench-plan: install
	$(BIN)/python benchmarks/plan.py

lint: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: install
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

install: $(VENV)/installed-$(TORCH)

$(VENV)/installed-$(TORCH): pyproject.toml constraints.txt scripts/install.sh
	PYTHON="$(PYTHON)" TORCH="$(TORCH)" VENV="$(VENV)" sh scripts/install.sh
	@rm -f $(VENV)/installed-*
	@touch $@

clean:
	rm -rf $(VENV) build dist src/*.egg-info
