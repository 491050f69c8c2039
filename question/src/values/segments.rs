//! How segments, and the rule by which they share the streams, are written.

use std::fmt;
use std::str::FromStr;

use pipeline::overlap::{
    Contention, ContentionError, Interleaving, SegmentName, SegmentNameError, Stream, Weights,
};
use pipeline::{Bytes, Fault, Nanos, UnitError};
use thiserror::Error;

use super::text_form::text_form;
use crate::quote;

/// How much a segment does: it takes a time, or moves bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Amount {
    /// Time alone on its stream.
    Time(Nanos),
    /// Bytes that a device sends, and as many that it receives.
    Bytes(Bytes),
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time(time) => time.fmt(f),
            Self::Bytes(bytes) => bytes.fmt(f),
        }
    }
}

/// A segment of a layer: its name, its stream, and the times or bytes of its F, B and W: `experts=4.6ms/5.3ms/6.4ms`,
/// `dispatch=6.7ms/7.5ms`, `dispatch=235MB/121MB`, `gather@communication=1ms/1ms`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SegmentKey {
    /// Its name.
    pub name: SegmentName,
    /// Its stream.
    pub stream: Stream,
    /// Time or bytes of its F.
    pub forward: Amount,
    /// Time or bytes of its B.
    pub backward: Amount,
    /// Time of its W; none on the communication stream.
    pub weight: Option<Nanos>,
}

/// A text that is not a segment.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum SegmentKeyError {
    /// Not of the form.
    #[error(
        "`{0}` is not a segment: write its name and the times of F, B and W, as in \
         experts=4.6ms/5.3ms/6.4ms, or those of F and B, as in dispatch=6.7ms/7.5ms"
    )]
    Form(String),
    /// A wrong name.
    #[error(transparent)]
    Name(#[from] SegmentNameError),
    /// A wrong time or size.
    #[error("the segment {name}: {error}")]
    Amount {
        /// The segment.
        name: SegmentName,
        /// The fault of its time or size.
        error: UnitError,
    },
    /// A stream that does not exist.
    #[error("there is no stream `{0}`: write @compute or @communication")]
    Stream(String),
    /// Bytes of compute.
    #[error("the segment {0} computes: it takes a time, and moves no bytes")]
    Bytes(SegmentName),
    /// Work for the weights on the communication stream.
    #[error("the segment {0} communicates: it has a time of F and one of B, and none of W")]
    Weight(SegmentName),
}

/// The names whose default stream is the communication stream.
const COMMUNICATION: [&str; 2] = ["dispatch", "combine"];

/// The default stream of a segment of that name.
pub(crate) fn usual_stream(name: &SegmentName) -> Stream {
    let communicates = COMMUNICATION.contains(&name.as_str());
    if communicates { Stream::Communication } else { Stream::Compute }
}

impl FromStr for SegmentKey {
    type Err = SegmentKeyError;

    fn from_str(text: &str) -> Result<Self, SegmentKeyError> {
        let form = || SegmentKeyError::Form(quote::clip(text));
        let (name, amounts) = text.split_once('=').ok_or_else(form)?;
        let (name, stream) = match name.split_once('@') {
            Some((name, stream)) => (name, Some(stream.trim())),
            None => (name, None),
        };
        let name: SegmentName = name.trim().parse()?;
        let stream = match stream {
            None => usual_stream(&name),
            Some(name) => {
                Stream::named(name).ok_or_else(|| SegmentKeyError::Stream(quote::clip(name)))?
            }
        };
        let amounts: Vec<&str> = amounts.split('/').map(str::trim).collect();
        let (forward, backward, weight) = match amounts[..] {
            [forward, backward] => (forward, backward, None),
            [forward, backward, weight] => (forward, backward, Some(weight)),
            _ => return Err(form()),
        };
        let wrong = |error| SegmentKeyError::Amount { name: name.clone(), error };
        let [forward, backward] = [forward, backward].map(|text| match text.parse::<Bytes>() {
            Ok(bytes) => Ok(Amount::Bytes(bytes)),
            Err(error) if text.ends_with('B') => Err(wrong(error)),
            Err(_) => text.parse().map(Amount::Time).map_err(wrong),
        });
        let (forward, backward) = (forward?, backward?);
        let weight = weight.map(str::parse::<Nanos>).transpose().map_err(wrong)?;
        let moves = |amount: &Amount| matches!(amount, Amount::Bytes(_));
        match stream {
            Stream::Compute if [forward, backward].iter().any(moves) => {
                Err(SegmentKeyError::Bytes(name))
            }
            Stream::Communication if weight.is_some() => Err(SegmentKeyError::Weight(name)),
            _ => Ok(Self { name, stream, forward, backward, weight }),
        }
    }
}

impl fmt::Display for SegmentKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, stream, forward, backward, weight } = self;
        write!(f, "{name}")?;
        if *stream != usual_stream(name) {
            write!(f, "@{}", stream.name())?;
        }
        write!(f, "={forward}/{backward}")?;
        weight.map_or(Ok(()), |weight| write!(f, "/{weight}"))
    }
}

/// The interleaving of a pair.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InterleavingKey(pub Interleaving);

impl FromStr for InterleavingKey {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self, Fault> {
        text.parse().map(Self)
    }
}

impl fmt::Display for InterleavingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The contention of the two streams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ContentionKey {
    /// The constants that were fitted to measured steps of Megatron-LM on H100.
    MegatronHopper,
    /// The share of compute that is held, and how many times as long communication takes.
    Given(Contention),
}

/// Fitted to four published pairs of steps with overlap and without, of Megatron-LM on H100 with the
/// dispatchers alltoall and HybridEP (Megatron-LM pull request 6429, Megatron-Bridge's overlap study): all within
/// 3.3 %. `slow` is read off a profile, 8.25 s of communication without overlap and 10.83 s with it; `hold`
/// is fitted, and stands for multiprocessors, host synchronisation, launch gaps and memory bandwidth.
const MEGATRON_HOPPER: [u64; 2] = [350, 1310];

impl ContentionKey {
    /// The constants.
    #[must_use]
    pub fn contention(self) -> Contention {
        match self {
            Self::MegatronHopper => {
                let [hold, slow] = MEGATRON_HOPPER;
                Contention::new(hold, slow).unwrap_or(Contention::NONE)
            }
            Self::Given(contention) => contention,
        }
    }
}

/// A text that is not a contention.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ContentionKeyError {
    /// Not of the form.
    #[error(
        "`{0}` is not a contention: write HOLD,SLOW with at most three decimals, as in 0.35,1.31, or megatron-hopper"
    )]
    Form(String),
    /// Constants that cannot be.
    #[error(transparent)]
    Constants(#[from] ContentionError),
}

impl FromStr for ContentionKey {
    type Err = ContentionKeyError;

    fn from_str(text: &str) -> Result<Self, ContentionKeyError> {
        if text.trim() == "megatron-hopper" {
            return Ok(Self::MegatronHopper);
        }
        let form = || ContentionKeyError::Form(quote::clip(text));
        let (hold, slow) = text.split_once(',').ok_or_else(form)?;
        let [hold, slow] = [hold, slow].map(|number| thousandths(number.trim()));
        let (hold, slow) = (hold.ok_or_else(form)?, slow.ok_or_else(form)?);
        Ok(Self::Given(Contention::new(hold, slow)?))
    }
}

/// `text`, a decimal number below 1000 with at most three decimals, in thousandths.
fn thousandths(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |digits: &str| {
        !digits.is_empty() && digits.len() <= 3 && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    if !is_number(whole) || !is_number(part) {
        return None;
    }
    let part: u64 = format!("{part:0<3}").parse().ok()?;
    Some(whole.parse::<u64>().ok()? * 1000 + part)
}

/// `thousandths` as a decimal number.
fn decimal(thousandths: u16) -> String {
    let text = format!("{}.{:03}", thousandths / 1000, thousandths % 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

impl fmt::Display for ContentionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MegatronHopper => f.write_str("megatron-hopper"),
            Self::Given(one) => write!(f, "{},{}", decimal(one.hold()), decimal(one.slow())),
        }
    }
}

/// Declares a choice between words.
macro_rules! words {
    ($(#[$doc:meta])* $type:ident, $error:literal: $($(#[$about:meta])* $variant:ident = $word:literal),*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum $type {
            $($(#[$about])* $variant,)*
        }

        impl FromStr for $type {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                match text.trim() {
                    $($word => Ok(Self::$variant),)*
                    _ => Err(format!("`{}` {}", quote::clip(text), $error)),
                }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $(Self::$variant => $word,)*
                })
            }
        }
    };
}

words! {
    /// Where W of a pair, or of a whole backward, is done.
    WeightGradient, "says nothing of weight gradients: write delayed or with-backward":
    /// When it fits.
    Delayed = "delayed",
    /// Right behind its segment of B, which the next one waits for too.
    WithBackward = "with-backward"
}

impl WeightGradient {
    /// The rule.
    #[must_use]
    pub const fn weights(self) -> Weights {
        match self {
            Self::Delayed => Weights::Delayed,
            Self::WithBackward => Weights::WithBackward,
        }
    }
}

words! {
    /// Whether a whole backward outside a pair overlaps its communication with its own W.
    LoneBackward, "says nothing of a lone backward: write overlapped or in-one-piece":
    /// It is hidden behind its own W.
    Overlapped = "overlapped",
    /// One segment after the other.
    InOnePiece = "in-one-piece"
}

words! {
    /// How the times of segments were measured.
    Measured, "says not how segments were measured: write alone or beside":
    /// While nothing else ran.
    Alone = "alone",
    /// Beside the other stream, so that what it takes from them is in them.
    Beside = "beside"
}

text_form! {
    SegmentKey: "Segment", "A segment of a layer: its name, @compute or @communication if the name does not imply it, and the times of F, B and W, or of F and B, or their bytes.",
        crate::keys::form::pattern(r"^\s*[a-z][a-z0-9-]*(@(compute|communication))?\s*=[^/]+/[^/]+(/[^/]+)?$"),
        ["attention=4.4ms/9.3ms/2.4ms", "dispatch=6.7ms/7.5ms", "combine=235MB/121MB"];
    InterleavingKey: "Interleaving", "The order in which the segments of a pair enter the streams: none, published, best, or a line of them.",
        crate::keys::form::pattern(r"^\s*(none|published|best|([a-z][a-z0-9-]*[FBW]\s*)+)\s*$"),
        ["published", "best", "cB aF eB dF eW dB eF cF aB aW"];
    ContentionKey: "Contention", "The share of the compute that overlapped communication takes, and how many times as long it then takes; or the name of such constants.",
        crate::keys::form::pattern(r"^\s*(megatron-hopper|[0-9]+(\.[0-9]+)?\s*,\s*[0-9]+(\.[0-9]+)?)\s*$"),
        ["0.15,1", "megatron-hopper"], SIGNED;
    WeightGradient: "WeightGradient", "Where W of a pair is done: delayed, where it fits, or with-backward.",
        crate::keys::form::pattern(r"^\s*(delayed|with-backward)\s*$"), ["delayed", "with-backward"];
    LoneBackward: "LoneBackward", "Execution of a whole backward outside a pair: overlapped with its own W, or in-one-piece.",
        crate::keys::form::pattern(r"^\s*(overlapped|in-one-piece)\s*$"), ["overlapped", "in-one-piece"];
    Measured: "Measured", "How the times of segments were measured: alone, or while the other stream runs.",
        crate::keys::form::pattern(r"^\s*(alone|beside)\s*$"), ["alone", "beside"];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_read_and_printed() {
        for text in [
            "attention=4.4ms/9.3ms/2.4ms",
            "dispatch=6.7ms/7.5ms",
            "combine=235MB/121MB",
            "gather@communication=1ms/1ms",
            "dispatch@compute=1ms/1ms/2ms",
        ] {
            assert_eq!(text.parse::<SegmentKey>().unwrap().to_string(), text);
        }
        for (text, what) in [
            ("attention", "write its name and the times"),
            ("attention=1ms", "write its name and the times"),
            ("Attention=1ms/1ms", "not a name of a segment"),
            ("attention@network=1ms/1ms", "there is no stream `network`"),
            ("attention=1MB/1ms", "moves no bytes"),
            ("dispatch=1ms/1ms/1ms", "none of W"),
            ("attention=1/1ms", "the segment attention: "),
            ("attention=-1ms/1ms", "negative"),
        ] {
            let error = text.parse::<SegmentKey>().unwrap_err().to_string();
            assert!(error.contains(what), "{text}: {error}");
        }
    }

    #[test]
    fn contentions_are_read_and_printed() {
        for text in ["0.35,1.31", "0,1", "megatron-hopper"] {
            assert_eq!(text.parse::<ContentionKey>().unwrap().to_string(), text);
        }
        let known = ContentionKey::MegatronHopper.contention();
        assert_eq!((known.hold(), known.slow()), (350, 1310));
        for text in ["0.35", "a,b", "0.3555,1", "2,1", "0.9,1.5", "0.1,0.5", "NaN,1", "-1,1"] {
            assert!(text.parse::<ContentionKey>().is_err(), "{text}");
        }
    }
}
