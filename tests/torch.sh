#!/bin/bash
# What the Python package does with PyTorch.
#   tests/torch.sh environment          where PyTorch is, once it is there: its Python
#   tests/torch.sh test target/debug    the tests
#   tests/torch.sh slow target/debug    those marked as slow, for a machine that does nothing else
#   tests/torch.sh versions target/debug  the tests of orders with the oldest version, one between and the newest
#   tests/torch.sh short target/debug   the benchmark in short
#   tests/torch.sh bench target/debug   the benchmark: results/torch-cpu.csv, on GPUs torch-cuda.csv
# TORCH_VERSIONS names others than these three, such as "2.9.1 2.12.1", and TORCH_INDEX an index that has wheels
# without CUDA, which are a tenth as large. Each version is installed, tried and removed again.
# DEVICE=cpu or cuda says where the benchmark runs: on two GPUs or more unless it does, else on the CPU.
# In a virtual environment of its own under the target directory, of the Python that PYTHON names, else of
# python3. Says "skipped" and succeeds where there is none of 3.11 or newer, or PyTorch cannot be had; it has
# 700 MB to download and takes 4.5 GB. With DEBUBBLE_PYTHON=require, as in CI, it fails then.
set -euo pipefail
cd "$(dirname "$0")/.."
source tests/python-environment.sh

case $version in
  3.9 | 3.10) skip "PyTorch needs Python 3.11, and $python is $version" ;;
esac
venv=$target/python/venv-$version-torch

prepared() {
  local built
  built=$(realpath "${1:?the folder of what cargo has built}")
  environment "$venv" python/tests/requirements-torch.txt --no-deps
  site "$built" "$target/python/site-torch"
}

# The tests with PyTorch $1, or the newest where that is `newest`.
with_version() {
  local wanted=torch==$1
  if [ "$1" = newest ]; then wanted=torch; fi
  venv=$target/python/venv-$version-torch-$1
  if ! { empty "$venv" "$python" && with_uv "$venv" &&
    install "$venv" ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} "$wanted" &&
    install "$venv" numpy pytest; }; then
    tail -n 5 "$venv.log"
    rm -rf "$venv"
    skip "PyTorch $1 cannot be installed"
  fi
  "$venv/bin/python" -c 'import torch; print("PyTorch", torch.__version__)'
  # Megatron-LM has versions of PyTorch of its own.
  run pytest --quiet -m "not slow" python/tests/with_torch --ignore-glob '*/test_megatron*.py' || return
  rm -rf "$venv"
}

case ${1:-} in
  environment)
    environment "$venv" python/tests/requirements-torch.txt --no-deps
    echo "$venv/bin/python"
    ;;
  test)
    prepared "${2:-}"
    run pytest --quiet -m "not slow" python/tests/with_torch
    ;;
  slow)
    prepared "${2:-}"
    run pytest --quiet -m slow python/tests/with_torch
    ;;
  versions)
    site "$(realpath "${2:?the folder of what cargo has built}")" "$target/python/site-torch-versions"
    failed=()
    for one in ${TORCH_VERSIONS:-2.8.0 2.11.0 newest}; do
      with_version "$one" || failed+=("$one")
    done
    if [ ${#failed[@]} -gt 0 ]; then echo "the tests fail with PyTorch ${failed[*]}"; exit 1; fi
    ;;
  short)
    prepared "${2:-}"
    run python python/benchmarks/predictions.py --short ${DEVICE:+--device "$DEVICE"}
    ;;
  bench)
    prepared "${2:-}"
    # Ranks keep the memory they have taken, as the allocators of GPUs do: glibc would give it back, and a
    # schedule that holds much would pay for it again each step.
    export MALLOC_TRIM_THRESHOLD_=4294967296 MALLOC_MMAP_THRESHOLD_=4294967296
    run python python/benchmarks/predictions.py --results results ${DEVICE:+--device "$DEVICE"}
    ;;
  *) echo "environment, test, slow, versions, short or bench?" >&2; exit 2 ;;
esac
