#!/bin/bash
# The checks that are too slow for every change, one after the other; goes on after a failure, and shows the
# time of each. What a machine lacks is skipped as in `make test`.
set -uo pipefail
cd "$(dirname "$0")/.."
source tests/stages.sh

target=$(cargo metadata --locked --no-deps --format-version 1 | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
failed=()

check() {
  local name=$1
  # Not behind `||`, which would switch off `set -e` in what it runs.
  stage "$@"
  # shellcheck disable=SC2181
  if [ $? != 0 ]; then echo "FAILED: $name"; failed+=("$name"); fi
}

# What a stranger's first command builds and checks.
release() {
  make --no-print-directory || return
  local bytes
  bytes=$(stat -c %s "$target/release/debubble")
  echo "the release program: $((bytes / 1000)) kB"
  [ "$bytes" -le 32000000 ] || { echo "it is larger than 32 MB"; return 1; }
}

# It has no Parquet, and says how to get it.
without_parquet() {
  local folder said code command
  folder=$(mktemp -d)
  for command in "sweep scenarios/paper/fig9-sweep.toml --out $folder/rows.parquet" \
    "replay tests/fuzz/trace-parquet/broke/bits.parquet"; do
    code=0
    # shellcheck disable=SC2086
    said=$("$target/release/debubble" $command 2>&1) || code=$?
    if [ "$code" != 2 ] || ! grep -q -- "--features parquet" <<<"$said"; then
      echo "debubble $command ends with $code: $said"
      return 1
    fi
  done
  rm -r "$folder"
}

without_cuda() {
  cargo clippy --workspace --all-targets --no-default-features --locked -- -D warnings
}

bundle() { make --no-print-directory gpu-bundle && bash tests/gpu-bundle-check.sh; }

# Tests marked as slow, and those that take minutes; not what only other checks run. Some record with torch, where it
# can be had.
slow() {
  local python
  python=$(DEBUBBLE_PYTHON='' bash tests/torch.sh environment)
  if [ -x "$python" ]; then export DEBUBBLE_TORCH_PYTHON=$python; fi
  cargo test --quiet --no-fail-fast $(make --no-print-directory tested) -- --ignored --skip fuzz::watch --skip speed_of_the_products
}

slow_python() {
  cargo build --quiet --profile test $(make --no-print-directory tested) --lib --bins --examples && DEBUBBLE_PYTHON=require bash tests/python.sh slow "$target/debug"
}

slow_torch() {
  cargo build --quiet --profile test $(make --no-print-directory tested) --lib --bins --examples && bash tests/torch.sh slow "$target/debug"
}

torch_benchmark() {
  cargo build --quiet --profile test $(make --no-print-directory tested) --lib --bins --examples && bash tests/torch.sh short "$target/debug"
}

torch_versions() {
  cargo build --quiet --profile test $(make --no-print-directory tested) --lib --bins --examples && bash tests/torch.sh versions "$target/debug"
}

# Laws of searches that hold in every case, in thousands of them.
laws() {
  DEBUBBLE_CASES=20 cargo test --quiet --profile test --locked -p debubble-search --lib -- graph:: encoder::
}

cp_sat() {
  cargo build --quiet --profile test $(make --no-print-directory tested) --bin debubble && bash tests/cp-sat.sh short "$target/debug/debubble"
}

check "make: release build and tables" release
check "Parquet, which the release program lacks" without_parquet
check "lints without CUDA" without_cuda
check "documentation" make --no-print-directory documentation
check "make test" make --no-print-directory test
check "slow tests" slow
check "slow tests of Python" slow_python
check "page as it is published" env WEB_PROFILE=web make --no-print-directory web-test
check "wheel from its sources" bash tests/wheel.sh test
check "slow tests of PyTorch" slow_torch
check "PyTorch's benchmark in short" torch_benchmark
check "PyTorch, the oldest version to the newest" torch_versions
check "laws of searches in thousands of cases" laws
check "CP-SAT on two small pipelines" cp_sat
check "changed inputs for a minute" make --no-print-directory fuzz-minute
check "bundle for a GPU, on stand-ins" bundle

if [ ${#failed[@]} -gt 0 ]; then
  printf 'failed: %s\n' "${failed[@]}"
  exit 1
fi
