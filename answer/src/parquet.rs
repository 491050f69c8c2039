//! What a build without Parquet says where Parquet is asked for.

/// Whether tables of sweeps and traces may be Parquet in this build.
pub const IS_BUILT: bool = cfg!(feature = "parquet");

/// What is missing.
pub const MISSING: &str = "this build of debubble has no Parquet";

/// How to get a build that has it.
pub const CURE: &str = "`cargo build --release --features parquet` builds one that has it, and \
    published binaries and wheels have it";
