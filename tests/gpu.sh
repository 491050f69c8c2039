#!/bin/bash
# What is to be seen on a GPU, in four stages of less than eight minutes each:
#   smoke     driver, libraries, parts of the GPU; the tests that need a GPU
#   correct   the same under compute-sanitizer where it is installed; every family of schedules
#             against the model in one piece, in bf16 and f32
#   bubbles   a profile of one of 8 parts while the others compute; five schedules on 8 parts beside
#             their simulation by the times measured and by that profile; 6 and 24 microbatches;
#             post-validation; what a difference is made of
#   speed     products of a layer, beside torch's where it is installed; F : B : W of the models of the
#             Zero Bubble paper, beside those of its A100s
#
#   tests/gpu.sh [STAGE..]   [all four]; `again` repeats what failed in the last run
#
# Goes on after a failure, and exits 1 at the end if there was one. Says "skipped" and succeeds where
# there is no driver or no GPU, unless DEBUBBLE_NEEDS_GPU=1. Needs neither cargo nor a network where
# these are beside it or named:
#   DEBUBBLE   the program                 [beside this, or target/release/debubble]
#   TESTS      the tests of the executor   [executor-tests beside this, or built by cargo]
#   OUT        the folder of the results   [results]
#   ONLY       names of steps; all others are left out
set -uo pipefail
self=$(realpath "$0")
here=$(dirname "$self")

# What is needed, beside this script or where it lies in the project.
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
OUT=${OUT:-results}
mkdir -p "$OUT" || exit 2
OUT=$(realpath "$OUT")
# The driver has 8 queues to a GPU unless it is told before it starts, and stages have two each.
export CUDA_DEVICE_MAX_CONNECTIONS=${CUDA_DEVICE_MAX_CONNECTIONS:-32}
export DEBUBBLE TESTS TABLE5 OUT

# ---- steps

# The shape whose stages run on parts of the GPU.
shape="--hidden ${HIDDEN:-2048} --heads ${HEADS:-16} --seq ${SEQ:-1024} --microbatch-size 1 --vocabulary ${VOCABULARY:-8192}"
small=${SMALL:---hidden 128 --heads 4 --seq 64 --microbatch-size 2 --vocabulary 512}
parts=${PARTS:-8}
layers=$((2 * parts))
schedules=${SCHEDULES:-1f1b,zb-h1,zb-h2,zb-2p,zb-v}
# All that the executor runs on a GPU: not copies to the host, segments, or the output layer in shards.
families=${FAMILIES:-gpipe 1f1b 1f1b-i zb-h1 zb-h2 zb-heuristic zb-1p zb-2p zb-v v-min v-half v-min-timed v-half-timed v-adaptive 1f1b-v gis gis-h hanayo v-zb dualpipe dualpipe-v chimera pipedream pipedream-2bw}
pipeline="--device cuda --gpus 0 --stages $parts --layers $layers $shape --warm-up ${WARM_UP:-10} --steps ${STEPS:-20}"
profile=$OUT/gpu-part-of-$parts.toml

# The tests that need a GPU, but no source and no compiler.
on_gpu="cuda::tests::gpu cuda::tests::model cuda::tests::operations"

gpu_tests() { DEBUBBLE_NEEDS_GPU=1 "$TESTS" "$@" --test-threads 1 --nocapture; }

queried() {
  if ! command -v nvidia-smi >/dev/null; then
    echo "left out: there is no nvidia-smi"
    return
  fi
  nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.sm,clocks.max.sm,clocks.mem,power.limit --format=csv
}

sanitizer() {
  local tool=$1 path
  for path in compute-sanitizer "${CUDA_HOME:-/usr/local/cuda}/bin/compute-sanitizer" /usr/local/cuda/compute-sanitizer/compute-sanitizer; do
    path=$(command -v "$path") || continue
    # shellcheck disable=SC2086 # words
    DEBUBBLE_NEEDS_GPU=1 "$path" --tool "$tool" --error-exitcode 9 "$TESTS" $on_gpu --test-threads 1
    return
  done
  echo "left out: there is no compute-sanitizer"
}

family() {
  "$DEBUBBLE" execute --device cuda --gpus 0 --stages 4 --microbatches 8 --layers 8 $small \
    --schedule "$1" --element "$2" --steps 2 --check "${@:3}"
}

calibrated() {
  "$DEBUBBLE" calibrate --device cuda --partition "$parts" --workers "$parts" $shape \
    --max-time "${TIME:-60s}" --out "$profile"
}

# Five schedules: microbatches, name of the table, and what is asked besides.
executed() {
  local microbatches=$1 name=$2
  shift 2
  "$DEBUBBLE" execute $pipeline --microbatches "$microbatches" --schedule "$schedules" \
    --csv "$OUT/measured-gpu-$name.csv" --passes "$OUT/passes-gpu-$name.csv" "$@"
}

compared() {
  local predicted=$OUT/predicted-gpu.json measured=$OUT/measured-gpu.json
  "$DEBUBBLE" simulate --profile "$profile" --layers $layers --stages "$parts" --microbatches 24 \
    --schedule zb-h1 --gantt never --timeline "$predicted" &&
    "$DEBUBBLE" execute $pipeline --profile "$profile" --microbatches 24 --schedule zb-h1 \
      --timeline "$measured" &&
    "$DEBUBBLE" compare "$predicted" "$measured"
}

products() {
  gpu_tests --ignored speed_of_the_products | tee "$OUT/gpu-products.txt"
}

# The same products by torch.
torch_products() {
  python3 - <<'PYTHON' | tee "$OUT/gpu-products-torch.txt"
try:
    import torch
except ImportError:
    print("left out: there is no torch")
    raise SystemExit
tokens, h = 3 * 1024, 4096
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

# F : B : W of a layer, and of the paper's A100: name, hidden size, heads, microbatch size.
ratio() {
  local model=$1 paper said
  paper=$(awk -v model="\"$model " '
    /^name/ { here = index($0, model) }
    here && /^(forward|backward)/ { gsub(/[^0-9]/, "", $3); time[$1] = $3 }
    here && /^backward-weight/ { exit }
    END {
      f = time["forward"]
      if (!f) exit 1
      printf "%.3f,%.3f", time["backward-input"] / f, time["backward-weight"] / f
    }' "$TABLE5") || return
  said=$("$DEBUBBLE" calibrate --device cuda --hidden "$2" --heads "$3" --seq "${SEQ:-1024}" \
    --microbatch-size "$4" --vocabulary 1024 --links hand-over --max-time "${TIME:-20s}" --json) || return
  awk -v model="$model" -v paper="$paper" '
    /"name": "layer [FBW]"/ { part = substr($3, 1, 1) }
    /"median_ns"/ && part { gsub(/[^0-9]/, "", $2); time[part] = $2 / 1000; part = "" }
    END {
      f = time["F"]; b = time["B"]; w = time["W"]
      if (!f) exit 1
      printf "%s,%.1f,%.1f,%.1f,%.3f,%.3f,%s\n", model, f, b, w, b / f, w / f, paper
    }' <<<"$said" | tee -a "$OUT/gpu-ratios.csv"
}

# A step by itself, so that it can be stopped when its time is over.
if [ "${1:-}" = --step ]; then
  shift
  "$@"
  exit
fi

# ---- running them

failed=()
# Seconds that a stage may take, and when it began.
limit=470
begun=0

# step NAME SECONDS COMMAND..: runs it, for no longer than that and than its stage has left.
step() {
  local name=$1 seconds=$2 left=$((limit - SECONDS + begun)) status=0
  shift 2
  if [ -n "${ONLY:-}" ] && [[ " $ONLY " != *" $name "* ]]; then return; fi
  echo "== $name"
  if [ $left -lt 5 ]; then
    echo "not run: its stage has taken its time"
    failed+=("$name")
    return
  fi
  [ "$seconds" -gt "$left" ] && seconds=$left
  timeout -k 5 "$seconds" bash "$self" --step "$@" || status=$?
  [ $status = 0 ] && return
  [ $status = 124 ] && echo "stopped after $seconds s"
  echo "FAILED: $name"
  failed+=("$name")
}

stage_smoke() {
  step nvidia-smi 20 queried
  step tests 120 gpu_tests $on_gpu cuda::program cuda::nccl cuda::probe
  step parts 60 "$DEBUBBLE" execute --device cuda --gpus 0 --stages "$parts" --microbatches 8 --layers "$parts" $small \
    --schedule zb-h1 --steps 2 --check
}

stage_correct() {
  local name element
  for element in bf16 f32; do
    for name in $families; do
      step "$name-$element" 60 family "$name" "$element"
    done
    for part in full selective 1; do
      step "recompute-$part-$element" 60 family gpipe "$element" --recompute "$part"
    done
  done
  step memcheck 150 sanitizer memcheck
  step racecheck 150 sanitizer racecheck
}

stage_bubbles() {
  local clocks=
  if command -v nvidia-smi >/dev/null; then
    nvidia-smi --query-gpu=timestamp,clocks.sm,clocks.mem,power.draw,temperature.gpu,clocks_throttle_reasons.active \
      --format=csv -lms 250 >"$OUT/gpu-clocks.csv" &
    clocks=$!
  fi
  step profile 150 calibrated
  step medians 90 executed 24 medians --fail-above 2
  step by-profile 90 executed 24 by-profile --profile "$profile" --fail-steps-above 10
  step few-microbatches 60 executed 6 few-microbatches --fail-above 2
  step post-validation 60 executed 24 post-validation --boundary post-validation
  step compare 60 compared
  [ -n "$clocks" ] && kill "$clocks" 2>/dev/null
  true
}

stage_speed() {
  if [ -z "${ONLY:-}" ]; then
    echo "model,forward_us,backward_input_us,backward_weight_us,b_over_f,w_over_f,b_over_f_a100,w_over_f_a100" >"$OUT/gpu-ratios.csv"
  fi
  step products 60 products
  step torch-products 60 torch_products
  step ratio-1.5B 90 ratio 1.5B 2304 24 6
  step ratio-6.2B 90 ratio 6.2B 4096 32 3
  step ratio-14.6B 90 ratio 14.6B 5120 40 1
  step ratio-28.3B 120 ratio 28.3B 6144 48 1
}

# ---- what there is

stages=("$@")
[ ${#stages[@]} = 0 ] && stages=(smoke correct bubbles speed)
if [ "${stages[*]}" = again ]; then
  ONLY=$(tr '\n' ' ' <"$OUT/failed" 2>/dev/null)
  if [ -z "${ONLY// /}" ]; then
    echo "nothing failed in the last run: $OUT/failed names nothing"
    exit 0
  fi
  stages=(smoke correct bubbles speed)
fi
for stage in "${stages[@]}"; do
  if ! declare -F "stage_$stage" >/dev/null; then
    echo "there is no stage $stage: smoke, correct, bubbles, speed, or again"
    exit 2
  fi
done
if [ ! -x "${DEBUBBLE:-/}" ]; then
  echo "there is no program: build it with \`cargo build --release --features nccl\`, or name it in DEBUBBLE"
  exit 2
fi

said=$("$DEBUBBLE" execute --device cuda --gpus 0 --stages 1 --microbatches 1 --schedule 1f1b --hidden 16 \
  --heads 2 --seq 8 --vocabulary 16 --steps 1 2>&1) || {
  case $said in
    *"--device cuda: no GPU"*)
      if [ "${DEBUBBLE_NEEDS_GPU:-}" = 1 ]; then
        echo "DEBUBBLE_NEEDS_GPU=1, but there is no GPU: ${said%%$'\n'*}"
        exit 1
      fi
      echo "skipped: no GPU (${said%%$'\n'*})"
      exit 0
      ;;
  esac
  echo "$said"
  failed+=(device)
}
echo "$said" | grep '^on '

if [ -z "$TESTS" ] && command -v cargo >/dev/null; then
  built=$(cd "$here/.." && cargo test --release --no-run --locked -p debubble-executor --features cuda,nccl --lib 2>&1)
  TESTS=$(sed -n 's/.*Executable .*(\(.*\))$/\1/p' <<<"$built")
  [ -n "$TESTS" ] && TESTS=$(realpath "$here/../$TESTS" 2>/dev/null || realpath "$TESTS")
fi
if [ ! -x "${TESTS:-/}" ]; then
  echo "there are no tests of the executor: name them in TESTS, or let cargo build them"
  failed+=(tests)
fi

for stage in "${stages[@]}"; do
  echo "==== $stage"
  begun=$SECONDS
  "stage_$stage" > >(tee "$OUT/gpu-$stage.log") 2>&1
  wait $! 2>/dev/null
  echo "==== $stage: $((SECONDS - begun)) s"
done

printf '%s\n' "${failed[@]}" | sed '/^$/d' | sort -u >"$OUT/failed"
if [ -s "$OUT/failed" ]; then
  echo "failed: $(tr '\n' ' ' <"$OUT/failed")(repeat with: again)"
  exit 1
fi
echo "all of it passed"
