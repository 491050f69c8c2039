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
environment() {
  cmp -s "$2" "$1/requirements.txt" && return
  if ! { empty "$1" "$python" && with_uv "$1" && install "$1" -r "$2"; }; then
    tail -n 5 "$1.log"
    skip "the packages in $2 cannot be installed"
  fi
  cp "$2" "$1/requirements.txt"
}
