# make        build debubble, reproduce the published tables and check every cell
# make beyond  search the best schedule for every cell of tables 5 and 8, beside what was published and
#             what no schedule undercuts: half a minute of processor time. `--effort 20` searches
#             longer; `reproduce fig9 --beyond` has 306 cells more
# make searched  what orders that are searched gain over named schedules in the plans of scenarios/plan:
#             two minutes of processor time, needs Python
# make cp-sat  orders and bounds of the solver CP-SAT beside those of a search, in the same processor time:
#             results/cp-sat.csv, half an hour to an hour of two cores. Needs Python 3.11, and 250 MB for OR-Tools at first
# make measure  run the paper's schedules on the timed device: simulated and measured bubble rates;
#             takes minutes, and a machine with nothing else to do
# make agree    calibrate this machine, predict steps from that profile, run them with a stage per core:
#             fails if the median of five rounds is off by more than 5 %; takes three minutes, likewise
# make gpu    on a GPU: tests, a row of table 5 with passes that only take time, five schedules with real
#             kernels beside their prediction, speeds, every family against the model in one piece; says so
#             and ends well where there is no driver or GPU, unless DEBUBBLE_NEEDS_GPU=1. One of its stages:
#             make gpu STAGES=smoke (timed, bubbles, more, speed, correct, again)
# make gpu-bundle  the same as a folder and a .tar.gz of 11 MB in target/gpu-bundle, for a machine with a
#             driver and the wheels of torch, without Rust and network: ./gpu.sh [STAGE..]
# make nightly  the checks that are too slow for every change, each with its time: CONTRIBUTING lists them
# make test   the tests, with the time of each part and the slowest ones: those of SLURM too where it runs or can be
#             started, and those of the Python package where there is Python 3.9 or newer. Properties are tried on a few hundred random cases each;
#             `DEBUBBLE_CASES=20 make test` tries 20 times as many
# make python the tests of the Python package alone, in an environment under target/python. With
#             DEBUBBLE_PYTHON=require all that CI tests, and a failure where `make test` skips them
# make torch  how well steps of PyTorch are foretold: stages that sleep and a small GPT in named schedules
#             and a searched one, recorded, predicted, run and compared: results/torch-cpu.csv, on a machine
#             with two GPUs torch-cuda.csv, unless DEVICE=cpu. Says which bars hold and fails where one does
#             not; takes a quarter of an hour of a machine with nothing else to do, and 700 MB to download at first
# make install  debubble, its manual pages and its completions under PREFIX (/usr/local), where `man debubble`
#             and shells look; DESTDIR goes before it, for packagers. make uninstall takes them away
# make hero   the animation at the top of the README, results/hero-*.svg: needs Python
# make book   the book of docs/, in target/book: needs Python 3.11, and 40 MB of packages at first. With the
#             pictures of schedules, drawn anew, and the page to play with where `make web` has built it. What
#             its commands and those of the README print is tested by `make python`; DEBUBBLE_BOOK=overwrite
#             make python writes it into the pages
# make reference  the parts of the book that the program makes: keys, commands, schedules, machines,
#             accuracy; and the schemas of questions. Look at what has changed, then commit it
# make wheel  the Python package with the command line, for every Linux from glibc 2.17 on and every Python from 3.9
#             on, in target/wheels. Five minutes of two cores
# make sdist  its sources, from which `pip install` builds it with Rust
# make web    the page: the library as WebAssembly, in one file that needs no server: web/dist/index.html.
#             Its target, wasm32-unknown-unknown, comes from rustup. With DEBUBBLE_HOME=https://... it has links to
#             the repository there, its README and its book
# make web-test  the page in a headless chromium, beside the command line; skipped where there is no node, npm or
#             chromium, which with DEBUBBLE_WEB=require is a failure. With WEB_PROFILE=web-quick the page is built
#             quickly, not as it is published, and the tests that take longest are left out
# make lint   format, clippy and documentation, without a warning; the workflows of GitHub, too, where
#             there is actionlint, or what checks them by their schema
# make style  lint without the documentation, as CI runs it
# make documentation  the documentation of Rust, without a warning
# make check  lint and test: most of what CI runs
# make fuzz   a million changed inputs for every reader of a file or a command line, in processes with a
#             gigabyte of memory and two seconds for each input: none may break down. Twenty minutes of
#             two cores; FUZZ_INPUTS, FUZZ_SECONDS, FUZZ_PARSER and FUZZ_SEED ask for less or other ones
# make fuzz-minute  the same for a minute, with the program that the tests have built
# make bench  the benches (criterion)
#
# The default build has --device cuda, which needs no CUDA to build; for the small one without:
# cargo build --release --no-default-features

.PHONY: all build install uninstall reproduce beyond searched cp-sat measure agree gpu gpu-bundle nightly tables tested test slurm lint style documentation check fuzz fuzz-minute bench cargo python torch hero book reference wheel sdist wasm web web-test

all: reproduce

# Says what is missing before anything fails for lack of it.
cargo:
	@command -v cargo >/dev/null || { \
	  echo "debubble is built with Rust, and there is no cargo on the PATH."; \
	  echo "Install it from https://rustup.rs or with your package manager (Rust 1.89 or newer), then run make again."; \
	  exit 1; }

TARGET = $$(cargo metadata --locked --no-deps --format-version 1 \
  | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')

build: cargo
	cargo build --release --locked

PREFIX ?= /usr/local
DESTDIR ?=

install: build
	bash tests/install.sh install "$(TARGET)/release/debubble" "$(DESTDIR)$(PREFIX)"

uninstall:
	bash tests/install.sh uninstall "$(DESTDIR)$(PREFIX)"

reproduce: build
	$(MAKE) --no-print-directory tables PROGRAM="$(TARGET)/release/debubble"

# The tables and pictures of results/, by whichever program.
tables:
	"$(PROGRAM)" reproduce all --check
	"$(PROGRAM)" simulate scenarios/gantt.toml --svg results/gantt.svg --gantt never
	"$(PROGRAM)" simulate scenarios/all.toml --pareto results/all.svg --gantt never
	cd results && "$(abspath $(PROGRAM))" plan --validate --csv planner-today.csv --svg planner-today.svg > /dev/null

beyond: build
	cargo run --quiet --release --locked -- reproduce table5 table8 --beyond

# What orders that are searched gain in plans: a minute or two.
searched: build
	python3 tests/plan_auto.py "$(TARGET)/release/debubble" results/plan-auto.csv

# CP-SAT and a search on pipelines of results/records. Better orders lie in target/cp-sat then, for `debubble records --add`.
cp-sat: build
	bash tests/cp-sat.sh study "$(TARGET)/release/debubble"

measure: build
	cargo run --quiet --release --locked -- execute scenarios/execute/paper.toml --duration 4s \
	  --csv results/measured-timed.csv --fail-above 1

agree: build
	bash tests/agree.sh "$(TARGET)/release/debubble" 5 20s 5 results/agreement-cpu.csv

STAGES ?=

gpu: gpu-bundle
	DEBUBBLE_NEEDS_GPU="$${DEBUBBLE_NEEDS_GPU:-0}" OUT="$${OUT:-results}" bash "$(TARGET)/gpu-bundle/debubble-gpu/gpu.sh" $(STAGES)

# NCCL comes with it: the wheels have it. No kernels run on a processor here: those tests need the
# sources and a compiler.
gpu-bundle: cargo
	bash tests/gpu-bundle.sh

nightly: cargo
	bash tests/nightly.sh

# All that is tested, in one build: NCCL and Parquet, which are in no default build. Whatever selects packages or
# features otherwise builds most of them once more. What makes the page has no tests of its own: the page is
# tried in a browser.
TESTED = --workspace --exclude debubble-benches --exclude debubble-web-build --features nccl,parquet --locked

test: cargo
	bash tests/test.sh $(TESTED)

# The flags of cargo for it, for scripts.
tested:
	@echo $(TESTED)

# With the program that the tests have built.
slurm: cargo
	cargo test --quiet --no-run $(TESTED)
	bash tests/slurm.sh "$(TARGET)/debug/debubble"

# With what the tests have built.
python: cargo
	cargo build --quiet --profile test $(TESTED) --lib --bins --examples
	bash tests/python.sh test "$(TARGET)/debug"

# Searches are made with what the tests have built, whose arithmetic is optimised.
torch: cargo
	cargo build --quiet --profile test $(TESTED) --lib --bins --examples
	bash tests/torch.sh bench "$(TARGET)/debug"

# The animation at the top of the README, with what the tests have built.
hero: cargo
	cargo build --quiet --profile test $(TESTED) --bin debubble
	python3 tests/hero.py "$(TARGET)/debug/debubble" results

# With what the tests have built: examples and the reference are made by the program and the package.
book: cargo
	cargo build --quiet --profile test $(TESTED) --lib --bins --examples
	bash tests/book.sh "$(TARGET)/debug" "$(TARGET)/book"

# Tests hold the pages against the program; here they write what differs.
reference: cargo
	DEBUBBLE_REFERENCE=write cargo test --quiet $(TESTED) --bin debubble reference

wheel sdist: cargo
	bash tests/wheel.sh $@

# The program that makes WebAssembly smaller comes from npm, where there is npm.
web: cargo wasm
	cargo build --locked --package debubble-web --package debubble-web-unpack --profile $(WEB_PROFILE) --target $(WASM)
	cargo run --quiet --locked --package debubble-web-build -- \
	  "$(TARGET)/$(WASM)/$(WEB_PROFILE)/web.wasm" "$(TARGET)/$(WASM)/$(WEB_PROFILE)/unpack.wasm" web/page web/dist \
	  $(if $(filter web,$(WEB_PROFILE)),,--quick) $(if $(DEBUBBLE_HOME),--home "$(DEBUBBLE_HOME)")

# The target of the page: rustup installs it where it is missing, and where there is no rustup, its name is said.
wasm: cargo
	@[ -d "$$(rustc --print target-libdir --target $(WASM))" ] || { \
	  echo "The page is built for the target $(WASM), which is not installed."; \
	  if command -v rustup >/dev/null; then rustup target add $(WASM); else \
	    echo "Install it with your package manager, or Rust with https://rustup.rs, then run make again."; exit 1; fi; }

# `web-quick` builds a page for its tests in less time.
WEB_PROFILE ?= web

# With the program that the tests have built.
web-test: cargo
	cargo build --quiet --profile test $(TESTED) --lib --bins --examples
	bash tests/web.sh test "$(TARGET)/debug/debubble"

# The target of the page (`rustup target add $(WASM)`).
WASM = wasm32-unknown-unknown

lint: style documentation

style: cargo
	cargo fmt --all --check
	cargo clippy $(TESTED) --all-targets -- -D warnings
	bash tests/python.sh lint
	bash tests/workflows.sh
	bash tests/stages-check.sh
	bash tests/size.sh
	bash tests/web.sh lint

documentation: cargo
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --features nccl,parquet --locked

check: lint test

FUZZ = --bin debubble -- --ignored --exact fuzz::watch::watched --nocapture

fuzz: cargo
	RUST_BACKTRACE=0 cargo test --quiet --profile fuzz --features nccl,parquet --locked $(FUZZ)

# Six seconds for each of the parsers, two at a time, with what the tests have built.
fuzz-minute: cargo
	RUST_BACKTRACE=0 FUZZ_SECONDS=6 FUZZ_JOBS=2 cargo test --quiet $(TESTED) $(FUZZ)

bench: build
	cargo bench --package debubble-benches --locked
