#!/bin/bash
# The tests of the solver; with the word `all`, clippy and the tests of `search --exact` too, which
# builds the command line once more.
#   tests/exact.sh [all]
# Says "skipped" and succeeds where Rust is too old for it.
set -eu
needs=$(sed -n 's/^rust-version = "\([0-9.]*\)".*/\1/p' exact/Cargo.toml)
has=$(rustc --version | cut -d ' ' -f 2 | cut -d - -f 1)
if [ "$(printf '%s\n' "$needs" "$has" | sort -V | head -n 1)" != "$needs" ]; then
  echo "skipped: the solver needs Rust $needs, this is $has"
  exit 0
fi
cargo test --package debubble-exact --locked
if [ "${1:-}" = all ]; then
  both=(--package debubble-exact --package debubble --features debubble/exact,debubble/nccl --locked)
  cargo clippy "${both[@]}" --all-targets -- -D warnings
  RUSTDOCFLAGS="-D warnings" cargo doc --package debubble-exact --no-deps --locked
  cargo test --package debubble --features exact,nccl --locked --test it -- search::
fi
