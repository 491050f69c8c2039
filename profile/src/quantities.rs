//! Quantities and links of a file: reading, checks against their samples, and writing.

use std::ops::Range;

use toml::Spanned;

use crate::error::{ProfileError, fail, unplaced};
use crate::form::{LinkDocument, MessageDocument, QuantityDocument, Time};
use crate::limits::MAX_SAMPLES;
use crate::link::{Link, LinkKind, Message};
use crate::quantity::Quantity;

pub(crate) fn read_quantity(
    document: Spanned<QuantityDocument>,
    half_width: f64,
) -> Result<Quantity, ProfileError> {
    let place = document.span();
    let given = document.into_inner();
    if given.samples.len() > MAX_SAMPLES {
        return fail(place, format!("{} samples: at most {MAX_SAMPLES}", given.samples.len()));
    }
    let samples = given.samples.iter().map(|time| time.0).collect();
    let Some(quantity) = Quantity::of(samples) else {
        return fail(place, "there are no samples".to_owned());
    };
    let ours = write_quantity(&quantity, half_width).into_inner();
    let nanos = |time: Option<Time>| time.map(|time| time.0);
    agree(&place, "median", nanos(given.median), nanos(ours.median))?;
    agree(&place, "low", nanos(given.low), nanos(ours.low))?;
    agree(&place, "high", nanos(given.high), nanos(ours.high))?;
    agree(&place, "count", given.count, ours.count)?;
    agree(&place, "outliers", given.outliers, ours.outliers)?;
    agree(&place, "verdict", given.verdict, ours.verdict)?;
    Ok(quantity)
}

/// Checks that a statistic given in the file equals that of its samples.
pub(crate) fn agree<T: PartialEq + std::fmt::Display>(
    place: &Range<usize>,
    what: &str,
    given: Option<T>,
    ours: Option<T>,
) -> Result<(), ProfileError> {
    let Some(given) = given.filter(|given| ours.as_ref() != Some(given)) else { return Ok(()) };
    let ours = ours.map_or_else(|| "none".to_owned(), |ours| ours.to_string());
    Err(ProfileError {
        message: format!("{what} is {given}, but the samples give {ours}"),
        place: Some(place.clone()),
        cure: "the samples are what counts: mend them, or take the line out",
    })
}

pub(crate) fn write_quantity(quantity: &Quantity, half_width: f64) -> Spanned<QuantityDocument> {
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

pub(crate) fn read_link(link: LinkDocument, half_width: f64) -> Result<Link, ProfileError> {
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
        let MessageDocument { bytes, both_ways, time, .. } = message;
        Ok(Message { bytes, pairs, both_ways, time: read_quantity(time, half_width)? })
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

pub(crate) fn write_link(link: &Link, half_width: f64) -> LinkDocument {
    let fit = link.fit();
    let message = |one: &Message| MessageDocument {
        bytes: one.bytes,
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
