#!/bin/bash
# What is measured on a GPU: its tests, a profile of one of 8 parts of it, five schedules on 8 parts
# beside their simulation, the F : B : W of the models of the Zero Bubble paper beside those of its
# A100s, and the speed of the products of a layer.
#   tests/gpu.sh target/release/debubble
# Says "skipped" and succeeds where there is no GPU. Writes results/ and scenarios/profiles/ where
# there is one; exits 1 if a measured bubble rate is off by more than 2 points.
set -euo pipefail
program=$(realpath "${1:-target/release/debubble}")
cd "$(dirname "$0")/.."
# The driver has 8 queues to a GPU unless it is told before it starts, and stages have two each.
export CUDA_DEVICE_MAX_CONNECTIONS=32

try=0
said=$("$program" execute --device cuda --stages 1 --microbatches 1 --schedule 1f1b --hidden 16 \
  --heads 2 --seq 8 --vocabulary 16 --steps 1 2>&1) || try=$?
if [ $try != 0 ]; then
  case $said in
    *"is missing"* | *"without CUDA"*)
      echo "skipped: no GPU (${said%%$'\n'*})"
      exit 0
      ;;
  esac
  echo "$said"
  exit 1
fi
echo "$said" | grep '^on '

echo "== tests"
cargo test --quiet --locked -p executor --features cuda,nccl --lib -- cuda::
mkdir -p results scenarios/profiles

echo "== speed of products, h=4096, s=1024, b=3"
cargo test --quiet --release --locked -p executor --features cuda --lib -- --ignored --nocapture \
  speed_of_the_products | tee results/gpu-products.txt

# The shape whose stages run below.
shape="--hidden 2048 --heads 16 --seq 1024 --microbatch-size 1 --vocabulary 8192"

echo "== a profile of one of 8 parts"
"$program" calibrate --device cuda --partition 8 $shape --out scenarios/profiles/gpu-part-of-8.toml

echo "== F : B : W of a layer, and of the paper's A100"
{
  echo "model,forward_us,backward_input_us,backward_weight_us,b_over_f,w_over_f,b_over_f_a100,w_over_f_a100"
  while read -r model hidden heads size; do
    paper=$(awk -v model="\"$model " '
      /^name/ { here = index($0, model) }
      here && /^(forward|backward)/ { gsub(/[^0-9]/, "", $3); time[$1] = $3 }
      here && /^backward-weight/ { exit }
      END {
        f = time["forward"]
        printf "%.3f,%.3f", time["backward-input"] / f, time["backward-weight"] / f
      }' scenarios/paper/table5.toml)
    "$program" calibrate --device cuda --hidden "$hidden" --heads "$heads" --seq 1024 \
      --microbatch-size "$size" --vocabulary 1024 --links hand-over --max-time 20s --json |
      awk -v model="$model" -v paper="$paper" '
        /"name": "layer [FBW]"/ { part = substr($3, 1, 1) }
        /"median_ns"/ && part { gsub(/[^0-9]/, "", $2); time[part] = $2 / 1000; part = "" }
        END {
          f = time["F"]; b = time["B"]; w = time["W"]
          printf "%s,%.1f,%.1f,%.1f,%.3f,%.3f,%s\n", model, f, b, w, b / f, w / f, paper
        }'
  done <<'MODELS'
1.5B 2304 24 6
6.2B 4096 32 3
14.6B 5120 40 1
28.3B 6144 48 1
MODELS
} >results/gpu-ratios.csv
cat results/gpu-ratios.csv

echo "== five schedules on 8 parts"
"$program" execute --device cuda --gpus 0 --stages 8 --microbatches 24 --layers 16 $shape \
  --schedule 1f1b,zb-h1,zb-h2,zb-2p,zb-v --warm-up 2 --steps 5 --csv results/measured-gpu.csv \
  --fail-above 2
