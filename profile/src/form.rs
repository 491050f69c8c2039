//! The tables of a profile's file, as TOML spells them.

use pipeline::{Bytes, Footprint};
use serde::{Deserialize, Serialize};
use toml::Spanned;

use crate::limits::MAX_NANOS;
use crate::link::Message;
use crate::profile::{Machine, Optimizer, Part};
use crate::shape::ModelShape;
use crate::size::Size;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Document {
    pub(crate) version: Spanned<u64>,
    pub(crate) half_width: Spanned<f64>,
    pub(crate) machine: Machine,
    pub(crate) model: Spanned<ModelDocument>,
    pub(crate) overhead: Spanned<QuantityDocument>,
    pub(crate) layer: PartDocument,
    pub(crate) embedding: PartDocument,
    pub(crate) head: PartDocument,
    pub(crate) optimizer: OptimizerDocument,
    #[serde(default)]
    pub(crate) link: Vec<LinkDocument>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct ModelDocument {
    pub(crate) hidden: usize,
    pub(crate) heads: usize,
    pub(crate) seq: usize,
    pub(crate) microbatch_size: usize,
    pub(crate) vocabulary: usize,
    pub(crate) element: String,
}

pub(crate) type PartDocument = Part<Spanned<QuantityDocument>, FootprintDocument>;
pub(crate) type OptimizerDocument = Optimizer<Spanned<QuantityDocument>, Spanned<u64>>;
pub(crate) type MessageDocument = Message<Spanned<QuantityDocument>, Spanned<u64>>;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct FootprintDocument {
    pub(crate) until_backward: Size,
    pub(crate) until_weight: Size,
}

/// Times in nanoseconds.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct QuantityDocument {
    pub(crate) median: Option<Time>,
    /// Ends of the 95 % confidence interval.
    pub(crate) low: Option<Time>,
    pub(crate) high: Option<Time>,
    pub(crate) count: Option<u64>,
    pub(crate) outliers: Option<u64>,
    pub(crate) verdict: Option<String>,
    pub(crate) samples: Vec<Time>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct LinkDocument {
    pub(crate) kind: Spanned<String>,
    /// The fit, in nanoseconds.
    pub(crate) latency: Option<u64>,
    pub(crate) per_mib: Option<u64>,
    pub(crate) worst_residual_per_mille: Option<u64>,
    #[serde(default)]
    pub(crate) message: Vec<MessageDocument>,
}

/// A time in nanoseconds that a clock can show.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq)]
#[serde(try_from = "i64")]
pub(crate) struct Time(pub(crate) u64);

impl TryFrom<i64> for Time {
    type Error = String;

    fn try_from(nanos: i64) -> Result<Self, String> {
        let within = u64::try_from(nanos).ok().filter(|&nanos| nanos <= MAX_NANOS);
        within.map(Self).ok_or_else(|| {
            format!("{nanos} is not a time: nanoseconds are whole numbers from 0 to {MAX_NANOS}")
        })
    }
}

/// Read before all else.
#[derive(Deserialize)]
pub(crate) struct First {
    pub(crate) version: Spanned<u64>,
    pub(crate) kind: Option<Spanned<String>>,
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
