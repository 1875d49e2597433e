.PHONY: bench

# Every comparison of speed, all sides in one run: see bench/README.md. Options: make bench BENCH='--quick'
bench:
	cargo build --release --workspace
	python3 bench/run.py $(BENCH)
