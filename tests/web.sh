#!/bin/bash
# The checks of the page's JavaScript, and its tests in a real browser.
#   tests/web.sh lint
#   tests/web.sh test target/debug/debubble
# Packages lie in web/node_modules, as web/package-lock.json pins them; the browser is the chromium that
# CHROMIUM names, else one of this machine. Says "skipped" and succeeds where something is missing; with
# DEBUBBLE_WEB=require, or with CI=true, it fails then.
set -euo pipefail
cd "$(dirname "$0")/.."

require=${DEBUBBLE_WEB:-}
if [ "${CI:-}" = true ]; then require=require; fi

# Says why something is not done, and ends: well, unless it must be done.
skip() {
  echo "skipped: $1" >&2
  if [ "$require" = require ]; then exit 1; fi
  exit 0
}

# Installs the packages, unless they are the ones that the lock file asks for.
packages() {
  command -v node >/dev/null || skip "$1: there is no node"
  command -v npm >/dev/null || skip "$1: there is no npm"
  [ "$(node -p 'parseInt(process.versions.node)')" -ge 18 ] ||
    skip "$1 needs node 18 or newer, and this is $(node --version)"
  local installed=web/node_modules/.installed
  # Others may be at it, too.
  exec 9<web/package-lock.json
  if command -v flock >/dev/null; then flock 9; fi
  if ! cmp --silent web/package-lock.json "$installed"; then
    (cd web && npm ci --ignore-scripts --no-audit --no-fund >/dev/null 2>npm.log) || {
      cat web/npm.log >&2
      skip "$1: npm cannot install its packages"
    }
    rm -f web/npm.log
    cp web/package-lock.json "$installed"
  fi
  exec 9<&-
}

# Prints the path of a chromium, if there is one.
browser() {
  local name names=(chromium chromium-browser google-chrome google-chrome-stable)
  names+=("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome")
  if [ -n "${CHROMIUM:-}" ]; then names=("$CHROMIUM"); fi
  for name in "${names[@]}"; do
    type -P "$name" && return
  done
  return 1
}

lint() {
  packages "the page's JavaScript is not checked"
  web/node_modules/.bin/tsc --project web/tests
  web/node_modules/.bin/tsc --project web/page
}

tests() {
  packages "the page is not tried"
  CHROMIUM=$(browser) || skip "the page is not tried: there is no chromium, and CHROMIUM names none"
  [ -d "$(rustc --print target-libdir --target wasm32-unknown-unknown)" ] ||
    skip "the page is not tried: rustc has no target wasm32-unknown-unknown"
  make --no-print-directory web
  DEBUBBLE=$(realpath "${1:?the program}")
  export CHROMIUM DEBUBBLE
  node --test-reporter=spec "web/tests/$([ "${WEB_PROFILE:-web}" = web-quick ] && echo quick || echo all).js"
}

case ${1:-} in
  lint) lint ;;
  test) tests "${2:-}" ;;
  *) echo "lint or test?" >&2; exit 2 ;;
esac
