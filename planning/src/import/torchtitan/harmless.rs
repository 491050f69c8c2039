//! Keys that change neither the time of a step nor its memory, or that a plan assumes anyway.

/// Tables of such keys.
const TABLES: [&str; 19] = [
    "job.",
    "profiling.",
    "profiler.",
    "metrics.",
    "lr-scheduler.",
    "checkpoint.",
    "comm.",
    "validation.",
    "validator.",
    "fault-tolerance.",
    "memory-estimation.",
    "debug.",
    "experimental.",
    "dataloader.",
    "tokenizer.",
    // Of formats that no converter turns on.
    "quantize.",
    "float8.",
    "mx.",
    // Kernels of Primus.
    "primus-turbo.",
];

/// Further keys.
const NAMES: [&str; 32] = [
    "model.hf-assets-path",
    "model.tokenizer-path",
    "model.norm-type",
    "model.print-after-conversion",
    "optimizer.name",
    "optimizer.lr",
    "optimizer.eps",
    "optimizer.beta1",
    "optimizer.beta2",
    "optimizer.weight-decay",
    "optimizer.implementation",
    "training.dataset",
    "training.dataset-path",
    "training.max-norm",
    "training.gc-freq",
    "training.gc-debug",
    "training.seed",
    "training.deterministic",
    "training.warmup-steps",
    "training.mock-data",
    "training.mixed-precision-param",
    "training.mixed-precision-reduce",
    "compile.backend",
    "activation-checkpoint.early-stop",
    "activation-checkpoint.preserve-rng-state",
    "activation-checkpoint.per-op-sac-force-recompute-mm-shapes-by-fqns",
    "parallelism.context-parallel-load-balancer",
    "hf-assets-path",
    "sink-level",
    "parallelism.spmd-backend",
    "stderr-sink-level",
    "file-sink-level",
];

/// Whether the key `name` is one of them.
pub(super) fn is(name: &str) -> bool {
    NAMES.contains(&name) || TABLES.iter().any(|table| name.starts_with(table))
}
