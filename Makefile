# The only place where commands are written: README, CONTRIBUTING and .ci/run call these targets.

.DEFAULT_GOAL := help
SHELL := /bin/bash
export RUST_BACKTRACE ?= 1

ALL := --workspace --all-features
SECONDS ?= 60
GPU ?= mirror
RUN_DIR ?= stepline-runs

.PHONY: help
help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

.PHONY: demo
demo: ## the main job: trains on wine data, shows which epoch ate the memory (GPU=mirror|auto, ENDPOINT=http://127.0.0.1:4318)
	@cargo build --release -p stepline-wine --example wine
	@STEPLINE_GPU=$(GPU) STEPLINE_SAMPLE_INTERVAL=100 STEPLINE_DIR=$(RUN_DIR) \
		$(if $(ENDPOINT),OTEL_EXPORTER_OTLP_ENDPOINT=$(ENDPOINT)) \
		target/release/examples/wine

.PHONY: check
check: ## formatting, lints, documentation, architecture, each feature alone
	cargo fmt --all --check
	cargo clippy $(ALL) --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --no-deps --all-features --locked
	for features in "" http grpc cli "http grpc"; do \
		echo "features: $$features"; cargo check --lib --no-default-features --features "$$features" --locked || exit 1; done
	# Other systems where their standard library is installed; without the transports, whose TLS needs a C compiler for each.
	for target in $$(rustup target list --installed 2>/dev/null | grep -E 'darwin|windows|aarch64'); do \
		echo "target: $$target"; cargo check --lib --bins --no-default-features --features cli --target $$target --locked || exit 1; done
	cargo test --features cli --test integration --locked architecture

.PHONY: test
test: backends ## everything: unit, property, integration tests with the real back ends, doc tests, examples, loom
	cargo test --workspace --exclude stepline-wine --all-features --locked
	$(MAKE) loom examples

.PHONY: examples
examples: ## run the main job with stepline on and off: it computes the same, bit by bit
	cargo build --release --locked -p stepline-wine --example wine
	off=$$(STEPLINE_DISABLED=1 target/release/examples/wine --epochs 4 --passes 10 --print-checksum | grep checksum) && \
	on=$$(STEPLINE_DIR=target/examples STEPLINE_GPU=mirror STEPLINE_SAMPLE_INTERVAL=100 \
		target/release/examples/wine --epochs 4 --passes 10 --print-checksum | grep checksum) && \
	echo "off: $$off, on: $$on" && test "$$off" = "$$on"

.PHONY: loom
# Without the transports: tokio has no sockets under loom.
loom: ## the model of the journal's claim, publish, consume
	RUSTFLAGS="--cfg loom" cargo test --lib --release --no-default-features --locked --target-dir target/loom loom

.PHONY: fuzz
fuzz: ## feed the journal reader with garbage (SECONDS=60)
	cargo +nightly fuzz run journal_reader -- -max_total_time=$(SECONDS)

.PHONY: bench
bench: ## what stepline costs, against its peers in the same run; writes target/bench.json
	benches/run

.PHONY: backends
backends: ## the collector, Jaeger and Prometheus, built once into target/backends
	@$(MAKE) --no-print-directory -C integration-tests/backends

.PHONY: stack
stack: backends ## the three of them, up until Ctrl-C
	@integration-tests/backends/stack.sh
