#!/bin/bash
# The tests of the Python package with what cargo has built, and the lints of its Python files.
#   tests/python.sh test target/debug
#   tests/python.sh slow target/debug       those marked as slow
#   tests/python.sh lint
# In a virtual environment of its own under the target directory, of the Python that PYTHON names, else of
# python3. Says "skipped" and succeeds where there is none of 3.9 or newer, or its packages cannot be had.
# With DEBUBBLE_PYTHON=require, as in CI, it fails then, has notebooks, Dask and Ray, and checks types.
set -euo pipefail
cd "$(dirname "$0")/.."
source tests/python-environment.sh

if [ "$require" = require ]; then
  venv=$target/python/venv-$version-ci
  requirements=python/tests/requirements-ci.txt
else
  venv=$target/python/venv-$version
  requirements=python/tests/requirements.txt
fi

# Tests and examples are not as strict as the package; tests ask what types would refuse.
loose=(--allow-untyped-defs --allow-incomplete-defs --allow-untyped-calls --allow-untyped-decorators
  --allow-any-generics --no-warn-return-any --no-warn-unused-ignores --ignore-missing-imports
  --allow-subclassing-any)

lint() {
  if [ "$require" != require ] && [ ! -e "$venv-ci/requirements.txt" ]; then
    echo "skipped: Python files are checked with DEBUBBLE_PYTHON=require"
    return
  fi
  venv=$target/python/venv-$version-ci
  environment "$venv" python/tests/requirements-ci.txt
  local cells=$target/python/cells
  run ruff check --quiet .
  run ruff format --quiet --check .
  run python python/tools/cells.py "$cells"
  run mypy --cache-dir "$target/python/mypy"
  run mypy --cache-dir "$target/python/mypy" "${loose[@]}" \
    --no-strict-optional --disable-error-code dict-item "$cells"
  run mypy --cache-dir "$target/python/mypy" "${loose[@]}" \
    --disable-error-code arg-type --disable-error-code call-arg python/tests python/benchmarks
  run pyright --pythonpath "$venv/bin/python"
  run pyright --pythonpath "$venv/bin/python" --project "$cells"
  run pyright --pythonpath "$venv/bin/python" --project python/tests
}

# Whether the types that the package names are what it has.
types() {
  run python -m mypy.stubtest debubble._debubble
  run pyright --pythonpath "$venv/bin/python" --ignoreexternal --verifytypes debubble \
    >"$target/python/types.log" || { grep -A 2 error "$target/python/types.log"; return 1; }
}

# What the tests need, with what cargo has built in the folder $1.
prepared() {
  local built
  built=$(realpath "${1:?the folder of what cargo has built}")
  environment "$venv" "$requirements"
  site "$built" "$target/python/site"
}

tests() {
  local checked=
  prepared "$1"
  # Tests take one core, types another.
  if [ "$require" = require ]; then
    types >"$target/python/checked.log" 2>&1 &
    checked=$!
  fi
  run pytest --quiet -m "not slow" python/tests --ignore python/tests/with_torch
  run pytest --quiet --doctest-modules --pyargs debubble -W ignore::UserWarning
  if [ -n "$checked" ]; then
    wait "$checked" || { cat "$target/python/checked.log"; exit 1; }
    cat "$target/python/checked.log"
  fi
}

case ${1:-} in
  lint) lint ;;
  test) tests "${2:-}" ;;
  slow)
    prepared "${2:-}"
    run pytest --quiet -m slow python/tests --ignore python/tests/with_torch
    ;;
  *) echo "test, slow or lint?" >&2; exit 2 ;;
esac
