#!/bin/bash
# Orders and bounds of the solver CP-SAT beside those of a search, in the same processor time.
#   tests/cp-sat.sh study target/release/debubble   the set of pipelines: results/cp-sat.csv
#   tests/cp-sat.sh short target/debug/debubble     two small ones, which both must prove optimal
# In a virtual environment of its own under the target directory, of the Python that PYTHON names, else of
# python3. Says "skipped" and succeeds where there is none of 3.11 or newer, or OR-Tools cannot be had; it takes
# 250 MB. With DEBUBBLE_PYTHON=require, as in CI, it fails then.
set -euo pipefail
cd "$(dirname "$0")/.."
source tests/python-environment.sh

case $version in
  3.9 | 3.10) skip "the comparison with CP-SAT needs Python 3.11, and $python is $version" ;;
esac
venv=$target/python/venv-$version-cp-sat

prepared() {
  program=$(realpath "${1:?the program}")
  environment "$venv" python/tests/requirements-cp-sat.txt
}

case ${1:-} in
  study)
    prepared "${2:-}"
    run python tests/cp_sat/compare.py "$program" results/cp-sat.csv --longer 60 --better "$target/cp-sat"
    ;;
  short)
    prepared "${2:-}"
    run python tests/cp_sat/compare.py "$program" "$target/cp-sat.csv" --proved equal-p4-m4-0.75p ends-p4-m12-0.75p
    ;;
  *) echo "study or short?" >&2; exit 2 ;;
esac
