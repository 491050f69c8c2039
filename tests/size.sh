#!/bin/bash
# Lines of Rust without tests, by wing, against a budget: a wing above its own fails. A change that needs more raises
# the number in the same commit and says why there; one that takes lines away lowers it.
#   tests/size.sh          the lines and the budget of each wing
#   tests/size.sh rooms    the lines of each room
set -euo pipefail
cd "$(dirname "$0")/.."

# Each wing with its budget and its rooms.
wings() {
  cat <<'EOF'
model     32003 pipeline sim profile certificate scenarios
search    18381 search ilp failures
hardware  28156 calibrate executor traces
planner   45405 plan planning imports fsdp measured
answers   44278 question cases answer reproduce
doors     23671 src python web draw native launches
EOF
}

# Files of the room $1 that are no tests: none under tests/, none that only a test declares.
files() {
  local all one skipped=(-path '*/tests/*' -o -name tests.rs)
  all=$(find "$1" -name '*.rs' -not -path '*/tests/*' | sort)
  while read -r one; do skipped+=(-o -path "$one.rs" -o -path "$one/*"); done < <(
    tr '\n' '\0' <<<"$all" | xargs -0 -r awk '
      tested && match($0, /^[ \t]*mod [a-z0-9_]+;/) {
        base = FILENAME
        if (!sub(/\/(mod|lib|main)\.rs$/, "", base)) sub(/\.rs$/, "", base)
        name = $2; sub(/;.*/, "", name); print base "/" name
      }
      { tested = /^[ \t]*#\[cfg\(test\)\]/ || (tested && /^[ \t]*#\[/) }')
  find "$1" -name '*.rs' -not \( "${skipped[@]}" \) -print0 | sort -z
}

# Lines of the room $1 without items under #[cfg(test)].
lines() {
  files "$1" | xargs -0 -r awk '
    FNR == 1 { skips = 0; inside = 0 }
    !skips && /^[ \t]*#\[cfg\(test\)\]/ { skips = 1; inside = 0; match($0, /^[ \t]*/); indent = RLENGTH; next }
    skips {
      if (!inside && /^[ \t]*#\[/) next
      if (!inside && /;[ \t]*$/) { skips = 0; next }
      if (/\{/) inside = 1
      match($0, /^[ \t]*/)
      if (inside && RLENGTH == indent && /^[ \t]*[\])}]*\}/) skips = 0
      next
    }
    { count++ }
    END { print count + 0 }'
}

failed=0
sum=0
while read -r wing budget rooms; do
  total=0
  for room in $rooms; do
    here=$(lines "$room")
    total=$((total + here))
    if [ "${1:-}" = rooms ]; then printf '%-12s %6d\n' "$room" "$here"; fi
  done
  sum=$((sum + total))
  if [ "${1:-}" = rooms ]; then continue; fi
  printf '%-9s %6d of %6d\n' "$wing" "$total" "$budget"
  if [ "$total" -gt "$budget" ]; then
    echo "$wing has $((total - budget)) lines more than its budget: take some away, or raise the budget in tests/size.sh" >&2
    failed=1
  fi
done < <(wings)
printf '%-9s %6d\n' all "$sum"
exit "$failed"
