#!/bin/bash
# The tests of the Python package with the extension that cargo has built, and the lints of its Python files.
#   tests/python.sh test target/debug
#   tests/python.sh lint
# Makes a virtual environment of its own under the target directory, of the Python that PYTHON names, else
# of python3. Says "skipped" and succeeds where there is no Python of 3.9 or newer, or its packages cannot be
# had. With DEBUBBLE_PYTHON=require, as in CI, it fails then, takes all that CI tests with, and checks types.
set -euo pipefail
cd "$(dirname "$0")/.."
mode=${1:?test or lint}
target=$(cargo metadata --locked --no-deps --format-version 1 |
  sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
require=${DEBUBBLE_PYTHON:-}
requirements=python/tests/requirements.txt
kind=
if [ "$require" = require ]; then
  requirements=python/tests/requirements-ci.txt
  kind=-ci
fi

skip() {
  echo "skipped: $1"
  if [ "$require" = require ]; then exit 1; fi
  exit 0
}

python=${PYTHON:-python3}
command -v "$python" >/dev/null || skip "the Python package is not tested: there is no $python"
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])') || skip "$python does not run"
case $version in
  3.9 | 3.[1-9][0-9]) ;;
  *) skip "the Python package needs Python 3.9, $python is $version" ;;
esac
venv=$target/python/venv-$version$kind

# The environment, unless it is there as the requirements say. Debian's venv may lack pip.
environment() {
  local log=$target/python/install.log
  cmp -s "$requirements" "$venv/requirements.txt" && return
  rm -rf "$venv"
  mkdir -p "$target/python"
  if command -v uv >/dev/null; then
    uv venv --quiet --python "$python" "$venv" >"$log" 2>&1 &&
      uv pip install --quiet --python "$venv/bin/python" -r "$requirements" >>"$log" 2>&1
  else
    { "$python" -m venv "$venv" || "$python" -m virtualenv "$venv"; } >"$log" 2>&1 &&
      "$venv/bin/python" -m pip install --quiet -r "$requirements" >>"$log" 2>&1
  fi || {
    tail -n 5 "$log"
    skip "the packages that the tests of the Python package need cannot be installed"
  }
  cp "$requirements" "$venv/requirements.txt"
}

run() {
  echo "$*"
  PATH=$venv/bin:$PATH "$@"
}

lint() {
  if [ "$require" = require ]; then
    environment
  elif [ ! -e "$venv-ci/requirements.txt" ]; then
    echo "skipped: Python files are checked where DEBUBBLE_PYTHON=require"
    return
  else
    venv=$venv-ci
  fi
  run ruff check --quiet .
  run ruff format --quiet --check .
  run python python/tools/cells.py "$target/python/cells"
  run mypy --cache-dir "$target/python/mypy"
  run mypy --cache-dir "$target/python/mypy" "$target/python/cells"
  run pyright --pythonpath "$venv/bin/python" --warnings
  run pyright --pythonpath "$venv/bin/python" --project "$target/python/cells"
}

# The package as it is installed: its files beside the extension.
site() {
  rm -rf "$target/python/site"
  mkdir -p "$target/python/site/debubble"
  for file in python/debubble/*.py*; do
    ln -s "$PWD/$file" "$target/python/site/debubble/"
  done
  ln -s "$PWD/python/debubble/py.typed" "$target/python/site/debubble/"
  cp "$1/lib_debubble.so" "$target/python/site/debubble/_debubble.abi3.so"
}

tests() {
  local built=${1:?the folder of what cargo has built}
  built=$(realpath "$built")
  environment
  site "$built"
  export PYTHONPATH=$target/python/site PYTHONDONTWRITEBYTECODE=1 DEBUBBLE=$built/debubble
  run pytest --quiet python/tests
  run pytest --quiet --doctest-modules --pyargs debubble -W ignore::UserWarning
  if [ "$require" = require ]; then
    run python python/tools/keys.py --check
    run python -m mypy.stubtest debubble._debubble
    run pyright --pythonpath "$venv/bin/python" --ignoreexternal \
      --verifytypes debubble >"$target/python/types.log" ||
      { grep -A 2 error "$target/python/types.log"; exit 1; }
  fi
}

case $mode in
  lint) lint ;;
  test) tests "${2:-}" ;;
  *) echo "there is no $mode: test or lint"; exit 2 ;;
esac
