# The tests of Rust with their times, for the scripts that source it.

# rust FLAG..: all tests, as cargo selects them, and the ten that took longest.
rust() {
  local log host runner status=0
  log=$(mktemp)
  host=$(rustc -vV | sed -n 's/^host: //p')
  runner=CARGO_TARGET_$(tr 'a-z-' 'A-Z_' <<<"$host")_RUNNER
  env "$runner=bash $PWD/tests/timed-test.sh" cargo test "$@" 2>&1 | tee "$log" || status=$?
  echo
  echo "the slowest tests"
  sed -n 's/^test \(.*\) \.\.\. .* <\([0-9.]*\)s>$/\2 s  \1/p' "$log" | sort -rn | sed -n 1,10p
  rm -f "$log"
  return $status
}
