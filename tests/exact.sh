#!/bin/bash
# Clippy and the tests of `search --exact` and of the solver, which build the command line once more.
# With the word `exclude`: the flag by which cargo leaves the solver out, where Rust is too old for it.
#   tests/exact.sh [exclude]
# Says "skipped" and succeeds where Rust is too old.
set -eu
needs=$(sed -n 's/^rust-version = "\([0-9.]*\)".*/\1/p' exact/Cargo.toml)
has=$(rustc --version | cut -d ' ' -f 2 | cut -d - -f 1)
if [ "$(printf '%s\n' "$needs" "$has" | sort -V | head -n 1)" != "$needs" ]; then
  echo "skipped: the solver needs Rust $needs, this is $has" >&2
  [ "${1:-}" != exclude ] || echo "--exclude debubble-exact"
  exit 0
fi
[ "${1:-}" != exclude ] || exit 0
both=(--package debubble-exact --package debubble --features debubble/exact,debubble/nccl,debubble/parquet --locked)
cargo clippy "${both[@]}" --all-targets -- -D warnings
RUSTDOCFLAGS="-D warnings" cargo doc --package debubble-exact --no-deps --locked
cargo test --package debubble-exact --locked
cargo test --package debubble --features exact,nccl --locked --test it -- search::
