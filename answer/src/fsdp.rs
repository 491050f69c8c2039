//! Data-parallel training: packing and communication side by side.

use fsdp::{Buffers, Communication, Method, PullLimit, Tally, Way};
use pipeline::{Bytes, Nanos};
use serde::Serialize;

use question::fsdp::{FsdpKeys, FsdpSetting};
use question::host::{Context, announce_estimate};
use question::sheet::Sheet;
use question::{Diagnostic, format, table};

/// The way that speed-ups are relative to.
pub const BASELINE: Way =
    Way { method: Method::LbMicro, communication: Communication::Collectives };

/// One way in one setting.
#[derive(Serialize, Clone, Debug)]
pub struct FsdpRow {
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
    pub step_ns: u64,
    longest_step_ns: u64,
    /// Of the average device, mean over the minibatches.
    idle_ns: u64,
    /// The share of the step in which the average device waits.
    pub bubble_rate: f64,
    /// How many times as fast as [`BASELINE`].
    pub speedup: f64,
    /// Why on-demand communication is slower than collectives with the same packing (LB-Micro's where
    /// collectives would deadlock): `ports`, `pulls`, `owners` or `nodes`, which bound the rate of
    /// pulls; `None` where it is not.
    pub slower_for: Option<&'static str>,
    tokens_per_second: f64,
    /// Of on-demand communication, where parameters have a size.
    buffer_per_client_bytes: Option<u64>,
    buffers_per_server_bytes: Option<u64>,
}

impl FsdpRow {
    fn new(
        setting: &FsdpSetting,
        way: Way,
        tally: &Tally,
        [baseline, collectives]: [&Tally; 2],
        parameters: Option<Bytes>,
    ) -> Self {
        let limit = setting.study.machine.links().map(|links| links.pull_limit(setting.devices));
        let is_slower =
            way.communication == Communication::OnDemand && tally.time > collectives.time;
        let parameters = parameters.filter(|_| way.communication == Communication::OnDemand);
        let sharers = setting.study.machine.links().map(|links| links.group(setting.devices));
        let sharers = sharers.unwrap_or(setting.devices);
        let buffers = parameters.map(|size| Buffers::of(size, sharers));
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
            slower_for: limit.filter(|_| is_slower).map(name),
            tokens_per_second: 1e9 * approximate(tally.tokens) / approximate(tally.time.max(1)),
            buffer_per_client_bytes: buffers.map(|buffers| buffers.per_client.0),
            buffers_per_server_bytes: buffers.map(|buffers| buffers.per_server.0),
        }
    }
}

/// Name of the bottleneck of pulls.
const fn name(limit: PullLimit) -> &'static str {
    match limit {
        PullLimit::Ports => "ports",
        PullLimit::Pulls => "pulls",
        PullLimit::Owners => "owners",
        PullLimit::Nodes => "nodes",
    }
}

/// The same in words.
const CAUSES: [(&str, &str); 4] = [
    (
        "ports",
        "pulls are as fast as a ring, but nothing is won by waiting less, and transfers that no layer \
         hides weigh more",
    ),
    ("pulls", "a pull gets less of a port than a ring (--pull-bandwidth)"),
    ("owners", "few owners have to serve all devices (--owners)"),
    (
        "nodes",
        "every device pulls for itself over the links between nodes, while a ring carries each \
         parameter once into every node (--node-bandwidth); --sharding hybrid pulls within nodes",
    ),
];

#[allow(clippy::cast_precision_loss)]
fn approximate(number: u128) -> f64 {
    number as f64
}

/// Keys as they follow from a model and a machine, where they are not given.
#[derive(Serialize, Clone, Debug)]
pub struct OfModel {
    /// Forward and backward of a sample.
    pub cost: Option<String>,
    pub layers: u64,
    /// Bytes of all parameters as they travel.
    pub parameters_bytes: Option<u64>,
    /// The rate of a device.
    pub bandwidth: Option<String>,
    /// The rate of a node, where there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_bandwidth: Option<String>,
}

impl OfModel {
    fn new(keys: &FsdpKeys) -> Self {
        Self {
            cost: keys.cost.as_ref().map(ToString::to_string),
            layers: keys.layers(),
            parameters_bytes: keys.parameters().map(|size| size.0),
            bandwidth: keys.bandwidth.map(|rate| rate.to_string()),
            node_bandwidth: keys.node_bandwidth.map(|rate| rate.to_string()),
        }
    }

    fn in_words(&self) -> String {
        let known = |name: &str, value: &Option<String>| {
            value.as_ref().map_or(String::new(), |value| format!(", {name} = {value}"))
        };
        let size = self.parameters_bytes.map(|size| Bytes(size).to_string());
        format!(
            "\nby model and machine: layers = {}{}{}{}{}\n",
            self.layers,
            known("cost", &self.cost),
            known("parameters", &size),
            known("bandwidth", &self.bandwidth),
            known("node-bandwidth", &self.node_bandwidth)
        )
    }
}

/// The answer to a question of packing and communication.
#[derive(Serialize, Clone, Debug)]
pub struct FsdpAnswer {
    /// The way that gains most over LB-Micro with collectives, and the setting in which it does.
    pub headline: String,
    /// Every way in every setting, in the order of the keys.
    pub results: Vec<FsdpRow>,
    /// What followed from a model and a machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of_model: Option<OfModel>,
    /// `Some(true)` after a stop: the rows cover the minibatches done by then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interrupted: Option<bool>,
}

impl crate::Tabular for FsdpAnswer {
    fn csv(&self) -> Result<Vec<u8>, Diagnostic> {
        crate::csv(&self.results)
    }

    fn sheet(&self) -> Sheet {
        let table = table!(
            row = &self.results,
            "packing, communication" = format!("{}, {}", row.method, row.communication),
            "devices" = row.devices,
            "minibatch" = row.minibatch_size,
            "max tokens" = row.max_tokens,
            "microbatches" = format!("{:.2}", row.microbatches_per_device),
            "step" = Nanos(row.step_ns),
            "idle" = Nanos(row.idle_ns),
            "bubble" = format::percent(row.bubble_rate),
            "speed-up" = format!("{:.3}", row.speedup),
        );
        let best = best(&self.results).map(|(at, _)| at);
        let table = table.with_best(best).headed(&self.headline);
        let table = match &self.of_model {
            Some(of_model) => table.and_text(of_model.in_words()),
            None => table,
        };
        CAUSES.into_iter().fold(table, |sheet, (name, words)| {
            let slower = self.results.iter().filter(|row| row.slower_for == Some(name)).count();
            let of = self.results.len();
            match slower {
                0 => sheet,
                _ => sheet.and_text(format!(
                    "\non-demand is predicted slower than collectives in {slower} of {of} rows: {words}\n"
                )),
            }
        })
    }
}

/// The row that gains most over [`BASELINE`], and its number; of equals, the first.
#[must_use]
pub fn best(rows: &[FsdpRow]) -> Option<(usize, &FsdpRow)> {
    rows.iter().enumerate().min_by(|(_, a), (_, b)| b.speedup.total_cmp(&a.speedup))
}

/// The answer in a sentence.
fn headline(rows: &[FsdpRow]) -> String {
    let Some((_, best)) = best(rows) else { return String::new() };
    let FsdpRow { devices, minibatch_size, max_tokens, speedup, bubble_rate, .. } = best;
    let of = |row: &FsdpRow| (row.devices, row.minibatch_size, row.max_tokens);
    let several = rows.iter().any(|row| of(row) != of(best));
    let setting = match several {
        true => format!(
            ", most on {devices} devices with {minibatch_size} samples each in microbatches of at most {max_tokens} tokens"
        ),
        false => String::new(),
    };
    let time = format::time(pipeline::Nanos(best.step_ns));
    let (time, idle) = (time.trim(), format::percent(*bubble_rate));
    let [method, communication] = [BASELINE.method.name(), BASELINE.communication.name()];
    if (best.method, best.communication) == (method, communication) {
        return format!(
            "Nothing is faster than {method} with {communication}: a step of {time}, {idle} idle."
        );
    }
    format!(
        "{} with {} is {speedup:.2} times as fast as {method} with {communication}{setting}: a step of {time}, {idle} idle.",
        best.method, best.communication,
    )
}

/// Packs the samples of every setting in every way, and times them.
pub fn fsdp(context: &Context<'_>, keys: &FsdpKeys) -> Result<FsdpAnswer, Diagnostic> {
    let is_of_model = keys.model.is_some();
    let keys = &planning::samples::of_keys(context, keys)?;
    let settings = keys.settings(context)?;
    let ways = keys.ways();
    // Every way is held against the baseline, and against collectives with the same packing where they
    // can have it.
    let beside = |way: Way| {
        let method = if way.method.is_even() { way.method } else { BASELINE.method };
        Way { method, communication: Communication::Collectives }
    };
    let mut asked: Vec<Way> = Vec::new();
    for way in ways.iter().flat_map(|&way| [way, beside(way)]).chain([BASELINE]) {
        if !asked.contains(&way) {
            asked.push(way);
        }
    }
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
        let of = |way: Way| asked.iter().position(|asked| *asked == way).map(|at| &tallies[at]);
        let row = |&way: &Way| {
            let sides = [of(BASELINE)?, of(beside(way))?];
            Some(FsdpRow::new(setting, way, of(way)?, sides, keys.parameters()))
        };
        results.extend(ways.iter().filter_map(row));
    }
    let of_model = is_of_model.then(|| OfModel::new(keys));
    let interrupted = context.cut_short().then_some(true);
    Ok(FsdpAnswer { headline: headline(&results), results, of_model, interrupted })
}

/// Says before minibatches are packed if that takes minutes.
fn announce(context: &Context<'_>, settings: &[FsdpSetting], minibatches: u64) {
    // Packing goes through all devices for every sample.
    const PAIRS_PER_SECOND: u64 = 6_000_000;
    let pairs = |setting: &FsdpSetting| {
        let devices = setting.devices as u128;
        devices * devices * u128::from(setting.minibatch_size)
    };
    let all: u128 = settings.iter().map(pairs).sum();
    let all = all.saturating_mul(u128::from(minibatches));
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    let what = format!("{} settings of {minibatches} minibatches", settings.len());
    announce_estimate(context.host(), all, PAIRS_PER_SECOND * cores, &what);
}
