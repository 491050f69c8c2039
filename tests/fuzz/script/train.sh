#!/bin/bash
NODES=${SLURM_NNODES:-2}
LAYERS=$((4 * (6 + 2)))
MODEL=(
  --num-layers $LAYERS --hidden-size 4096 # sizes
  --num-attention-heads 32 --group-query-attention --num-query-groups 8
  --seq-length=8192 --vocab_size 128256
)
if [[ "$NODES" == "2" ]]; then
  MODEL+=("--micro-batch-size 1" --global-batch-size 128)
else
  MODEL+=(--global-batch-size 64)
fi
case "$NODES" in
  1|2) EXTRA="--sequence-parallel" ;;
  *) EXTRA='' ;;
esac
for i in 1 2; do echo $i; done
[ -n "$EXTRA" ] && EXTRA="$EXTRA --bf16"
torchrun --nproc_per_node 8 --nnodes $NODES pretrain_gpt.py "${MODEL[@]}" $EXTRA \
  --num-experts 8 --moe-layer-freq '[0]*3+[1]*29' --pipeline-model-parallel-layout 'Et*16|t*16L'
