#!/bin/bash
# All tests, with how long each part took and which tests were the slowest:
#   tests/test.sh FLAG..    the flags by which cargo selects packages and features
# Tests of Rust run in cargo-nextest where it is installed, which times them, and in cargo otherwise.
set -euo pipefail
cd "$(dirname "$0")/.."
source tests/stages.sh
source tests/slowest.sh

# The page as it is published is for `make nightly`.
export WEB_PROFILE=${WEB_PROFILE:-web-quick}

make() { command make --no-print-directory "$@"; }

# `cargo test` leaves out what only Python loads: everything is built in one go before.
stage build cargo build --profile test "$@" --lib --bins --examples --tests
stage rust rust "$@"
beside slurm make slurm
beside python make python
beside page make web-test
for part in slurm python page; do joined $part; done
