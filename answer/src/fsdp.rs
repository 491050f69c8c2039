//! What came of every setting and way, for tables and machines.

use fsdp::{Buffers, Communication, Method, Tally, Way};
use pipeline::Bytes;
use serde::Serialize;

use super::keys::Setting;
use question::Diagnostic;
use question::format;

/// What speed-ups are over.
pub(super) const BASELINE: Way =
    Way { method: Method::LbMicro, communication: Communication::Collectives };

/// One way in one setting.
#[derive(Serialize, Clone, Debug)]
pub(super) struct Row {
    pub(super) devices: usize,
    /// Samples per device.
    pub(super) minibatch_size: u64,
    pub(super) max_tokens: u64,
    /// `max_tokens` over the longest sample there may be.
    pub(super) packing_ratio: f64,
    pub(super) method: &'static str,
    pub(super) communication: &'static str,
    minibatches: u64,
    /// Of the average device.
    microbatches_per_device: f64,
    /// Mean over the minibatches.
    step_ns: u64,
    longest_step_ns: u64,
    /// Of the average device, mean over the minibatches.
    idle_ns: u64,
    pub(super) bubble_rate: f64,
    /// Over LB-Micro with collectives.
    speedup: f64,
    tokens_per_second: f64,
    /// Of on-demand communication, where parameters have a size.
    buffer_per_client_bytes: Option<u64>,
    buffers_per_server_bytes: Option<u64>,
}

impl Row {
    pub(super) fn new(
        setting: &Setting,
        way: Way,
        tally: &Tally,
        baseline: &Tally,
        parameters: Option<Bytes>,
    ) -> Self {
        let parameters = parameters.filter(|_| way.communication == Communication::OnDemand);
        let buffers = parameters.map(|size| Buffers::of(size, setting.devices));
        let longest = setting.study.lengths.longest();
        Self {
            devices: setting.devices,
            minibatch_size: setting.minibatch_size,
            max_tokens: setting.max_tokens,
            packing_ratio: approximate(u128::from(setting.max_tokens)) / f64::from(longest),
            method: way.method.name(),
            communication: way.communication.name(),
            minibatches: tally.minibatches,
            microbatches_per_device: tally.microbatches_per_device(),
            step_ns: tally.step().0,
            longest_step_ns: tally.longest.0,
            idle_ns: tally.idle().0,
            bubble_rate: tally.bubble_rate(),
            speedup: tally.speedup_over(baseline),
            tokens_per_second: 1e9 * approximate(tally.tokens) / approximate(tally.time.max(1)),
            buffer_per_client_bytes: buffers.map(|buffers| buffers.per_client.0),
            buffers_per_server_bytes: buffers.map(|buffers| buffers.per_server.0),
        }
    }

    fn cells(&self) -> Vec<String> {
        vec![
            format!("{}, {}", self.method, self.communication),
            self.devices.to_string(),
            self.minibatch_size.to_string(),
            self.max_tokens.to_string(),
            format!("{:.2}", self.microbatches_per_device),
            format::time(pipeline::Nanos(self.step_ns)),
            format::time(pipeline::Nanos(self.idle_ns)),
            format::percent(self.bubble_rate),
            format!("{:.3}", self.speedup),
        ]
    }
}

#[allow(clippy::cast_precision_loss)]
fn approximate(number: u128) -> f64 {
    number as f64
}

const HEADER: [&str; 9] = [
    "packing, communication",
    "devices",
    "minibatch",
    "max tokens",
    "microbatches",
    "step",
    "idle",
    "bubble",
    "speed-up",
];

/// The rows for a person.
pub(super) fn table(rows: &[Row]) -> String {
    format::table(&HEADER, rows.iter().map(Row::cells))
}

/// The rows as CSV.
pub(super) fn csv(rows: &[Row]) -> Result<Vec<u8>, Diagnostic> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let io = |error: csv::Error| Error::Output(error.into());
    rows.iter().try_for_each(|row| writer.serialize(row)).map_err(io)?;
    writer.into_inner().map_err(|error| Error::Output(error.into_error()))
}

/// The rows for machines.
#[derive(Serialize)]
pub(super) struct Json<'a> {
    pub(super) results: &'a [Row],
    /// Absent unless a Ctrl-C cut the answer short.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) interrupted: Option<bool>,
}
