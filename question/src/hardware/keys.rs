//! The keys of a question that say what the pipeline runs on.

use std::fmt;
use std::str::FromStr;

use pipeline::{Bytes, Nanos};
use serde::Deserialize;
use sim::Sharing;
use sim::cluster::Seating;
use sim::engine::Protocol;
use thiserror::Error;

use crate::key_set::{key_set, list, text};
use crate::text_form::text_form;

/// The keys of a question about the cluster, transfers, memory and the step boundary.
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(transform = crate::schema::one_or_many))]
#[derive(Deserialize, Clone, Default, PartialEq, Debug)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[cfg_attr(feature = "clap", command(next_help_heading = "Cluster, memory and step boundary"))]
pub struct HardwareKeys {
    /// Cluster of the pipeline: dgx-a100, dgx-h100, dgx-h200, a100-roce, a100-pcie, or a file of
    /// that form, in a scenario first looked for in its folder [default: links that are never
    /// shared, with --hop]
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME|FILE"))]
    pub cluster: Option<String>,
    /// Which device each stage sits on: contiguous, across-nodes, or a list such as 0,0,1,1
    /// [default: contiguous]
    #[cfg_attr(feature = "clap", arg(long, value_name = "HOW"))]
    #[serde(deserialize_with = "text")]
    pub seating: Option<SeatingKey>,
    /// Size of one output or gradient [default: 2 bytes x hidden x seq x microbatch-size]
    #[cfg_attr(feature = "clap", arg(long, value_name = "SIZE", allow_hyphen_values = true))]
    #[serde(deserialize_with = "text")]
    pub message: Option<Bytes>,
    /// How transfers share a wire: fair (at once, max-min) or queue (one by one) [default: fair]
    #[cfg_attr(feature = "clap", arg(long, value_name = "HOW"))]
    #[serde(deserialize_with = "text")]
    pub sharing: Option<SharingKey>,
    /// When a transfer begins: eager, or rendezvous:AHEAD, when the receiver is AHEAD slots before
    /// the one that needs it, one by one between two stages [default: eager]
    #[cfg_attr(feature = "clap", arg(long, value_name = "HOW"))]
    #[serde(deserialize_with = "text")]
    pub protocol: Option<ProtocolKey>,
    /// Whether communication is overlapped, or blocking: on the compute stream
    /// [default: overlapped]
    #[cfg_attr(feature = "clap", arg(long, value_name = "HOW"))]
    #[serde(deserialize_with = "text")]
    pub communication: Option<CommunicationKey>,
    /// Steps run in sequence [default: 1]
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", allow_negative_numbers = true))]
    pub steps: Option<u32>,
    /// How stages wait for each other between steps: barrier, asynchronous, or
    /// post-validation:PROBABILITY that it fails [default: barrier]
    #[cfg_attr(feature = "clap", arg(long, value_name = "HOW"))]
    #[serde(deserialize_with = "text")]
    pub boundary: Option<BoundaryKey>,
    /// Time of the all-reduce at the barrier, or of one hop of post-validation [default: 0ns]
    #[cfg_attr(feature = "clap", arg(long, value_name = "TIME", allow_hyphen_values = true))]
    #[serde(deserialize_with = "text")]
    pub exchange: Option<Nanos>,
    /// Time of the optimizer on a stage [default: 0ns]
    #[cfg_attr(feature = "clap", arg(long, value_name = "TIME", allow_hyphen_values = true))]
    #[serde(deserialize_with = "text")]
    pub optimizer: Option<Nanos>,
    /// Time to take an optimizer step back [default: 0ns]
    #[cfg_attr(feature = "clap", arg(long, value_name = "TIME", allow_hyphen_values = true))]
    #[serde(deserialize_with = "text")]
    pub rollback: Option<Nanos>,
    /// Time to reduce the gradients of one chunk over data-parallel replicas: TIME, exposed after
    /// the stage's last pass, or TIME:overlapped, from the chunk's last W on [default: 0ns]
    #[cfg_attr(feature = "clap", arg(long, value_name = "TIME[:HOW]", allow_hyphen_values = true))]
    #[serde(deserialize_with = "text")]
    pub gradient_reduction: Option<ReductionKey>,
    /// Bytes a stage holds all the time (weights, gradients, optimizer state); or one per stage
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "SIZE,..", value_delimiter = ',', allow_hyphen_values = true)
    )]
    #[serde(deserialize_with = "list")]
    pub resident: Option<Vec<Bytes>>,
    /// Vocabulary V: with --hidden and --layers-per-stage, what stages hold all the time follows
    /// from the parameters, the embedding on the first chunk's stage, the LM head on the last's
    #[cfg_attr(feature = "clap", arg(long, value_name = "V", allow_negative_numbers = true))]
    pub vocabulary: Option<u64>,
    /// Bytes per parameter of weights, gradients and optimizer state
    /// [default: 18 = 2 + 4 + 12, bf16 with fp32 gradients, master weights and Adam moments]
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", allow_negative_numbers = true))]
    pub bytes_per_parameter: Option<u64>,
    /// Memory of every device; or one per device [default: the cluster's]
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "SIZE,..", value_delimiter = ',', allow_hyphen_values = true)
    )]
    #[serde(deserialize_with = "list")]
    pub device_memory: Option<Vec<Bytes>>,
    /// Part of each activation that is on the host between F and B, from 0 to 1; the cluster, or
    /// --offload-time and its like, say how long it takes [default: 0; for po-h and po-f 1]
    #[cfg_attr(feature = "clap", arg(long, value_name = "PART", allow_hyphen_values = true))]
    #[serde(deserialize_with = "text")]
    pub offload: Option<PartKey>,
    /// How many slots before its backward an activation is called back from the host [default: 2]
    #[cfg_attr(feature = "clap", arg(long, value_name = "SLOTS"))]
    pub reload_ahead: Option<u32>,
    /// Behaviour where a device is full: report it, or let passes wait [default: report]
    #[cfg_attr(feature = "clap", arg(long, value_name = "HOW"))]
    #[serde(deserialize_with = "text")]
    pub when_full: Option<FullKey>,
}

key_set!(HardwareKeys {
    cluster: "cluster",
    seating: "seating",
    message: "message",
    sharing: "sharing",
    protocol: "protocol",
    communication: "communication",
    steps: "steps",
    boundary: "boundary",
    exchange: "exchange",
    optimizer: "optimizer",
    rollback: "rollback",
    gradient_reduction: "gradient-reduction",
    resident: "resident",
    vocabulary: "vocabulary",
    bytes_per_parameter: "bytes-per-parameter",
    device_memory: "device-memory",
    offload: "offload",
    reload_ahead: "reload-ahead",
    when_full: "when-full",
});

/// A word that a key does not know.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("`{text}`: write {known}")]
pub struct UnknownWord {
    text: String,
    known: &'static str,
}

fn unknown(text: &str, known: &'static str) -> UnknownWord {
    UnknownWord { text: text.to_owned(), known }
}

/// Where stages sit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SeatingKey(pub Seating);

impl FromStr for SeatingKey {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        let devices = || {
            let devices = text.split(',').map(|one| one.trim().parse().ok());
            devices.collect::<Option<Vec<usize>>>()
        };
        Ok(Self(match text {
            "contiguous" => Seating::Contiguous,
            "across-nodes" => Seating::AcrossNodes,
            _ => Seating::Explicit(devices().ok_or_else(|| {
                unknown(
                    text,
                    "contiguous, across-nodes, or the device of each stage, as in 0,0,1,1",
                )
            })?),
        }))
    }
}

/// How wires are shared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SharingKey(pub Sharing);

impl FromStr for SharingKey {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        match text {
            "fair" => Ok(Self(Sharing::Fair)),
            "queue" => Ok(Self(Sharing::Queue)),
            _ => Err(unknown(text, "fair or queue")),
        }
    }
}

/// When transfers begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProtocolKey(pub Protocol);

impl FromStr for ProtocolKey {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        let ahead = text.strip_prefix("rendezvous:").map(str::parse);
        Ok(Self(match (text, ahead) {
            ("eager", _) => Protocol::Eager,
            (_, Some(Ok(ahead))) => Protocol::Rendezvous { ahead },
            _ => return Err(unknown(text, "eager or rendezvous:AHEAD, as in rendezvous:1")),
        }))
    }
}

/// Whether communication holds the compute stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CommunicationKey {
    /// Transfers run beside the passes.
    Overlapped,
    /// Transfers hold the compute stream.
    Blocking,
}

impl FromStr for CommunicationKey {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        match text {
            "overlapped" => Ok(Self::Overlapped),
            "blocking" => Ok(Self::Blocking),
            _ => Err(unknown(text, "overlapped or blocking")),
        }
    }
}

/// How stages synchronise between steps.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum BoundaryKey {
    /// All stages wait for an all-reduce before the optimizer.
    Barrier,
    /// No stage waits for another.
    Asynchronous,
    /// Optimizer steps are validated afterwards; with the probability that validation fails.
    PostValidation(f64),
}

impl FromStr for BoundaryKey {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        let known = "barrier, asynchronous, or post-validation:P with P from 0 to 1, the \
                     probability that it fails";
        match text {
            "barrier" => Ok(Self::Barrier),
            "asynchronous" => Ok(Self::Asynchronous),
            "post-validation" => Ok(Self::PostValidation(0.0)),
            _ => {
                let number = text.strip_prefix("post-validation:").map(str::parse::<f64>);
                match number {
                    Some(Ok(p)) if (0.0..=1.0).contains(&p) => Ok(Self::PostValidation(p)),
                    _ => Err(unknown(text, known)),
                }
            }
        }
    }
}

/// The time of gradient reduction, and whether it is hidden.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReductionKey {
    /// The time to reduce the gradients of one chunk.
    pub time: Nanos,
    /// Whether it begins with the chunk's last W, instead of after the stage's last pass.
    pub overlapped: bool,
}

impl FromStr for ReductionKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (time, overlapped) = match text.split_once(':') {
            None | Some((_, "exposed")) => (text.trim_end_matches(":exposed"), false),
            Some((time, "overlapped")) => (time, true),
            Some(_) => return Err(unknown(text, "TIME, or TIME:overlapped").to_string()),
        };
        let time = time.parse().map_err(|error| format!("{error}"))?;
        Ok(Self { time, overlapped })
    }
}

/// A part of a whole, in thousandths.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PartKey(pub u32);

impl FromStr for PartKey {
    type Err = UnknownWord;

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // From 0 to 1000.
    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        match text.parse::<f64>() {
            Ok(part) if (0.0..=1.0).contains(&part) => Ok(Self((part * 1000.0).round() as u32)),
            _ => Err(unknown(text, "a number from 0 to 1")),
        }
    }
}

/// The consequence of a full device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FullKey {
    /// The answer reports it.
    Report,
    /// Passes wait until there is room.
    Wait,
}

impl FromStr for FullKey {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        match text {
            "report" => Ok(Self::Report),
            "wait" => Ok(Self::Wait),
            _ => Err(unknown(text, "report or wait")),
        }
    }
}

impl fmt::Display for SeatingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Seating::Contiguous => f.write_str("contiguous"),
            Seating::AcrossNodes => f.write_str("across-nodes"),
            Seating::Explicit(devices) => {
                let devices: Vec<String> = devices.iter().map(ToString::to_string).collect();
                f.write_str(&devices.join(","))
            }
        }
    }
}

impl fmt::Display for SharingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Sharing::Fair => "fair",
            Sharing::Queue => "queue",
        })
    }
}

impl fmt::Display for ProtocolKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Protocol::Eager => f.write_str("eager"),
            Protocol::Rendezvous { ahead } => write!(f, "rendezvous:{ahead}"),
        }
    }
}

impl fmt::Display for CommunicationKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Overlapped => "overlapped",
            Self::Blocking => "blocking",
        })
    }
}

impl fmt::Display for BoundaryKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Barrier => f.write_str("barrier"),
            Self::Asynchronous => f.write_str("asynchronous"),
            Self::PostValidation(probability) => write!(f, "post-validation:{probability}"),
        }
    }
}

impl fmt::Display for ReductionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.time, if self.overlapped { ":overlapped" } else { "" })
    }
}

impl fmt::Display for PartKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", f64::from(self.0) / 1000.0)
    }
}

impl fmt::Display for FullKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Report => "report",
            Self::Wait => "wait",
        })
    }
}

text_form! {
    SeatingKey: "Seating", "The device of each stage.",
        crate::schema::pattern("^(contiguous|across-nodes|\\s*[0-9]+\\s*(,\\s*[0-9]+\\s*)*)$"),
        ["contiguous", "across-nodes", "0,0,1,1"];
    SharingKey: "Sharing", "How transfers share a wire.",
        crate::schema::words(&["fair", "queue"]),
        ["fair"];
    ProtocolKey: "Protocol", "When a transfer begins.",
        crate::schema::pattern("^(eager|rendezvous:[0-9]+)$"),
        ["eager", "rendezvous:1"];
    CommunicationKey: "Communication", "Whether communication is overlapped with computing.",
        crate::schema::words(&["overlapped", "blocking"]),
        ["overlapped"];
    BoundaryKey: "Boundary", "How stages wait for each other between steps.",
        crate::schema::pattern("^(barrier|asynchronous|post-validation(:[0-9.eE+-]+)?)$"),
        ["barrier", "asynchronous", "post-validation:0.01"];
    ReductionKey: "GradientReduction", "The time to reduce the gradients of one chunk, and whether it is overlapped.",
        crate::schema::pattern(&format!("^{TIME}(:(exposed|overlapped))?$", TIME = pipeline::schema::TIME)),
        ["20ms", "20ms:overlapped"];
    PartKey: "Part", "A part of a whole, from 0 to 1.",
        crate::schema::number(0.0, 1.0),
        [0.5];
    FullKey: "WhenFull", "The consequence of a full device.",
        crate::schema::words(&["report", "wait"]),
        ["report"];
}
