# make        build debubble, reproduce the published tables and check every cell
# make measure  run the paper's schedules on the timed device: simulated and measured bubble rates;
#             takes minutes, and a machine with nothing else to do
# make test   the tests, those of SLURM too where it runs or can be started
# make lint   format, clippy and documentation, without a warning
# make check  lint and test: what CI runs
# make bench  the benches (criterion)

.PHONY: all build reproduce measure test slurm lint check bench cargo

all: reproduce

# Says what is missing before anything fails for lack of it.
cargo:
	@command -v cargo >/dev/null || { \
	  echo "debubble is built with Rust, and there is no cargo on the PATH."; \
	  echo "Install it from https://rustup.rs or with your package manager (Rust 1.89 or newer), then run make again."; \
	  exit 1; }

build: cargo
	cargo build --release --locked

reproduce: build
	cargo run --quiet --release --locked -- reproduce all --check
	cargo run --quiet --release --locked -- simulate scenarios/gantt.toml --svg results/gantt.svg --gantt never
	cargo run --quiet --release --locked -- simulate scenarios/all.toml --pareto results/all.svg --gantt never

measure: build
	cargo run --quiet --release --locked -- execute scenarios/execute/paper.toml --duration 4s \
	  --csv results/measured-timed.csv --fail-above 1

test: cargo
	cargo test --workspace --exclude benches --locked
	$(MAKE) --no-print-directory slurm

# With the program that the tests have built.
slurm: cargo
	cargo build --quiet --locked
	bash tests/slurm.sh "$$(cargo metadata --locked --no-deps --format-version 1 \
	  | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/debug/debubble"

lint: cargo
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked

check: lint test

bench: build
	cargo bench --package benches --locked
