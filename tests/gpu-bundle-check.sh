#!/bin/bash
# Tries the bundle of tests/gpu-bundle.sh where there is no GPU, on libraries that stand in for driver, NVRTC
# and cuBLASLt: unpacks it into an empty folder, runs all stages of gpu.sh with a tiny model, and looks at the
# two files that it leaves. Needs a C++ compiler.
set -euo pipefail
cd "$(dirname "$0")/.."
target=$(cargo metadata --locked --no-deps --format-version 1 |
  sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

fail() {
  echo "$1"
  exit 1
}

tar -C "$folder" -xzf "$target/gpu-bundle/debubble-gpu.tar.gz"
bundle=$folder/debubble-gpu
# The tests make the stand-ins beside themselves.
"$bundle/executor-tests" tests::on_stand_in::without >/dev/null
libraries=$(echo "$bundle"/stand-in-*)
mkdir "$folder/bin"
cat >"$folder/bin/nvidia-smi" <<'SMI'
#!/bin/sh
echo "name, clocks.current.sm [MHz]"
echo "Stand-in, 1980 MHz"
SMI
chmod +x "$folder/bin/nvidia-smi"

tiny="--hidden 8 --heads 1 --seq 4 --vocabulary 8 --microbatch-size 1"
run() {
  env PATH="$folder/bin:$PATH" LD_LIBRARY_PATH="$libraries/driver:$libraries/libraries" \
    OUT="$folder/out" PARTS=2 HIDDEN=8 HEADS=1 SEQ=4 VOCABULARY=8 BATCH=1 WARM_UP=1 STEPS=1 MICROBATCHES=4 \
    TIME=1s TIMED_STEPS=3 POINTS=any TIMED_POINTS=100 TIMED="--schedule 1f1b,zb-h1,zb-auto" SMALL="$tiny" RATIO_SHAPE="$tiny" PRODUCTS_WIDTH=16 \
    bash "$bundle/gpu.sh" "$@" >"$folder/said" 2>&1
}

# What a busy machine makes of bubbles is not a fault of the script: bars are wide.
run || { cat "$folder/said"; fail "gpu.sh has failed on stand-ins"; }
[ "$(ls "$folder/out" | tr '\n' ' ')" = "gpu-results.tar.gz summary.md " ] || fail "other files than two: $(ls "$folder/out")"
grep -q "^| timed stages | zb-auto |" "$folder/out/summary.md" || fail "the summary has no timed stages"
grep -q "^| timed stages, unequal microbatches | zb-h1 |" "$folder/out/summary.md" || fail "the summary has no unequal microbatches"
grep -q "^| searched | zb-auto |" "$folder/out/summary.md" || fail "the summary has no searched order"
if grep -q "FAILED\|not run" "$folder/out/summary.md"; then fail "the summary has failed steps"; fi
for part in measured-gpu-timed.csv passes-gpu-by-profile.csv gpu-part-alone.toml gpu-ratio-1.5B.csv steps.tsv; do
  tar -tzf "$folder/out/gpu-results.tar.gz" "./$part" >/dev/null || fail "the results lack $part"
done
cat "$folder/out/summary.md"

# What has passed is not repeated, also where only the results are left.
rm -rf "$bundle/gpu-work"
cp "$folder/out/gpu-results.tar.gz" "$folder/before.tar.gz"
RESUME=$folder/before.tar.gz run again || { cat "$folder/said"; fail "gpu.sh has failed in going on"; }
[ "$(grep -c ": has passed" "$folder/said")" -gt 40 ] || { cat "$folder/said"; fail "steps were repeated"; }

# A step that fails is told, and all else is there.
if ONLY="parts timed-row" ANEW=1 TESTS=/bin/false run smoke timed; then :; else fail "two steps have failed"; fi
if ONLY="tests parts" TESTS=/bin/false ANEW=1 run smoke; then fail "a failure was not noticed"; fi
grep -q "^| tests | FAILED |" "$folder/out/summary.md" || fail "the summary does not tell the failure"
echo "the bundle runs on stand-ins"
