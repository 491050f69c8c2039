//! The tables of a profile's file, as TOML spells them.

use pipeline::{Bytes, Footprint};
use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::document::{MAX_BYTES, MAX_NANOS};
use super::{Machine, ModelShape};

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Document {
    pub(super) version: Spanned<u64>,
    pub(super) half_width: Spanned<f64>,
    pub(super) machine: MachineDocument,
    pub(super) model: Spanned<ModelDocument>,
    pub(super) overhead: Spanned<QuantityDocument>,
    pub(super) layer: PartDocument,
    pub(super) embedding: PartDocument,
    pub(super) head: PartDocument,
    pub(super) optimizer: OptimizerDocument,
    #[serde(default)]
    pub(super) link: Vec<LinkDocument>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct MachineDocument {
    pub(super) cpu: String,
    pub(super) cores: u64,
    pub(super) os: String,
    pub(super) device: String,
    pub(super) driver: Option<String>,
    pub(super) clocks: Option<String>,
    pub(super) pinned: bool,
    #[serde(default)]
    pub(super) neighbours: u64,
    pub(super) date: String,
    pub(super) program: String,
    pub(super) remark: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct ModelDocument {
    pub(super) hidden: usize,
    pub(super) heads: usize,
    pub(super) seq: usize,
    pub(super) microbatch_size: usize,
    pub(super) vocabulary: usize,
    pub(super) element: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct PartDocument {
    pub(super) footprint: FootprintDocument,
    pub(super) forward: Spanned<QuantityDocument>,
    pub(super) backward_input: Spanned<QuantityDocument>,
    pub(super) backward_weight: Spanned<QuantityDocument>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OptimizerDocument {
    pub(super) parameters: Spanned<u64>,
    pub(super) step: Spanned<QuantityDocument>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct FootprintDocument {
    pub(super) until_backward: Size,
    pub(super) until_weight: Size,
}

/// Times in nanoseconds.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct QuantityDocument {
    pub(super) median: Option<Time>,
    /// Ends of the 95 % confidence interval.
    pub(super) low: Option<Time>,
    pub(super) high: Option<Time>,
    pub(super) count: Option<u64>,
    pub(super) outliers: Option<u64>,
    pub(super) verdict: Option<String>,
    pub(super) samples: Vec<Time>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct LinkDocument {
    pub(super) kind: Spanned<String>,
    /// The fit, in nanoseconds.
    pub(super) latency: Option<u64>,
    pub(super) per_mib: Option<u64>,
    pub(super) worst_residual_per_mille: Option<u64>,
    #[serde(default)]
    pub(super) message: Vec<MessageDocument>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct MessageDocument {
    pub(super) bytes: Size,
    pub(super) pairs: Spanned<u64>,
    pub(super) both_ways: bool,
    pub(super) time: Spanned<QuantityDocument>,
}

/// A time in nanoseconds that a clock can show.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq)]
#[serde(try_from = "i64")]
pub(super) struct Time(pub(super) u64);

impl TryFrom<i64> for Time {
    type Error = String;

    fn try_from(nanos: i64) -> Result<Self, String> {
        let within = u64::try_from(nanos).ok().filter(|&nanos| nanos <= MAX_NANOS);
        within.map(Self).ok_or_else(|| {
            format!("{nanos} is no time: nanoseconds are whole numbers from 0 to {MAX_NANOS}")
        })
    }
}

/// A size in bytes.
#[derive(Serialize, Deserialize, Clone, Copy)]
#[serde(try_from = "i64")]
pub(super) struct Size(pub(super) u64);

impl TryFrom<i64> for Size {
    type Error = String;

    fn try_from(bytes: i64) -> Result<Self, String> {
        let within = u64::try_from(bytes).ok().filter(|&bytes| bytes <= MAX_BYTES);
        within.map(Self).ok_or_else(|| {
            format!("{bytes} is no size: bytes are whole numbers from 0 to {MAX_BYTES}")
        })
    }
}

#[derive(Deserialize)]
pub(super) struct VersionOnly {
    pub(super) version: Spanned<u64>,
}

impl From<FootprintDocument> for Footprint {
    fn from(document: FootprintDocument) -> Self {
        let [until_backward, until_weight] = [document.until_backward, document.until_weight];
        Self { until_backward: Bytes(until_backward.0), until_weight: Bytes(until_weight.0) }
    }
}

impl From<Footprint> for FootprintDocument {
    fn from(footprint: Footprint) -> Self {
        let Footprint { until_backward, until_weight } = footprint;
        Self { until_backward: Size(until_backward.0), until_weight: Size(until_weight.0) }
    }
}

impl From<ModelShape> for ModelDocument {
    fn from(shape: ModelShape) -> Self {
        let model = shape.one_layer();
        Self {
            hidden: model.hidden(),
            heads: model.heads(),
            seq: model.sequence(),
            microbatch_size: model.microbatch_size(),
            vocabulary: model.vocabulary(),
            element: shape.element().name().to_owned(),
        }
    }
}

macro_rules! same_fields {
    ($($from:ident => $to:ident),*) => {$(
        impl From<$from> for $to {
            fn from(machine: $from) -> Self {
                let $from { cpu, cores, os, device, driver, clocks, .. } = machine;
                let $from { pinned, neighbours, date, program, remark, .. } = machine;
                Self {
                    cpu, cores, os, device, driver, clocks, pinned, neighbours, date, program, remark,
                }
            }
        }
    )*};
}
same_fields!(Machine => MachineDocument, MachineDocument => Machine);
