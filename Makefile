# Waypost's few commands. `make run` and `make test` need nothing but this folder: they set up what
# is missing (scripts/setup), build and go.

TARGET := $(or $(CARGO_TARGET_DIR),target)
WAYPOST := $(TARGET)/release/waypost
# Where `make run` keeps its executions. They pile up; `rm -r` is how to start afresh.
RUN_DATA := $(TARGET)/run-data
# Everything, with the bugs that the simulator must find compiled in and switched off: a second set of features
# would build most dependencies a second time.
TESTED := --workspace --features waypost-sim/planted
# Two for each core, and two more: many tests wait for leases or for other processes.
TEST_THREADS = $(shell echo $$((2 * $$(getconf _NPROCESSORS_ONLN || echo 2) + 2)))
# These modules stand behind a macro, where `cargo fmt` does not look.
KINDS := crates/waypost-nodes/src/kinds/*.rs crates/waypost-nodes/src/kinds/*/*.rs

# Where rustup puts cargo; a fresh shell may not know it yet.
export PATH := $(PATH):$(or $(CARGO_HOME),$(HOME)/.cargo)/bin

.DEFAULT_GOAL := help
.PHONY: help setup build run lint test test-api test-signatures sim sim-planted fuzz-expressions chaos cluster differential upgrade bench fmt

help: ## Say what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Check for what building needs, and install what is missing
	@scripts/setup

build: setup ## Build the release binary
	cargo build --release -p waypost

run: build ## Run an example workflow to its end and show its timeline
	$(WAYPOST) run examples/order.yaml --data $(RUN_DATA) \
		--input '{"item": "lamp", "amount": 120, "express": true}'
	@echo
	$(WAYPOST) show last --data $(RUN_DATA)

lint: setup ## Check formatting and lints
	cargo fmt --check
	rustfmt --check --edition 2024 --config-path rustfmt.toml $(KINDS)
	cargo clippy --workspace --all-targets -- -D warnings

test: lint ## Check formatting and lints, run all tests
	cargo test --doc $(TESTED)
	@if cargo nextest --version >/dev/null 2>&1; then \
		set -x; cargo nextest run $(TESTED) --test-threads $(TEST_THREADS); \
	else \
		set -x; cargo test $(TESTED) --lib --bins --tests; \
	fi

test-api: setup ## Let schemathesis loose on a real server; MAX_EXAMPLES=20 requests an operation
	cargo build -p waypost
	scripts/test-api

test-signatures: setup ## Verify messages of a real server with the reference library of Standard Webhooks
	cargo build -p waypost
	scripts/test-signatures

sim: setup ## Run the engine in SEEDS=100000 made-up worlds; FROM=n is the first seed
	cargo run --release -p waypost-sim -- run --seeds $(or $(SEEDS),100000) --from $(or $(FROM),0)

sim-planted: setup ## Plant each deliberate bug and show how soon the simulator finds it
	cargo run --release -p waypost-sim --features planted -- planted

fuzz-expressions: setup ## Evaluate random expressions for MINUTES=10 in 1 GB of address space; FROM=n is the first seed
	cargo build --release -p waypost-core --example fuzz_expressions
	sh -c 'ulimit -v 1048576; exec target/release/examples/fuzz_expressions $(or $(MINUTES),10) $(or $(FROM),0)'

chaos: setup ## Kill, stop and starve real processes for MINUTES=5, or play one round again: SEED=n
	CHAOS_MINUTES=$(or $(MINUTES),$(if $(SEED),,5)) CHAOS_SEED=$(SEED) cargo test -p waypost --test it \
		-- --exact chaos::real_processes_keep_what_was_promised --nocapture

cluster: setup ## Run the tests of clusters in their full length; PERCENT=100 of it, SEED=n
	CLUSTER_PERCENT=$(or $(PERCENT),100) CLUSTER_SEED=$(SEED) cargo test -p waypost --test it -- \
		cluster:: --test-threads 1

differential: setup ## Compare the stores over 200 workloads of triggers: PERCENT=100 of them, SEED=n
	DIFFERENTIAL_PERCENT=$(or $(PERCENT),100) DIFFERENTIAL_SEED=$(SEED) cargo test -p waypost --test it -- \
		differential::triggers

upgrade: setup ## Upgrade from an older binary and go back: OLD=path, or FROM=revision to build one
	cargo build -p waypost
	OLD=$(OLD) FROM=$(FROM) scripts/test-upgrade

bench: build ## Measure the engine on this machine, with full durability
	$(WAYPOST) bench chain
	$(WAYPOST) bench chain --executions 200 --concurrency 1
	$(WAYPOST) bench fan
	$(WAYPOST) bench http

fmt: ## Format the code
	cargo fmt
	rustfmt --edition 2024 --config-path rustfmt.toml $(KINDS)
