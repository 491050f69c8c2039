//! Data-parallel training: packing and communication side by side.

use fsdp::{Buffers, Communication, Method, Tally, Way};
use pipeline::Bytes;
use serde::Serialize;

use question::fsdp::{Keys, Setting};
use question::host::{Context, foretell};
use question::sheet::Sheet;
use question::{Diagnostic, format};

/// The way that speed-ups are relative to.
pub const BASELINE: Way =
    Way { method: Method::LbMicro, communication: Communication::Collectives };

/// One way in one setting.
#[derive(Serialize, Clone, Debug)]
pub struct Row {
    /// Data-parallel devices.
    pub devices: usize,
    /// Samples per device.
    pub minibatch_size: u64,
    /// The most tokens of a microbatch.
    pub max_tokens: u64,
    /// `max_tokens` over the longest sample there may be.
    pub packing_ratio: f64,
    /// The name of the packing method.
    pub method: &'static str,
    /// `collectives` or `on-demand`.
    pub communication: &'static str,
    minibatches: u64,
    /// Of the average device.
    microbatches_per_device: f64,
    /// Mean over the minibatches.
    step_ns: u64,
    longest_step_ns: u64,
    /// Of the average device, mean over the minibatches.
    idle_ns: u64,
    /// The share of the step in which the average device waits.
    pub bubble_rate: f64,
    /// Over LB-Micro with collectives.
    speedup: f64,
    tokens_per_second: f64,
    /// Of on-demand communication, where parameters have a size.
    buffer_per_client_bytes: Option<u64>,
    buffers_per_server_bytes: Option<u64>,
}

impl Row {
    fn new(
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

/// The answer to a question of packing and communication.
#[derive(Serialize, Clone, Debug)]
pub struct Answer {
    /// Every way in every setting, in the order of the keys.
    pub results: Vec<Row>,
    /// `Some(true)` if somebody asked to end: the rows are over the minibatches that were done by then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interrupted: Option<bool>,
}

impl Answer {
    /// The rows as CSV, with the keys of the JSON as columns.
    ///
    /// # Errors
    /// If memory runs out.
    pub fn csv(&self) -> Result<Vec<u8>, Diagnostic> {
        crate::csv(&self.results)
    }

    /// The rows for people.
    #[must_use]
    pub fn sheet(&self) -> Sheet {
        Sheet::table(&HEADER, self.results.iter().map(Row::cells))
    }
}

/// Packs the samples of every setting in every way, and times them.
///
/// # Errors
/// If a key is wrong, a file cannot be read, or samples cannot be packed.
pub fn fsdp(context: &Context<'_>, keys: &Keys) -> Result<Answer, Diagnostic> {
    let settings = keys.settings(context)?;
    let ways = keys.ways();
    let mut asked = ways.clone();
    asked.push(BASELINE);
    let minibatches = keys.minibatches();
    announce(context, &settings, minibatches);
    let work =
        context.host().begin(minibatches.saturating_mul(settings.len() as u64), "minibatches");
    let mut results = Vec::new();
    for setting in &settings {
        if !results.is_empty() && context.stopped() {
            break;
        }
        let tallies = setting.study.run_until(&asked, || work.inc(1), || context.stopped());
        let tallies = tallies.map_err(|fault| setting.error(&fault))?;
        let Some((baseline, tallies)) = tallies.split_last() else { continue };
        let row = |(way, tally): (&Way, &Tally)| {
            Row::new(setting, *way, tally, baseline, keys.parameters())
        };
        results.extend(ways.iter().zip(tallies).map(row));
    }
    Ok(Answer { results, interrupted: context.cut_short().then_some(true) })
}

/// Says before minibatches are packed if that takes minutes.
fn announce(context: &Context<'_>, settings: &[Setting], minibatches: u64) {
    // Packing goes through all devices for every sample.
    const PAIRS_PER_SECOND: u64 = 6_000_000;
    let pairs = |setting: &Setting| {
        let devices = setting.devices as u128;
        devices * devices * u128::from(setting.minibatch_size)
    };
    let all: u128 = settings.iter().map(pairs).sum();
    let all = all.saturating_mul(u128::from(minibatches));
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    let what = format!("{} settings of {minibatches} minibatches", settings.len());
    foretell(context.host(), all, PAIRS_PER_SECOND * cores, &what);
}
