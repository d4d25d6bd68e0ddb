# Two commands do all the set-up on a fresh machine: `make run` and `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PROTOC  = $(BIN)/python -m grpc_tools.protoc -I proto

.PHONY: help setup run demo test lint proto coverage bench bench-quick bench-keep bench-pipeline clean

help:            ## what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/.ready  ## a virtual environment in .venv with the `lacuna` command in it

KERNEL := $(foreach part,records/kernel records/rewriting records/pieces records/columns records/encoding records/legacy/kernel objects/reading,logstore/$(part).py $(wildcard logstore/$(part).pxd))

$(VENV)/.ready: pyproject.toml setup.py $(KERNEL)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --config-settings editable_mode=compat --editable '.[bench,demo,dev,export,java,spark]'
	$(BIN)/python -m logstore.records.build_kernel
	touch $@

run: setup       ## an embedded cluster on 127.0.0.1:9092, data in ./data
	$(BIN)/lacuna up --data data

demo: setup      ## the transactional scenario, on a throw-away cluster
	$(BIN)/lacuna demo

QUICK := $(BIN)/python -m pytest -n 3 --dist worksteal -m "not slow and not java and not docker"
COVERED := tests/logstore tests/controlplane tests/rules

test: setup $(if $(COVERED_APART),,lint) ## lint, types, import contracts, and the tests
	$(QUICK) $(if $(COVERED_APART),$(addprefix --ignore=,$(COVERED))) tests

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy agent controlplane lacuna logstore pipeline pyspark_lacuna bench tests docs/draw_states.py docs/draw_protocol.py
	$(BIN)/lint-imports

proto: setup     ## regenerate the messages from proto/
	$(PROTOC) --python_out=. --pyi_out=. $(wildcard proto/controlplane/v1/*.proto)
	$(PROTOC) --grpc_python_out=. proto/controlplane/v1/control.proto
	$(PROTOC) --python_out=logstore --pyi_out=logstore $(wildcard proto/segments/v1/*.proto)

coverage: setup  ## branch coverage of logstore/ and controlplane/
	$(QUICK) --cov --cov-report=term-missing:skip-covered --cov-fail-under=95 $(COVERED)

bench: setup     ## Lacuna and Apache Kafka side by side, in full (most of an hour)
	$(BIN)/python -m bench.run

bench-quick: setup  ## the same with less work, in three minutes
	$(BIN)/python -m bench.run --size quick

bench-pipeline: setup  ## the pipeline beside Spark's own Kafka source (half an hour; SIZE=quick: three minutes)
	$(BIN)/python -m bench.pipeline.run --size $(or $(SIZE),full)

bench-keep: setup  ## the last full run becomes that of docs/performance.md, and the README's picture
	$(BIN)/python -m bench.run --again --keep

clean:
	rm -rf $(VENV) build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
