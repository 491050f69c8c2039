//! Values of the keys that say what the pipeline runs on.

use std::fmt;
use std::str::FromStr;

use pipeline::Nanos;
use sim::Sharing;
use sim::cluster::Seating;
use sim::engine::Protocol;
use thiserror::Error;

use super::text_form::text_form;

/// An unknown word of a key.
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
pub enum CommunicationModeKey {
    /// Transfers run beside the passes.
    Overlapped,
    /// Transfers hold the compute stream.
    Blocking,
}

impl FromStr for CommunicationModeKey {
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

impl fmt::Display for CommunicationModeKey {
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
        crate::keys::form::pattern("^(contiguous|across-nodes|\\s*[0-9]+\\s*(,\\s*[0-9]+\\s*)*)$"),
        ["contiguous", "across-nodes", "0,0,1,1"];
    SharingKey: "Sharing", "How transfers share a wire.",
        crate::keys::form::words(&["fair", "queue"]),
        ["fair"];
    ProtocolKey: "Protocol", "When a transfer begins.",
        crate::keys::form::pattern("^(eager|rendezvous:[0-9]+)$"),
        ["eager", "rendezvous:1"];
    CommunicationModeKey: "Communication", "Whether communication is overlapped with computing.",
        crate::keys::form::words(&["overlapped", "blocking"]),
        ["overlapped"];
    BoundaryKey: "Boundary", "How stages wait for each other between steps.",
        crate::keys::form::pattern("^(barrier|asynchronous|post-validation(:[0-9.eE+-]+)?)$"),
        ["barrier", "asynchronous", "post-validation:0.01"];
    ReductionKey: "GradientReduction", "The time to reduce the gradients of one chunk, and whether it is overlapped.",
        crate::keys::form::pattern(&format!("^{TIME}(:(exposed|overlapped))?$", TIME = pipeline::schema::TIME)),
        ["20ms", "20ms:overlapped"], SIGNED;
    PartKey: "Part", "A part of a whole, from 0 to 1.",
        crate::keys::form::number(0.0, 1.0),
        [0.5], SIGNED;
    FullKey: "WhenFull", "The consequence of a full device.",
        crate::keys::form::words(&["report", "wait"]),
        ["report"];
}
