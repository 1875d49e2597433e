# Stockade. `make run` and `make test` work on a fresh Debian with Rust, Python 3 and Node: what else is needed is
# installed by scripts/setup.sh.

.DEFAULT_GOAL := help
SVG ?= target/strategies.svg
SCRIPT ?= smoke
.PHONY: help run cluster demo demo-lua strategies receiver observe pictures test check openapi dashboards alerts load fuzz faults bench clean

help: ## This list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1|\2/p' Makefile | while IFS='|' read -r name what; do printf '%-15s %s\n' "$$name" "$$what"; done

# A release build: it takes longer to build once, but the first thing people do is to measure it.
run: ## Build and start the service (options: STOCKADE_* variables, see `stockade --help`)
	@scripts/setup.sh run
	cargo run --release --locked

cluster: ## Three masters and three replicas on this machine, and the service on them (CLUSTER='--first 127.0.0.1:7001')
	@scripts/setup.sh run
	cargo build --release --locked --bin stockade
	@python3 examples/cluster.py $(CLUSTER)

demo: ## A sale from opening to the books, with a crowd, in this terminal
	@scripts/setup.sh run
	cargo build --release --locked --bin stockade
	@python3 examples/demo.py

demo-lua: ## Thirty lines of Lua beside Stockade, while both are killed again and again
	@scripts/setup.sh run
	cargo build --release --locked --bin stockade
	@python3 examples/demo_lua.py

strategies: ## Eight ways to sell one hot SKU, three of which oversell (SVG=file for the chart)
	@scripts/setup.sh run
	cargo run --release --locked --example strategies -- --svg '$(SVG)' $(STRATEGIES)

receiver: ## Receive webhooks on 127.0.0.1:9000 and print them (SECRET=whsec_...)
	@cargo run --quiet --locked --example webhook_receiver -- --secret '$(SECRET)'

observe: ## Every panel and alert with its value, from two instances and Prometheus (KEEP=1: until Ctrl-C)
	@scripts/setup.sh observe
	cargo build --release --locked --bin stockade
	@.tools/python/bin/python tests/observe/observe.py

pictures: ## Draw the dashboards from Prometheus data of `make demo`: docs/pictures
	@scripts/setup.sh observe
	cargo build --release --locked --bin stockade
	@.tools/python/bin/python tests/observe/pictures.py

test: ## All tests, on real servers
	@scripts/setup.sh test
	cargo build --locked
	cd clients/typescript && npm test --silent
	.tools/python/bin/python -m pytest -q clients/python
	.tools/python/bin/python -m pytest -q tests/observe
	.tools/python/bin/python -m pytest -q tests/load
	.tools/python/bin/python -m pytest -q tests/bench
	.tools/python/bin/python -m pytest -q tests/faults
	python3 tests/faults/faults.py SECONDS=60 SEED=1 ROWS=quick
	cargo test --locked --features otlp --test otlp
	cargo test --locked

check: ## Format, lints, documentation, openapi.json and what is made from it
	@scripts/setup.sh check
	cargo fmt --check
	cargo clippy --locked --all-targets -- -D warnings
	cargo clippy --locked --features otlp --lib --bins --test otlp -- -D warnings
	luacheck --quiet lua
	.tools/python/bin/openapi-spec-validator openapi.json
	scripts/openapi.sh check
	cd load-tests && npm run --silent check
	.tools/python/bin/mypy --config-file clients/python/pyproject.toml
	RUSTDOCFLAGS=-Dwarnings cargo doc --locked --no-deps --document-private-items

openapi: ## Make openapi.json and the clients' types from the handlers
	@scripts/setup.sh clients
	scripts/openapi.sh write

dashboards: ## Make grafana/dashboards from grafana/src
	@scripts/setup.sh observe
	.tools/python/bin/python grafana/generate.py write

alerts: ## Check and test the alert rules
	@scripts/setup.sh observe
	.tools/bin/promtool check config grafana/prometheus/prometheus.yml
	.tools/bin/promtool check rules --lint-fatal grafana/prometheus/alerts.yml
	.tools/bin/promtool test rules grafana/prometheus/tests/*.yml

load: ## A load test with k6: SCRIPT=flash_sale RATE=200 DURATION=20s (load-tests/README.md lists all; BASE_URL=: not its own service)
	@scripts/setup.sh load
	$(if $(BASE_URL),,cargo build --release --locked --bin stockade)
	@python3 load-tests/run.py '$(SCRIPT)' $(foreach knob,$(filter-out SCRIPT=%,$(MAKEOVERRIDES)),'$(knob)')

fuzz: ## Schemathesis from openapi.json against a service of its own (SEED=1 EXAMPLES=30 SECONDS=)
	@scripts/setup.sh fuzz
	cargo build --locked --bin stockade
	@python3 tests/fuzz/fuzz.py $(foreach knob,$(MAKEOVERRIDES),'$(knob)')

faults: ## Kill, freeze, starve and cut off real processes under load, then look at the books (SECONDS=600 SEED= ROWS= RUN= OUT=)
	@scripts/setup.sh run
	cargo build --locked --bin stockade
	@python3 tests/faults/faults.py $(foreach knob,$(MAKEOVERRIDES),'$(knob)')

bench: ## Measure on this machine
	@scripts/setup.sh bench
	cargo build --release --locked --workspace
	python3 bench/run.py $(BENCH)

clean: ## Remove what was built (data folders stay)
	cargo clean
	rm -rf .tools
