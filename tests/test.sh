#!/bin/bash
# All tests, with how long each part took and which tests were the slowest:
#   tests/test.sh FLAG..    the flags by which cargo selects packages and features
# Tests marked `slow` and the page run in `make nightly`.
set -euo pipefail
cd "$(dirname "$0")/.."
source tests/stages.sh
source tests/slowest.sh

make() { command make --no-print-directory "$@"; }

# `cargo test` leaves out what only Python loads: everything is built in one go before.
stage build cargo build --profile test "$@" --lib --bins --examples --tests
beside python make python
stage rust rust "$@"
stage slurm make slurm
joined python
