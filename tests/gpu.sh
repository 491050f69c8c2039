#!/bin/bash
# The checks that need a GPU, in six stages of less than ten minutes each, most telling first:
#   smoke     driver, libraries, parts of the GPU; the tests that need a GPU
#   timed     launches and hand-overs; a row of table 5 with the paper's times, and microbatches of unequal
#             work, on a GPU that computes nothing; the same orders by torch (gpu_torch.py)
#   bubbles   profiles of a part alone and beside busy ones; five schedules on 8 parts, predicted by both;
#             the share of neighbours in a difference; the same orders by torch
#   more      fewer microbatches, larger ones, post-validation, a V, a searched order
#   speed     products of a layer, beside torch's; layers by torch: frozen weights, adapters, lengths, decoding
#             (gpu_layers.py); F : B : W of the models of the Zero Bubble paper
#   correct   the tests under compute-sanitizer where it is installed; every family of schedules against
#             the model in one piece, in bf16 and f32
#
#   tests/gpu.sh [STAGE..]   [all six]; `again` repeats all that has not passed
#
# Steps that have passed are not repeated, unless ANEW=1. A failure does not end the run; the exit code
# is 1 if a step has failed. Behind every step, OUT has two files: gpu-results.tar.gz, with all tables and
# logs, and summary.md. Needs neither cargo nor a network where these are beside it or named:
#   DEBUBBLE   the program                 [beside this, or target/release/debubble]
#   TESTS      the tests of the executor   [executor-tests beside this, or built by cargo]
#   OUT        the folder of the two files [results]
#   WORK       the folder of tables, logs and what has passed [gpu-work beside this, or in target]
#   RESUME     a gpu-results.tar.gz of before, to go on from
#   ONLY       names of steps; all others are left out
# Fails where there is no driver or no GPU, unless DEBUBBLE_NEEDS_GPU=0.
set -uo pipefail
self=$(realpath "$0")
here=$(dirname "$self")

# A file that is needed, beside this script or where it lies in the project.
beside() {
  local path
  for path in "$here/$1" "$here/../$2"; do
    if [ -e "$path" ]; then
      realpath "$path"
      return
    fi
  done
}
DEBUBBLE=${DEBUBBLE:-$(beside debubble target/release/debubble)}
TESTS=${TESTS:-$(beside executor-tests target/gpu-bundle/debubble-gpu/executor-tests)}
TABLE5=$(beside scenarios/paper/table5.toml scenarios/paper/table5.toml)
ROW=$(beside scenarios/execute/table5-row.toml scenarios/execute/table5-row.toml)
UNEQUAL=$(beside scenarios/examples/unequal-microbatches.toml scenarios/examples/unequal-microbatches.toml)
WITNESS=$(beside gpu_torch.py tests/gpu_torch.py)
LAYERS=$(beside gpu_layers.py tests/gpu_layers.py)
SUMMARY=$(beside gpu_summary.py tests/gpu_summary.py)
OUT=${OUT:-results}
if [ -e "$here/../Cargo.toml" ]; then WORK=${WORK:-$here/../target/gpu-work}; else WORK=${WORK:-$here/gpu-work}; fi
mkdir -p "$OUT" "$WORK" || exit 2
OUT=$(realpath "$OUT")
WORK=$(realpath "$WORK")
# The driver has 8 queues to a GPU unless it is told before it starts, and stages have two each.
export CUDA_DEVICE_MAX_CONNECTIONS=${CUDA_DEVICE_MAX_CONNECTIONS:-32}
export DEBUBBLE TESTS TABLE5 ROW UNEQUAL WITNESS LAYERS SUMMARY OUT WORK

# ---- steps

# The exit code of a step that cannot be done here, which is not a failure.
LEFT_OUT=77

left_out() {
  echo "left out: $1"
  exit $LEFT_OUT
}

# The shape whose stages run on parts of the GPU: with two samples of a microbatch and one layer of each
# chunk, a pass is a few launches of a millisecond in all.
parts=${PARTS:-8}
sizes="--hidden ${HIDDEN:-2048} --heads ${HEADS:-16} --seq ${SEQ:-1024} --vocabulary ${VOCABULARY:-8192}"
shape="$sizes --microbatch-size ${BATCH:-2}"
small=${SMALL:---hidden 128 --heads 4 --seq 64 --microbatch-size 2 --vocabulary 512}
# With one chunk per stage, so that one layer of each is the same model for all.
schedules=${SCHEDULES:-1f1b,zb-h1,zb-h2,zb-1p,zb-2p}
microbatches=${MICROBATCHES:-24}
# All that the executor runs on a GPU: not copies to the host, segments, or the output layer in shards.
families=${FAMILIES:-gpipe 1f1b 1f1b-i zb-h1 zb-h2 zb-heuristic zb-1p zb-2p zb-v v-min v-half v-min-timed v-half-timed v-adaptive 1f1b-v gis gis-h hanayo v-zb dualpipe dualpipe-v chimera pipedream pipedream-2bw}
# How far a bubble rate may be off, in points; POINTS=any is for trying the script.
judged="--fail-above ${POINTS:-2}"
[ "${POINTS:-}" = any ] && judged=
runs="--warm-up ${WARM_UP:-10} --steps ${STEPS:-20}"
pipeline="--device cuda --gpus 0 --stages $parts $runs"
alone=$WORK/gpu-part-alone.toml
busy=$WORK/gpu-part-beside-busy.toml

# The tests that need a GPU, but no source and no compiler.
on_gpu="tests::gpu tests::model tests::operations"

gpu_tests() { DEBUBBLE_NEEDS_GPU=1 "$TESTS" "$@" --test-threads 1 --nocapture; }

queried() {
  command -v nvidia-smi >/dev/null || left_out "there is no nvidia-smi"
  nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.sm,clocks.max.sm,clocks.mem,power.limit --format=csv |
    tee "$WORK/gpu.csv"
}

small_parts() {
  "$DEBUBBLE" execute --device cuda --gpus 0 --stages "$parts" --microbatches 8 --layers "$parts" $small \
    --schedule zb-h1 --steps 2 --check
}

# A row of table 5 and a searched order, with the times of the paper: 1.2 to 1.5 s a step.
timed_row() {
  "$DEBUBBLE" execute "$ROW" --device cuda-timed --gpus 0 --warm-up 1 --steps "${TIMED_STEPS:-5}" \
    --csv "$WORK/measured-gpu-timed.csv" --fail-above "${TIMED_POINTS:-0.3}" ${TIMED:-}
}

# Microbatches of unequal work: published orders, and one that is searched: 1.8 to 2.7 s a step.
timed_unequal() {
  "$DEBUBBLE" search "$UNEQUAL" --export "$WORK/unequal-searched.txt" &&
    "$DEBUBBLE" execute "$UNEQUAL" --schedule "1f1b,zb-h1,$WORK/unequal-searched.txt" --device cuda-timed --gpus 0 \
      --warm-up 1 --steps "${TIMED_STEPS:-5}" --csv "$WORK/measured-gpu-unequal.csv" \
      --fail-above "${TIMED_POINTS:-0.3}"
}

# exported FOLDER STAGES: the orders that torch runs, too; those of timed_row.
exported() {
  local name
  mkdir -p "$1"
  for name in ${WITNESSED:-1f1b zb-h1 zb-2p}; do
    "$DEBUBBLE" export --format torch-csv --schedule "$name" --stages "$2" --microbatches "$microbatches" \
      --forward 18522us --backward-input 18086us --backward-weight 9337us --hop 601us \
      --hidden 2304 --heads 24 --seq 1024 >"$1/$name.csv" || return
  done
}

# witnessed NAME STAGES FLAG..: the bubble of the same orders by torch alone.
witnessed() {
  local name=$1 stages=$2
  shift 2
  python3 -c 'import torch, cuda.bindings.driver' 2>/dev/null ||
    left_out "python3 has no torch or no cuda-bindings"
  exported "$WORK/orders-$name" "$stages" || return
  python3 "$WITNESS" "$WORK/orders-$name"/*.csv --csv "$WORK/witness-gpu-$name.csv" "$@"
}

# calibrated FILE WORKERS: a profile of one of the parts, so many of them at work.
calibrated() {
  "$DEBUBBLE" calibrate --device cuda --partition "$parts" --workers "$2" $shape \
    --max-time "${TIME:-60s}" --out "$1"
}

# executed NAME MICROBATCHES FLAG..: schedules, the name of their tables, and flags besides.
executed() {
  local name=$1 count=$2
  shift 2
  "$DEBUBBLE" execute $pipeline --microbatches "$count" \
    --csv "$WORK/measured-gpu-$name.csv" --passes "$WORK/passes-gpu-$name.csv" "$@"
}

by_profile() {
  executed by-profile "$microbatches" $shape --layers "$parts" --schedule "$schedules" \
    --profile "$busy" --profile-alone "$alone" $judged
}

predicted() {
  "$DEBUBBLE" simulate --profile "$1" --layers "$parts" --stages "$parts" --microbatches "$microbatches" \
    --schedule zb-h1 --gantt never --timeline "$2"
}

compared() {
  predicted "$alone" "$WORK/predicted-gpu-alone.json" &&
    predicted "$busy" "$WORK/predicted-gpu-beside-busy.json" &&
    "$DEBUBBLE" execute $pipeline $shape --layers "$parts" --microbatches "$microbatches" --schedule zb-h1 \
      --profile "$busy" --timeline "$WORK/measured-gpu.json" &&
    "$DEBUBBLE" compare "$WORK/predicted-gpu-alone.json" "$WORK/measured-gpu.json" \
      --beside "$WORK/predicted-gpu-beside-busy.json" | tee "$WORK/compared-gpu.txt"
}

products() {
  gpu_tests --ignored speed_of_the_products | tee "$WORK/gpu-products.txt"
}

# The same products by torch.
torch_products() {
  python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null || left_out "there is no torch with a GPU"
  python3 - <<'PYTHON' | tee "$WORK/gpu-products-torch.txt"
import torch
import os
tokens, h = 3 * 1024, int(os.environ.get("PRODUCTS_WIDTH", 4096))
for columns, inner in [(3 * h, h), (h, h), (4 * h, h), (h, 4 * h)]:
    a = torch.randn(tokens, inner, device="cuda", dtype=torch.bfloat16)
    b = torch.randn(inner, columns, device="cuda", dtype=torch.bfloat16)
    c = torch.empty(tokens, columns, device="cuda", dtype=torch.bfloat16)
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for _ in range(20):
        torch.mm(a, b, out=c)
    start.record()
    for _ in range(100):
        torch.mm(a, b, out=c)
    end.record()
    end.synchronize()
    speed = 2 * tokens * columns * inner / (start.elapsed_time(end) / 100) / 1e9
    print(f"[{tokens}, {inner}] x [{inner}, {columns}]: {speed:.0f} TFLOP/s")
PYTHON
}

# Layers by torch alone.
layers() {
  python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null || left_out "there is no torch with a GPU"
  python3 "$LAYERS" --csv "$WORK/gpu-layers.csv" ${LAYER_FLAGS:-}
}

# F : B : W of a layer, and of the paper's A100: name, hidden size, heads, microbatch size. RATIO_SHAPE is
# for trying the script.
ratio() {
  local model=$1 paper said shape
  shape=${RATIO_SHAPE:---hidden $2 --heads $3 --seq ${SEQ:-1024} --microbatch-size $4 --vocabulary 1024}
  paper=$(awk -v model="\"$model " '
    /^name/ { here = index($0, model) }
    here && /^(forward|backward)/ { gsub(/[^0-9]/, "", $3); time[$1] = $3 }
    here && /^backward-weight/ { exit }
    END {
      f = time["forward"]
      if (!f) exit 1
      printf "%.3f,%.3f", time["backward-input"] / f, time["backward-weight"] / f
    }' "$TABLE5") || return
  said=$("$DEBUBBLE" calibrate --device cuda $shape --links hand-over --max-time "${TIME:-20s}" --json) || return
  awk -v model="$model" -v paper="$paper" '
    /"name": "layer [FBW]"/ { part = substr($3, 1, 1) }
    /"median_ns"/ && part { gsub(/[^0-9]/, "", $2); time[part] = $2 / 1000; part = "" }
    END {
      f = time["F"]; b = time["B"]; w = time["W"]
      if (!f) exit 1
      printf "%s,%.1f,%.1f,%.1f,%.3f,%.3f,%s\n", model, f, b, w, b / f, w / f, paper
    }' <<<"$said" | tee "$WORK/gpu-ratio-$model.csv"
}

sanitizer() {
  local tool=$1 path
  for path in compute-sanitizer "${CUDA_HOME:-/usr/local/cuda}/bin/compute-sanitizer" /usr/local/cuda/compute-sanitizer/compute-sanitizer; do
    path=$(command -v "$path") || continue
    # Tests ask for more memory than there is, and every call is checked by itself: its errors are none here.
    # shellcheck disable=SC2086 # words
    DEBUBBLE_NEEDS_GPU=1 "$path" --tool "$tool" --report-api-errors no --error-exitcode 9 "$TESTS" $on_gpu --test-threads 1
    return
  done
  left_out "there is no compute-sanitizer"
}

family() {
  "$DEBUBBLE" execute --device cuda --gpus 0 --stages 4 --microbatches 8 --layers 8 $small \
    --schedule "$1" --element "$2" --steps 2 --check "${@:3}"
}

# A step by itself, so that it can be stopped when its time is over.
if [ "${1:-}" = --step ]; then
  shift
  "$@"
  exit
fi

# ---- running them

# Seconds that a stage may take, and when it began.
limit=${STAGE_SECONDS:-560}
begun=0
record=$WORK/steps.tsv

# All tables and logs as one file, and the summary of them: whatever ends the run, these are there.
pack() {
  if command -v python3 >/dev/null; then
    python3 "$SUMMARY" "$WORK" >"$OUT/summary.md.new" && mv "$OUT/summary.md.new" "$OUT/summary.md"
  else
    { echo "No python3, so only the steps:"; echo; sed 's/^/    /' "$record"; } >"$OUT/summary.md"
  fi
  tar -C "$WORK" -czf "$OUT/gpu-results.tar.gz.new" . && mv "$OUT/gpu-results.tar.gz.new" "$OUT/gpu-results.tar.gz"
}

# noted NAME STATUS SECONDS: the last line of a step counts.
noted() {
  printf '%s\t%s\t%s\n' "$@" >>"$record"
  pack
}

status_of() {
  awk -F '\t' -v name="$1" '$1 == name { status = $2 } END { print status }' "$record"
}

# step NAME SECONDS COMMAND..: runs it, for no longer than that and than its stage has left.
step() {
  local name=$1 seconds=$2 left=$((limit - SECONDS + begun)) status=0 since=$SECONDS
  shift 2
  if [ -n "${ONLY:-}" ] && [[ " $ONLY " != *" $name "* ]]; then return; fi
  if [ "${ANEW:-}" != 1 ] && [ "$(status_of "$name")" = passed ]; then
    echo "== $name: has passed"
    return
  fi
  echo "== $name"
  if [ $left -lt 5 ]; then
    echo "not run: its stage has taken its time"
    noted "$name" "not run" 0
    return
  fi
  [ "$seconds" -gt "$left" ] && seconds=$left
  timeout -k 5 "$seconds" bash "$self" --step "$@" 2>&1 | tee "$WORK/$name.log"
  status=${PIPESTATUS[0]}
  case $status in
    0) noted "$name" passed $((SECONDS - since)) ;;
    "$LEFT_OUT") noted "$name" "left out" $((SECONDS - since)) ;;
    124 | 137)
      echo "FAILED: $name, stopped after $seconds s"
      noted "$name" "FAILED: stopped" $((SECONDS - since))
      ;;
    *)
      echo "FAILED: $name"
      noted "$name" FAILED $((SECONDS - since))
      ;;
  esac
}

stage_smoke() {
  step nvidia-smi 20 queried
  step tests 180 gpu_tests $on_gpu program:: nccl:: probe::
  step parts 60 small_parts
}

stage_timed() {
  step timed-row 240 timed_row
  step timed-unequal 120 timed_unequal
  step timed-witness 120 witnessed timed 8 --timed 18.522ms,18.086ms,9.337ms
}

stage_bubbles() {
  local clocks=
  if command -v nvidia-smi >/dev/null; then
    nvidia-smi --query-gpu=timestamp,clocks.sm,clocks.mem,power.draw,temperature.gpu,clocks_throttle_reasons.active \
      --format=csv -lms 250 >"$WORK/gpu-clocks.csv" &
    clocks=$!
  fi
  step profile-alone 110 calibrated "$alone" 1
  step profile-beside-busy 130 calibrated "$busy" "$parts"
  step by-profile 120 by_profile
  step compare 90 compared
  # The layers of a stage, and its share of the ends of the model, as near as one chunk has them.
  step witness 120 witnessed kernels "$parts" --hidden "${HIDDEN:-2048}" --heads "${HEADS:-16}" \
    --seq "${SEQ:-1024}" --batch "${BATCH:-2}"
  [ -n "$clocks" ] && kill "$clocks" 2>/dev/null
  true
}

stage_more() {
  step few-microbatches 80 executed few-microbatches 6 $shape --layers "$parts" --schedule "$schedules" $judged
  step larger-microbatches 110 executed larger-microbatches "$microbatches" $sizes \
    --microbatch-size $((2 * ${BATCH:-2})) --layers "$parts" --schedule 1f1b,zb-h1 $judged
  step post-validation 130 executed post-validation "$microbatches" $shape --layers "$parts" \
    --schedule "$schedules" --boundary post-validation
  step in-a-v 150 executed in-a-v "$microbatches" $shape --layers $((2 * parts)) --schedule zb-h1,zb-v,v-half $judged
  step searched 100 executed searched "$microbatches" $shape --layers "$parts" --schedule zb-auto,zb-h1 \
    --memory-limit 1p --profile "$busy" --profile-alone "$alone" $judged
}

stage_speed() {
  step products 60 products
  step torch-products 60 torch_products
  step layers 240 layers
  step ratio-1.5B 90 ratio 1.5B 2304 24 6
  step ratio-6.2B 90 ratio 6.2B 4096 32 3
  step ratio-14.6B 90 ratio 14.6B 5120 40 1
  step ratio-28.3B 120 ratio 28.3B 6144 48 1
}

stage_correct() {
  local name element part
  step memcheck 150 sanitizer memcheck
  step racecheck 150 sanitizer racecheck
  for element in bf16 f32; do
    for name in $families; do
      step "$name-$element" 60 family "$name" "$element"
    done
    for part in full selective 1; do
      step "recompute-$part-$element" 60 family gpipe "$element" --recompute "$part"
    done
  done
}

# ---- what there is

all_stages=(smoke timed bubbles more speed correct)
stages=("$@")
if [ ${#stages[@]} = 0 ] || [ "${stages[*]}" = again ]; then stages=("${all_stages[@]}"); fi
for stage in "${stages[@]}"; do
  if ! declare -F "stage_$stage" >/dev/null; then
    echo "there is no stage $stage: ${all_stages[*]}, or again"
    exit 2
  fi
done
if [ ! -x "${DEBUBBLE:-/}" ]; then
  echo "there is no program: build it with \`cargo build --release --features nccl\`, or name it in DEBUBBLE"
  exit 2
fi
if [ -n "${RESUME:-}" ]; then
  tar -C "$WORK" -xzf "$RESUME" || exit 2
fi
[ "${ANEW:-}" = 1 ] && rm -f "$record"
touch "$record"

said=$("$DEBUBBLE" execute --device cuda --gpus 0 --stages 1 --microbatches 1 --schedule 1f1b --hidden 16 \
  --heads 2 --seq 8 --vocabulary 16 --steps 1 2>&1) || {
  case $said in
    *"--device cuda: no GPU"*)
      if [ "${DEBUBBLE_NEEDS_GPU:-1}" = 0 ]; then
        echo "skipped: no GPU (${said%%$'\n'*})"
        exit 0
      fi
      echo "there is no GPU: ${said%%$'\n'*}; DEBUBBLE_NEEDS_GPU=0 makes that no failure"
      exit 1
      ;;
  esac
  echo "$said"
  noted device FAILED 0
}
if grep '^on ' <<<"$said" | tee "$WORK/device.txt" && [ -n "$(status_of device)" ]; then noted device passed 0; fi

if [ -z "$TESTS" ] && command -v cargo >/dev/null; then
  built=$(cd "$here/.." && cargo test --release --no-run --locked -p debubble-cuda --features nccl --lib 2>&1)
  TESTS=$(sed -n 's/.*Executable .*(\(.*\))$/\1/p' <<<"$built")
  [ -n "$TESTS" ] && TESTS=$(realpath "$here/../$TESTS" 2>/dev/null || realpath "$TESTS")
fi
if [ ! -x "${TESTS:-/}" ]; then
  echo "there are no tests of the executor: name them in TESTS, or let cargo build them"
  noted tests FAILED 0
fi

for stage in "${stages[@]}"; do
  echo "==== $stage"
  begun=$SECONDS
  "stage_$stage"
  echo "==== $stage: $((SECONDS - begun)) s"
done
pack

bad=$(awk -F '\t' '{ status[$1] = $2 } END { for (name in status) if (status[name] != "passed" && status[name] != "left out") print name }' "$record" | sort | tr '\n' ' ')
echo "tables and logs: $OUT/gpu-results.tar.gz; $OUT/summary.md"
if [ -n "$bad" ]; then
  echo "failed: $bad(repeat with: again)"
  exit 1
fi
echo "all of it passed"
