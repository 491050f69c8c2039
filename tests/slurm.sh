#!/bin/bash
# Hands a sweep in shards to a running SLURM, and compares what comes back with the whole.
#   tests/slurm.sh target/release/debubble
# Says so and succeeds where there is no SLURM.
set -eu
if ! command -v sbatch >/dev/null || ! sinfo >/dev/null 2>&1; then
  echo "skipped: no SLURM answers here"
  exit 0
fi
program=$(realpath "${1:-target/release/debubble}")
scenario=$(realpath "$(dirname "$0")/../scenarios/paper/fig9-sweep.toml")
folder=$(mktemp -d "$PWD/slurm-test-XXXXXX")
trap 'rm -rf "$folder"' EXIT
cd "$folder"
"$program" sweep "$scenario" --out whole.csv
"$program" sweep "$scenario" --out merged.csv --slurm 4 > grid.sh
sbatch grid.sh
for _ in $(seq 120); do
  [ -e merged.csv ] && break
  sleep 1
done
cmp whole.csv merged.csv
echo "passed: 4 jobs and a merge made the same bytes"
