#!/bin/bash
# The Python package as it is handed out.
#   tests/wheel.sh sdist    its sources
#   tests/wheel.sh wheel    built, for glibc 2.17 and Python 3.9 on, or what the tools here can
#   tests/wheel.sh built target/debug   packed of what cargo has built for the tests, installed in clean
#                           environments of the oldest and the newest Python there is, and asked a question
#   tests/wheel.sh test     both, the wheel made of the sources, as quickly as can be instead of small and fast;
#                           then installed in clean environments of the oldest and the newest Python there
#                           is, with numpy alone, and tested there
# The first two in target/wheels, the others in target/python. Says "skipped" and succeeds as
# tests/python.sh does.
set -euo pipefail
cd "$(dirname "$0")/.."
source tests/python-environment.sh

wheels=$target/wheels
tools=$target/python/venv-$version-wheel
environment "$tools" python/tests/requirements-wheel.txt
export PATH=$tools/bin:$PATH CARGO_TARGET_DIR=$target DEBUBBLE=$target/debug/debubble

logged() {
  echo "$*"
  "$@" >"$target/python/maturin.log" 2>&1 || { cat "$target/python/maturin.log"; exit 1; }
}

sdist() {
  logged maturin sdist --out "$wheels"
}

# Of the sources in this folder. Zig links for an old glibc, where its wheel is to be had.
wheel() {
  rm -f "$wheels"/*.whl
  if python -m ziglang version >/dev/null 2>&1; then
    logged maturin build "$@" --zig --compatibility manylinux2014 --out "$wheels"
  else
    logged maturin build "$@" --out "$wheels"
  fi
}

# The wheel for everyone: with the command line.
whole() {
  wheel --locked
  logged python python/tools/command.py "$wheels"/debubble-*.whl
  check "$wheels"/debubble-*.whl
}

# The Pythons of 3.9 or newer, the oldest first: `3.9 /usr/bin/python3.9`.
pythons() {
  local found
  for found in "$HOME"/.pyenv/versions/3.*/bin/python3 $(compgen -c | grep -E '^python3\.[0-9]+$') "$python"; do
    "$found" -c 'import sys; sys.version_info < (3, 9) or print("%d.%d" % sys.version_info[:2], sys.executable)' \
      2>/dev/null || true
  done | sort -V -u -k 1,1
}

# Whether wheels have the command line: those made of the sources of a release do not.
has_command=

# The wheel $1 in a clean environment of the Python $2, which is $3: two answers.
answers() {
  local venv=$target/python/clean-$2
  empty "$venv" "$3" && install "$venv" "$1" ||
    { tail -n 5 "$venv.log"; skip "numpy cannot be installed for Python $2"; }
  if [ "$has_command" = yes ]; then test -x "$venv/bin/debubble"; fi
  PATH=$venv/bin:$PATH python python/tools/smoke.py "$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)"
  echo "Python $2 answers, $3"
}

# The same, and all tests there.
clean() {
  local venv=$target/python/clean-$2
  answers "$@"
  install "$venv" pytest -c "$root/python/tests/requirements.txt"
  echo "Python $2 with $("$venv/bin/python" -c 'import numpy; print("numpy", numpy.__version__)'), $3"
  (cd "$venv" && bin/python -m pytest --quiet --rootdir . "$root/python/tests" \
    --ignore "$root/python/tests/with_torch")
}

check() {
  local bytes
  bytes=$(stat -c %s "$1")
  echo "$(basename "$1"): $((bytes / 1000)) kB"
  if [ "$bytes" -gt 18000000 ]; then
    echo "the wheel is larger than 18 MB"
    exit 1
  fi
}

# oldest_and_newest COMMAND: with the wheel $wheels holds, for the oldest and the newest Python.
oldest_and_newest() {
  local all
  all=$(pythons)
  head -n 1 <<<"$all" | grep -q '^3\.9 ' || echo "skipped: there is no Python 3.9 here"
  for number in $(sed -n '1p;$p' <<<"$all" | cut -d ' ' -f 1 | uniq); do
    "$1" "$wheels"/debubble-*.whl "$number" "$(sed -n "s/^$number //p" <<<"$all")"
  done
}

built() {
  wheels=$target/python/packed
  rm -rf "$wheels"
  python3 python/tools/pack.py "${1:?the folder of what cargo has built}" "$wheels"
  has_command=yes
  oldest_and_newest answers
}

tests() {
  local root=$PWD sources=$target/python/sdist
  wheels=$target/python/dist
  rm -rf "$wheels" "$sources"
  sdist
  mkdir -p "$sources"
  # As new: in the archive all files are equally old, and cargo goes by that.
  tar -C "$sources" --strip-components 1 -xmzf "$wheels"/debubble-*.tar.gz
  # Its lock file names what only other parts of debubble need: cargo would take that out.
  (
    cd "$sources"
    export CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=0
    wheel --profile dev
  )
  oldest_and_newest clean
}

case ${1:-} in
  sdist) sdist ;;
  wheel) whole ;;
  built) built "${2:-}" ;;
  test) tests ;;
  *) echo "sdist, wheel, built or test?" >&2; exit 2 ;;
esac
