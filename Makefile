# Two commands do all the set-up on a fresh machine: `make run` and `make test`.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
PROTOC  = $(BIN)/python -m grpc_tools.protoc -I proto

# Without kept bytecode every process compiles all that it imports, and pytest's workers rewrite every test's asserts.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup compiled run demo test lint proto coverage docs release-check bench bench-quick bench-keep bench-pipeline clean venv

help:            ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: venv $(VENV)/.ready $(VENV)/.kernel-ready  ## install what the targets below need into .venv (VENV=…), with python3 (PYTHON=…)

KERNEL := $(subst .,/,$(shell sed -n 's/^    "\(lacuna\..*\)",/\1/p' lacuna/logstore/records/build_kernel.py)) lacuna/logstore/records/integers
KERNEL_SOURCES := lacuna/logstore/records/build_kernel.py $(KERNEL:=.py) $(wildcard $(KERNEL:=.pxd))
BUILD := $(shell sed -n 's/^requires = \[\(.*\)\]/\1/p' pyproject.toml | tr -d ,)
DOCS := $(shell sed -n 's/^docs = \[\(.*\)\]/\1/p' pyproject.toml)
BUILD_KERNEL := $(BIN)/python -m lacuna.logstore.records.build_kernel

venv:
	@.ci/venv.sh '$(PYTHON)' '$(VENV)' $(if $(filter file,$(origin PYTHON)),,asked)

$(VENV)/.run-ready: pyproject.toml setup.py | venv
	@echo 'setting up $(VENV), which takes about a minute and is needed only once'
	@$(PIP) --editable '.[console,demo,security]' $(BUILD)
	@touch $@

$(VENV)/.ready: pyproject.toml setup.py | venv
	$(PIP) --editable '.[bench,console,demo,dev,export,java,spark]'
	@touch $(VENV)/.run-ready $@

$(VENV)/.kernel-ready: $(KERNEL_SOURCES) | venv $(VENV)/.ready
	$(BUILD_KERNEL)
	@touch $(VENV)/.serving-ready $@

# What agents and control planes need of the kernel, which is half of the C compiler's work.
$(VENV)/.serving-ready: $(KERNEL_SOURCES) | venv $(VENV)/.run-ready
	@echo 'compiling the kernel'
	@$(BUILD_KERNEL) --serving
	@touch $@

run: venv $(VENV)/.run-ready $(VENV)/.serving-ready  ## run an embedded cluster on 127.0.0.1:9092 (PORT=…), with its data in ./data
	$(BIN)/lacuna up --data data $(if $(PORT),--listen 127.0.0.1:$(PORT))

demo: venv $(VENV)/.run-ready $(wildcard $(VENV)/.serving-ready)  ## run the transactional demo on a temporary cluster
	$(BIN)/lacuna demo

# Tests spend part of their time waiting, so more workers than cores are faster. But each worker needs five seconds of CPU
# to import and collect the tests.
WORKERS ?= 5
MARKS = not slow and not java and not docker
QUICK = .ci/in-memory.sh $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "$(MARKS)" \
  -o tmp_path_retention_policy=failed
COVERED := tests/logstore tests/controlplane tests/rules
LINT := $(MAKE) --no-print-directory lint

# The first run compiles the tests: here once, and not once in each worker. The run reports what does not compile.
compiled: setup
	@ls tests/__pycache__/*pytest* >/dev/null 2>&1 || $(BIN)/python -m pytest --collect-only -q tests >/dev/null || true

# Most mistakes show in a property's first examples; .ci/run, which sets this to nothing, tries all of them.
test: export MOST_EXAMPLES ?= 10

# Lint and the tests at a time: what one of them leaves of two cores the other takes.
test: compiled   ## check lint, types and import contracts, and run the tests
	@$(if $(COVERED_APART)$(LINTED),,.ci/beside.sh '$(LINT)') \
	  $(QUICK) $(if $(COVERED_APART),$(addprefix --ignore=,$(COVERED))) $(or $(TESTS),tests)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy lacuna pyspark_lacuna bench tests docs/draw_states.py docs/draw_protocol.py docs/draw_configuration.py \
	  docs/draw_metrics.py docs/draw_commands.py docs/site_hooks.py deploy/grafana/draw.py examples
	$(BIN)/lint-imports

proto: setup     ## regenerate the messages from proto/
	$(PROTOC) --python_out=. --pyi_out=. $(wildcard proto/lacuna/*/v1/*.proto proto/lacuna/*/*/v1/*.proto)

coverage: MARKS = not java and not docker
coverage: compiled  ## measure the branch coverage of logstore/ and controlplane/
	$(QUICK) --cov --cov-report=term-missing:skip-covered --cov-fail-under=95 $(COVERED)

# Material tells of its successor at length.
docs: export NO_MKDOCS_2_WARNING = 1
docs: $(VENV)/.docs-ready  ## make the site of docs/ in build/site; fails where a link leads nowhere
	$(BIN)/python -m mkdocs build --strict

$(VENV)/.docs-ready: pyproject.toml | venv
	$(PIP) $(DOCS)
	@touch $@

release-check: venv $(VENV)/.ready  ## build all files of a release, and try each one: demo, README.md's commands, image, chart
	$(BIN)/python .ci/release-check

bench: setup     ## measure Lacuna and Apache Kafka side by side, in full (most of an hour)
	$(BIN)/python -m bench.run

bench-quick: setup  ## the same with less work, in about five minutes
	$(BIN)/python -m bench.run --size quick

bench-pipeline: setup  ## measure the pipeline beside Spark's own Kafka source (half an hour; SIZE=quick: three minutes)
	$(BIN)/python -m bench.pipeline.run --size $(or $(SIZE),full)

bench-keep: setup  ## put the last full run into docs/benchmarks.md and the README's picture
	$(BIN)/python -m bench.run --again --keep

clean:
	rm -rf $(VENV) build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
