//! JSON schemas of times, sizes, rates and limits (feature `schema`).
//!
//! Each is a text. The patterns, in the syntax of ECMAScript, hold for every text that is read; texts that
//! hold them can still be refused, for a value that is too large or too fine.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::{Bandwidth, Bytes, LayerLayout, Limit, Nanos};

macro_rules! number {
    ($behind:literal) => {
        concat!(r"\+?([0-9_]+\.?[0-9_]*|\.[0-9_]+)([eE][+-]?[0-9]+)?", $behind)
    };
}

/// The pattern of a time, to stand between `^` and `$`.
pub const TIME: &str = number!(r"\s*([num\u00b5\u03bc]?s|[NUM]?S|min|MIN|h|H)\s*");
/// The pattern of a size.
const SIZE: &str = number!(r"\s*([kmgt]?b|[kKMGT]?B|[kmgt]ib|[KMGT]iB|[KMGT]IB)\s*");
/// The pattern of a size over that of the activations of p microbatches.
const TIMES_P: &str = number!(r"\s*[pP]");
/// The pattern of a data rate.
const RATE: &str = number!(r"\s*([kmgtKMGT][iI]?)?(B/s|Bps|bit/s|bps)");

macro_rules! quantity {
    ($($type:ty: $name:literal, $description:literal, $pattern:expr, [$($example:literal),*];)*) => {$(
        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                $name.into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({
                    "type": "string",
                    "description": $description,
                    "pattern": $pattern,
                    "examples": [$($example),*],
                })
            }
        }
    )*};
}

quantity! {
    Nanos: "Time", "A time in ns, us, ms, s, min or h, to the nanosecond.",
        format!("^{TIME}$"), ["29.718ms", "500us", "1e-3s"];
    Bytes: "Size", "A size in B, kB, MB, GB, TB, KiB, MiB, GiB or TiB.",
        format!(r"^{SIZE}$"), ["38GiB", "40GB"];
    Bandwidth: "Rate", "A data rate in bytes or bits per second.",
        format!(r"^\s*{RATE}\s*$"), ["300GB/s", "200Gbit/s"];
    Limit: "MemoryLimit", "A memory limit: times the activations of p microbatches on one stage, or a size.",
        format!(r"^({TIMES_P}|{SIZE})$"), ["1.5p", "38GiB"];
    LayerLayout: "LayerLayout", "Layers of each chunk in model order, as Megatron-LM writes them: E embedding, t transformer layer, m MTP layer, L loss, | ends a chunk, *n repeats what is before it, a symbol or a group in parentheses.",
        r"^[EtmL|()*,0-9]+$", ["Et*4|(t*4|)*14tmL"];
}
