//! Times, shares and ratios of explanations.

use pipeline::Nanos;
use question::format;
use sim::streams::StreamTimes;

/// A time that may be negative.
pub fn whole(time: Nanos) -> i64 {
    i64::try_from(time.0).unwrap_or(i64::MAX)
}

/// A time with its sign.
pub fn signed(time: i64) -> String {
    let sign = if time < 0 { "-" } else { "" };
    match time {
        0 => "0".to_owned(),
        _ => format!("{sign}{}", format::time(Nanos(time.unsigned_abs()))),
    }
}

/// The share of `part` in `of`.
#[allow(clippy::cast_precision_loss)]
pub fn ratio(part: i64, of: Nanos) -> f64 {
    if of.0 == 0 { 0.0 } else { part as f64 / of.0 as f64 }
}

/// The share of the communication that runs beside compute, if there is any communication.
#[must_use]
pub(crate) fn hidden(times: &StreamTimes) -> Option<f64> {
    let all = times.communicating;
    (all > Nanos(0)).then(|| ratio(whole(times.hidden()), all))
}
