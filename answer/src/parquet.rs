//! Whether this build reads and writes Parquet, and the message of one that does not.

/// Whether tables of sweeps and traces may be Parquet in this build.
pub const IS_BUILT: bool = cfg!(feature = "parquet");

/// Message of a build without Parquet.
pub const MISSING: &str = "this build of debubble has no Parquet";

/// How to get a build that has it.
pub const CURE: &str = "`cargo build --release --features parquet` builds one that has it, and \
    published binaries and wheels have it";
