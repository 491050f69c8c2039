#!/usr/bin/env bash
# Whether the plan is what runs: calibrates this machine, predicts steps of a small GPT from that very
# profile, runs them with a stage per core, and lays both side by side. Several rounds one after the
# other, so that what else the machine does meets prediction and measurement alike; the medians count.
#
#   agree.sh DEBUBBLE [ROUNDS] [TIME OF A CALIBRATION] [LARGEST ERROR IN PERCENT] [TABLE.csv]
#
# Exits 1 if the median error of a schedule is larger.
set -euo pipefail

debubble=${1:?the program}
rounds=${2:-5}
time=${3:-20s}
most=${4:-5}
table=${5:-}
schedules=${SCHEDULES:-gpipe,1f1b,zb-h1,zb-v}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Stages keep the memory they have taken, as the allocators of GPUs do: glibc would give it back to the
# system after every step, and a step that holds much, as GPipe's, would pay for it again each time.
export MALLOC_TRIM_THRESHOLD_=4294967296 MALLOC_MMAP_THRESHOLD_=4294967296

echo "$(uname -sr), $(nproc) cores, load $(cut -d' ' -f1-3 /proc/loadavg)"
for round in $(seq "$rounds"); do
  "$debubble" calibrate --hidden 256 --heads 4 --seq 128 --vocabulary 1024 --workers 2 --pin \
    --links queue --max-time "$time" --out "$folder/profile.toml" >"$folder/calibrated" 2>"$folder/notes" \
    || { cat "$folder/notes"; exit 2; }
  "$debubble" execute --device cpu --pin --profile "$folder/profile.toml" --layers 8 --stages 2 \
    --microbatches 8 --schedule "$schedules" --steps 11 --warm-up 2 --csv "$folder/round.csv" \
    >"$folder/ran" 2>"$folder/notes" || { cat "$folder/notes"; exit 2; }
  # Columns by name: schedule, makespans, and the error of the prediction. The device has a comma.
  sed 's/"[^"]*"/-/g' "$folder/round.csv" | awk -F, -v round="$round" -v load="$(cut -d' ' -f1 /proc/loadavg)" '
    NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
    { p = $at["makespan_ms_simulated"]; m = $at["makespan_ms_measured"]
      printf "%s,%d,%.3f,%.3f,%+.2f,%s\n", $at["schedule"], round, p, m, 100 * (p / m - 1), load }
  ' | tee -a "$folder/all.csv"
done

{
  echo "schedule,rounds,step_ms_predicted,step_ms_measured,error_percent,smallest_error,largest_error,load"
  for schedule in ${schedules//,/ }; do
    median() { grep "^$schedule," "$folder/all.csv" | cut -d, -f"$1" | sort -g | awk '
      { x[NR] = $1 } END { print x[int((NR + 1) / 2)], x[1], x[NR] }'; }
    read -r predicted _ < <(median 3)
    read -r measured _ < <(median 4)
    read -r error smallest largest < <(median 5)
    read -r load _ < <(median 6)
    echo "$schedule,$rounds,$predicted,$measured,$error,$smallest,$largest,$load"
  done
} >"$folder/table.csv"
column -s, -t "$folder/table.csv"
if [ -n "$table" ]; then cp "$folder/table.csv" "$table"; fi
awk -F, -v most="$most" 'NR > 1 && ($5 > most || -$5 > most) {
  print $1 ": the median prediction is off by " $5 " %, more than " most " %"; bad = 1 }
  END { exit bad }' "$folder/table.csv"
