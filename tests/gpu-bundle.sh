#!/bin/bash
# Packs what tests/gpu.sh needs on a machine with a GPU into target/gpu-bundle: the program and the
# tests of the executor, both built to be handed out (profile dist) with NCCL, without symbols, and the
# figures that the results are held against. Fails if the bundle is larger than 40 MB, or 20 MB packed.
set -euo pipefail
cd "$(dirname "$0")/.."
target=$(cargo metadata --locked --no-deps --format-version 1 |
  sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
bundle=$target/gpu-bundle/debubble-gpu

cargo build --profile dist --locked --features nccl,parquet
built=$(cargo test --profile dist --no-run --locked -p debubble-cuda --features nccl --lib 2>&1) ||
  { echo "$built"; exit 1; }
tests=$(sed -n 's/.*Executable .*(\(.*\))$/\1/p' <<<"$built")

rm -rf "$bundle"
mkdir -p "$bundle/scenarios/paper" "$bundle/scenarios/execute" "$bundle/scenarios/examples"
strip -o "$bundle/debubble" "$target/dist/debubble"
strip -o "$bundle/executor-tests" "$tests"
cp tests/gpu.sh tests/gpu_summary.py tests/gpu_torch.py tests/gpu_layers.py "$bundle/"
cp scenarios/paper/table5.toml "$bundle/scenarios/paper/"
cp scenarios/execute/table5-row.toml "$bundle/scenarios/execute/"
cp scenarios/examples/unequal-microbatches.toml "$bundle/scenarios/examples/"
tar -C "$target/gpu-bundle" -czf "$target/gpu-bundle/debubble-gpu.tar.gz" debubble-gpu

bytes=$(du -sb "$bundle" | cut -f1)
packed=$(stat -c %s "$target/gpu-bundle/debubble-gpu.tar.gz")
echo "$bundle: $((bytes / 1000)) kB, packed $((packed / 1000)) kB"
if [ "$bytes" -gt 40000000 ] || [ "$packed" -gt 20000000 ]; then
  echo "the bundle is larger than 40 MB, or than 20 MB packed"
  exit 1
fi
