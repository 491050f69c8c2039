//! The file form of a profile: TOML, and nothing that does not add up.
//!
//! The samples are what counts. Medians, intervals, outliers, verdicts and fits stand beside them for
//! people: they may be left out, but not say something else.

use std::ops::Range;

use executor::Model;
use pipeline::{Bytes, Footprint};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use toml::Spanned;

use super::{
    Element, Link, LinkKind, Machine, Message, ModelShape, Optimizer, Part, Profile, Quantity,
};

/// The version of the file form.
pub const VERSION: u64 = 1;
/// The longest time of a sample: 1,000,000 s.
pub const MAX_NANOS: u64 = 1_000_000_000_000_000;
/// The largest size: 1 EiB.
pub const MAX_BYTES: u64 = 1 << 60;
/// The most samples of one quantity.
pub const MAX_SAMPLES: usize = 1_000_000;

/// What is wrong with a file, where, and what to do about it.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{message}")]
pub struct ProfileError {
    /// What is wrong.
    pub message: String,
    /// The bytes of the text it is about.
    pub place: Option<Range<usize>>,
    /// What to do.
    pub cure: &'static str,
}

const WRITTEN_BY: &str =
    "profiles are written by `debubble calibrate`: mend the line, or run it again";

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Document {
    version: Spanned<u64>,
    half_width: Spanned<f64>,
    machine: MachineDocument,
    model: Spanned<ModelDocument>,
    overhead: Spanned<QuantityDocument>,
    layer: PartDocument,
    embedding: PartDocument,
    head: PartDocument,
    optimizer: OptimizerDocument,
    #[serde(default)]
    link: Vec<LinkDocument>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct MachineDocument {
    cpu: String,
    cores: u64,
    os: String,
    device: String,
    driver: Option<String>,
    clocks: Option<String>,
    pinned: bool,
    date: String,
    program: String,
    remark: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct ModelDocument {
    hidden: usize,
    heads: usize,
    seq: usize,
    microbatch_size: usize,
    vocabulary: usize,
    element: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct PartDocument {
    footprint: FootprintDocument,
    forward: Spanned<QuantityDocument>,
    backward_input: Spanned<QuantityDocument>,
    backward_weight: Spanned<QuantityDocument>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct OptimizerDocument {
    parameters: Spanned<u64>,
    step: Spanned<QuantityDocument>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct FootprintDocument {
    until_backward: Size,
    until_weight: Size,
}

/// Times in nanoseconds.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct QuantityDocument {
    median: Option<Time>,
    /// Ends of the 95 % confidence interval.
    low: Option<Time>,
    high: Option<Time>,
    count: Option<u64>,
    outliers: Option<u64>,
    verdict: Option<String>,
    samples: Vec<Time>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct LinkDocument {
    kind: Spanned<String>,
    /// The fit, in nanoseconds.
    latency: Option<u64>,
    per_mib: Option<u64>,
    worst_residual_per_mille: Option<u64>,
    #[serde(default)]
    message: Vec<MessageDocument>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct MessageDocument {
    bytes: Size,
    pairs: Spanned<u64>,
    both_ways: bool,
    time: Spanned<QuantityDocument>,
}

/// A time in nanoseconds that a clock can show.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq)]
#[serde(try_from = "i64")]
struct Time(u64);

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
struct Size(u64);

impl TryFrom<i64> for Size {
    type Error = String;

    fn try_from(bytes: i64) -> Result<Self, String> {
        let within = u64::try_from(bytes).ok().filter(|&bytes| bytes <= MAX_BYTES);
        within.map(Self).ok_or_else(|| {
            format!("{bytes} is no size: bytes are whole numbers from 0 to {MAX_BYTES}")
        })
    }
}

fn fail<T>(place: Range<usize>, message: String) -> Result<T, ProfileError> {
    Err(ProfileError { message, place: Some(place), cure: WRITTEN_BY })
}

/// A value of a file to be written, where places mean nothing.
fn unplaced<T>(value: T) -> Spanned<T> {
    Spanned::new(0..0, value)
}

impl Profile {
    /// Reads the file form.
    ///
    /// # Errors
    /// Anything that is not a profile of this version, with its place in `text`.
    pub fn parse(text: &str) -> Result<Self, ProfileError> {
        let version_first: Result<VersionOnly, _> = toml::from_str(text);
        if let Ok(VersionOnly { version }) = version_first
            && *version.get_ref() != VERSION
        {
            let message = format!("version {}: this program reads {VERSION}", version.get_ref());
            return fail(version.span(), message);
        }
        let document: Document = toml::from_str(text).map_err(|error| ProfileError {
            message: error.message().to_owned(),
            place: error.span(),
            cure: WRITTEN_BY,
        })?;
        document.into_profile()
    }

    /// The file form, which [`Profile::parse`] reads back as the same.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let head = "# What `debubble calibrate` measured. Times are nanoseconds, sizes bytes.\n\
                    # low and high: the 95 % confidence interval of the median. The samples, in the\n\
                    # order taken, are what counts.\n";
        // Tables with text keys and numbers below 2^63: there is nothing that TOML cannot say.
        let body = toml::to_string(&Document::of(self)).unwrap_or_default();
        format!("{head}{body}")
    }
}

#[derive(Deserialize)]
struct VersionOnly {
    version: Spanned<u64>,
}

impl Document {
    fn into_profile(self) -> Result<Profile, ProfileError> {
        let half_width = *self.half_width.get_ref();
        if !(half_width > 0.0 && half_width <= 1.0) {
            let message = format!("half-width is {half_width}: it must be above 0 and at most 1");
            return fail(self.half_width.span(), message);
        }
        let read = |quantity| read_quantity(quantity, half_width);
        let parameters = *self.optimizer.parameters.get_ref();
        if !(1..=MAX_BYTES).contains(&parameters) {
            let message = format!("{parameters} parameters: from 1 to {MAX_BYTES}");
            return fail(self.optimizer.parameters.span(), message);
        }
        let links = self.link.into_iter().map(|link| read_link(link, half_width));
        Ok(Profile {
            machine: self.machine.into(),
            model: read_model(&self.model)?,
            half_width,
            overhead: read(self.overhead)?,
            layer: read_part(self.layer, half_width)?,
            embedding: read_part(self.embedding, half_width)?,
            head: read_part(self.head, half_width)?,
            optimizer: Optimizer { parameters, step: read(self.optimizer.step)? },
            links: links.collect::<Result<_, _>>()?,
        })
    }

    fn of(profile: &Profile) -> Self {
        let half_width = profile.half_width;
        let quantity = |one: &Quantity| write_quantity(one, half_width);
        let part = |part: &Part| PartDocument {
            footprint: part.footprint.into(),
            forward: quantity(&part.forward),
            backward_input: quantity(&part.backward_input),
            backward_weight: quantity(&part.backward_weight),
        };
        Self {
            version: unplaced(VERSION),
            half_width: unplaced(half_width),
            machine: profile.machine.clone().into(),
            model: unplaced(profile.model.into()),
            overhead: quantity(&profile.overhead),
            layer: part(&profile.layer),
            embedding: part(&profile.embedding),
            head: part(&profile.head),
            optimizer: OptimizerDocument {
                parameters: unplaced(profile.optimizer.parameters),
                step: quantity(&profile.optimizer.step),
            },
            link: profile.links.iter().map(|link| write_link(link, half_width)).collect(),
        }
    }
}

fn read_model(model: &Spanned<ModelDocument>) -> Result<ModelShape, ProfileError> {
    let ModelDocument { hidden, heads, seq, microbatch_size, vocabulary, element } =
        model.get_ref();
    let Some(element) = Element::named(element) else {
        return fail(model.span(), format!("element is `{element}`: it must be f32 or bf16"));
    };
    let shape = Model::new(*hidden, *heads, 1, *vocabulary, *seq, *microbatch_size)
        .and_then(|model| ModelShape::new(model, element));
    shape.or_else(|error| fail(model.span(), error.to_string()))
}

fn read_part(part: PartDocument, half_width: f64) -> Result<Part, ProfileError> {
    Ok(Part {
        forward: read_quantity(part.forward, half_width)?,
        backward_input: read_quantity(part.backward_input, half_width)?,
        backward_weight: read_quantity(part.backward_weight, half_width)?,
        footprint: part.footprint.into(),
    })
}

fn read_quantity(
    document: Spanned<QuantityDocument>,
    half_width: f64,
) -> Result<Quantity, ProfileError> {
    let place = document.span();
    let told = document.into_inner();
    if told.samples.len() > MAX_SAMPLES {
        return fail(place, format!("{} samples: at most {MAX_SAMPLES}", told.samples.len()));
    }
    let samples = told.samples.iter().map(|time| time.0).collect();
    let Some(quantity) = Quantity::of(samples) else {
        return fail(place, "there are no samples".to_owned());
    };
    let ours = write_quantity(&quantity, half_width).into_inner();
    let nanos = |time: Option<Time>| time.map(|time| time.0);
    agree(&place, "median", nanos(told.median), nanos(ours.median))?;
    agree(&place, "low", nanos(told.low), nanos(ours.low))?;
    agree(&place, "high", nanos(told.high), nanos(ours.high))?;
    agree(&place, "count", told.count, ours.count)?;
    agree(&place, "outliers", told.outliers, ours.outliers)?;
    agree(&place, "verdict", told.verdict, ours.verdict)?;
    Ok(quantity)
}

/// Checks that what the file says beside the samples is what the samples say.
fn agree<T: PartialEq + std::fmt::Display>(
    place: &Range<usize>,
    what: &str,
    told: Option<T>,
    ours: Option<T>,
) -> Result<(), ProfileError> {
    let Some(told) = told.filter(|told| ours.as_ref() != Some(told)) else { return Ok(()) };
    let ours = ours.map_or_else(|| "none".to_owned(), |ours| ours.to_string());
    Err(ProfileError {
        message: format!("{what} is {told}, but the samples give {ours}"),
        place: Some(place.clone()),
        cure: "the samples are what counts: mend them, or take the line out",
    })
}

fn write_quantity(quantity: &Quantity, half_width: f64) -> Spanned<QuantityDocument> {
    let summary = quantity.summary();
    let (low, high) = summary.interval.unzip();
    unplaced(QuantityDocument {
        median: Some(Time(summary.median)),
        low: low.map(Time),
        high: high.map(Time),
        count: Some(summary.samples as u64),
        outliers: Some(summary.outliers as u64),
        verdict: Some(quantity.verdict(half_width).to_string()),
        samples: quantity.samples().iter().copied().map(Time).collect(),
    })
}

fn read_link(link: LinkDocument, half_width: f64) -> Result<Link, ProfileError> {
    let place = link.kind.span();
    let Some(kind) = LinkKind::named(link.kind.get_ref()) else {
        let names = LinkKind::ALL.map(LinkKind::name).join(", ");
        return fail(place, format!("there is no link `{}`: {names}", link.kind.get_ref()));
    };
    let message = |message: MessageDocument| {
        let pairs = *message.pairs.get_ref();
        if !(1..=1 << 16).contains(&pairs) {
            return fail(message.pairs.span(), format!("{pairs} pairs: from 1 to 65536"));
        }
        let (bytes, both_ways) = (message.bytes.0, message.both_ways);
        Ok(Message { bytes, pairs, both_ways, time: read_quantity(message.time, half_width)? })
    };
    let messages = link.message.into_iter().map(message).collect::<Result<Vec<_>, _>>()?;
    let read = Link { kind, messages };
    if read.alone().is_empty() {
        let message = format!("the link {} has no message of one pair, one way", kind.name());
        return fail(place, message);
    }
    let fit = read.fit();
    agree(&place, "latency", link.latency, fit.map(|fit| fit.latency))?;
    agree(&place, "per-mib", link.per_mib, fit.map(|fit| fit.per_mib))?;
    let worst = fit.map(|fit| fit.worst_per_mille);
    agree(&place, "worst-residual-per-mille", link.worst_residual_per_mille, worst)?;
    Ok(read)
}

fn write_link(link: &Link, half_width: f64) -> LinkDocument {
    let fit = link.fit();
    let message = |one: &Message| MessageDocument {
        bytes: Size(one.bytes),
        pairs: unplaced(one.pairs),
        both_ways: one.both_ways,
        time: write_quantity(&one.time, half_width),
    };
    LinkDocument {
        kind: unplaced(link.kind.name().to_owned()),
        latency: fit.map(|fit| fit.latency),
        per_mib: fit.map(|fit| fit.per_mib),
        worst_residual_per_mille: fit.map(|fit| fit.worst_per_mille),
        message: link.messages.iter().map(message).collect(),
    }
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
                let $from { pinned, date, program, remark, .. } = machine;
                Self { cpu, cores, os, device, driver, clocks, pinned, date, program, remark }
            }
        }
    )*};
}
same_fields!(Machine => MachineDocument, MachineDocument => Machine);

#[cfg(test)]
#[path = "tests.rs"]
pub(crate) mod tests;
