# Virtual environments under the target directory, for the scripts beside this one, which source it.
# `require` is what DEBUBBLE_PYTHON asks for, `target` cargo's folder, `python` and `version` the Python.

require=${DEBUBBLE_PYTHON:-}
target=$(cargo metadata --locked --no-deps --format-version 1 |
  sed 's/.*"target_directory":"\([^"]*\)".*/\1/')

# Says why something is not done, and ends: well, unless it must be done.
skip() {
  echo "skipped: $1"
  if [ "$require" = require ]; then exit 1; fi
  exit 0
}

python=${PYTHON:-python3}
command -v "$python" >/dev/null || skip "there is no $python for the Python package"
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])') || skip "$python does not run"
case $version in
  3.9 | 3.[1-9][0-9]) ;;
  *) skip "the Python package needs Python 3.9, and $python is $version" ;;
esac

# An empty environment in the folder $1 of the Python $2. Debian's venv may lack pip.
empty() {
  rm -rf "$1"
  mkdir -p "$(dirname "$1")"
  if command -v uv >/dev/null; then
    uv venv --quiet --python "$2" "$1"
  else
    "$2" -m venv "$1" || "$2" -m virtualenv "$1"
  fi >"$1.log" 2>&1
}

# Installs the rest of the arguments into the environment $1.
install() {
  local venv=$1 uv
  shift
  uv=$(command -v uv || echo "$venv/bin/uv")
  if [ -x "$uv" ]; then
    "$uv" pip install --quiet --python "$venv/bin/python" "$@"
  else
    "$venv/bin/python" -m pip install --quiet "$@"
  fi >>"$venv.log" 2>&1
}

# Gives the environment $1 uv, where it is nowhere else and can be had: pip takes ten times as long.
with_uv() {
  command -v uv >/dev/null || install "$1" "uv>=0.5,<1" || true
}

# Makes the environment $1 of the packages in the file $2, unless it is there and the file has not changed.
# What follows is said to whoever installs.
environment() {
  local venv=$1 file=$2
  shift 2
  cmp -s "$file" "$venv/requirements.txt" && return
  if ! { empty "$venv" "$python" && with_uv "$venv" && install "$venv" "$@" -r "$file"; }; then
    tail -n 5 "$venv.log"
    skip "the packages in $file cannot be installed"
  fi
  cp "$file" "$venv/requirements.txt"
}

# Runs a command in the environment `venv`, and shows it.
run() {
  echo "$*"
  PATH=$venv/bin:$PATH "$@"
}

# The package as it is installed, in the folder $2: its files beside the extension that cargo has left in
# the folder $1. What runs from here on finds it, and the command line.
site() {
  rm -rf "$2"
  mkdir -p "$2/debubble"
  for file in python/debubble/*.py* python/debubble/py.typed python/debubble/torch python/debubble/megatron; do
    ln -s "$PWD/$file" "$2/debubble/"
  done
  cp "$1/lib_debubble.so" "$2/debubble/_debubble.abi3.so"
  export PYTHONPATH=$2 PYTHONDONTWRITEBYTECODE=1 DEBUBBLE=$1/debubble
}
