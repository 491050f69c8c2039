//! A setting: a model cut over stages and over tensor, context and expert groups, as a pipeline of segments.

use std::path::Path;

use pipeline::overlap::{Chain, Contention, Interleaving, Rule};
use pipeline::{Family, Fault, Nanos, peak_in_flight};
use question::Diagnostic;
use question::values::segments::ContentionKey;
use serde::Deserialize;

use super::super::super::sources::{Sources, error_in};
use super::super::layer::{Pipeline, Place, Step, chunk, layer};
use super::super::model::{Flops, Model};
use super::super::pair::MEAN;
use super::super::profile::Profile;
use super::super::run::seconds;

pub(in super::super::super) const SETTINGS: &str = "overlap-settings.csv";

/// A hop of the setting with measured layers.
const HOP: Nanos = Nanos(2_000_000);
/// Bytes of a number in 16 bits.
const HALF: f64 = 2.0;

#[derive(Deserialize, Clone)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Line {
    name: String,
    model: String,
    devices: u32,
    stages: u32,
    tp: u32,
    cp: u32,
    ep: u32,
    sequences: u32,
    sequence: u32,
    tflops: f64,
    link_gb_per_s: f64,
    network_gb_per_s: f64,
    copies: f64,
    dispatch_bytes: f64,
    contention: String,
    pair: Answer,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Answer {
    Yes,
    No,
}

pub(super) struct Setting {
    line: Line,
    model: String,
    /// The chunk of a stage, and half of it.
    chunks: [Chain; 2],
    /// The same where the streams take nothing from each other.
    ideal: [Chain; 2],
    microbatches: u64,
    hop: Nanos,
}

/// How passes share the streams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mode {
    /// One after the other.
    Apart,
    /// In pairs, in the published order.
    Pairs,
    /// The same, where the streams take nothing from each other.
    Ideal,
}

/// Time and memory of a step of a schedule.
pub(super) struct Outcome {
    pub(super) seconds: f64,
    /// The most activations that a stage holds, in those of a microbatch on one stage.
    pub(super) peak: f64,
}

impl Setting {
    pub(super) fn all(sources: &Sources<'_>) -> Result<Vec<Self>, Diagnostic> {
        let models = Model::all(sources)?;
        let profile = Profile::read(sources)?;
        let (path, lines) = sources.records_or_built_in::<Line>(SETTINGS)?;
        lines.into_iter().map(|line| Self::new(&path, line, &models, &profile)).collect()
    }

    fn new(
        path: &Path,
        line: Line,
        models: &[Model],
        profile: &Profile,
    ) -> Result<Self, Diagnostic> {
        let wrong = |what: &str| error_in(path, None, &format!("{}: {what}", line.name));
        let Some(model) = Model::named(models, &line.model) else {
            return Err(wrong(&format!("there is no model {}", line.model)));
        };
        line.check(model).map_err(wrong)?;
        let contention: ContentionKey =
            line.contention.parse().map_err(|error| wrong(&format!("{error}")))?;
        let group = line.stages * line.tp * line.cp;
        let microbatches = u64::from(line.sequences / (line.devices / group));
        let half = model.layers / (2 * line.stages);
        let made = |contention| -> Result<[Chain; 2], Fault> {
            let of = |count| match line.pair {
                Answer::Yes => profile.mean(count, MEAN),
                Answer::No => chunk(vec![(layer(&line.places(model), contention)?, count)]),
            };
            Ok([of(2 * half)?, of(half)?])
        };
        let [chunks, ideal] = [contention.contention(), Contention::NONE].map(made);
        let [chunks, ideal] =
            [chunks, ideal].map(|two| two.map_err(|fault| wrong(&fault.to_string())));
        let hop = match line.pair {
            Answer::Yes => HOP,
            Answer::No => {
                let bytes = line.tokens() * model.activation_bytes() / f64::from(line.tp);
                plan::nanos(bytes / (line.network_gb_per_s * 1e9))
            }
        };
        Ok(Self {
            model: model.name.clone(),
            chunks: chunks?,
            ideal: ideal?,
            microbatches,
            hop,
            line,
        })
    }

    /// The same, where no communication, within passes or between stages, takes time.
    #[cfg(test)]
    pub(super) fn quiet(self) -> Self {
        let chunks = self.chunks.map(|chunk| chunk.without_communication());
        Self { ideal: chunks.clone(), chunks, hop: Nanos(0), ..self }
    }

    pub(super) fn name(&self) -> &str {
        &self.line.name
    }

    /// Key that comparable settings share: the model, the devices, the sequences of a step and the
    /// source of its times.
    pub(super) fn job(&self) -> Option<String> {
        let Line { devices, sequences, sequence, pair, .. } = &self.line;
        let job = format!("{} on {devices}, {sequences} x {sequence} a step", self.model);
        (*pair == Answer::No).then_some(job)
    }

    /// The name with stages and microbatches.
    pub(super) fn row(&self) -> String {
        format!("{}, p={} m={}", self.line.name, self.line.stages, self.microbatches)
    }

    /// A step of `family`, with `chunks` of them on each stage.
    pub(super) fn outcome(
        &self,
        family: Family,
        chunks: u64,
        mode: Mode,
    ) -> Result<Outcome, Fault> {
        let half = usize::from(chunks == 2);
        let chain = match mode {
            Mode::Apart | Mode::Pairs => self.chunks[half].clone(),
            Mode::Ideal => self.ideal[half].clone(),
        };
        let stages = u64::from(self.line.stages);
        let count = usize::try_from(stages * chunks).unwrap_or(usize::MAX);
        let shape = [stages, chunks, self.microbatches];
        let pipeline = Pipeline { shape, chains: vec![chain; count], hop: self.hop };
        let rule = match mode {
            Mode::Apart => Rule::default(),
            Mode::Pairs | Mode::Ideal => Rule {
                interleaving: Interleaving::Published,
                lone: family.about().overlaps_lone,
                ..Rule::default()
            },
        };
        let Step { time, schedule } = pipeline.step(family, rule)?;
        let peak = peak_in_flight(&schedule).into_iter().max().unwrap_or(0);
        let peak = f64::from(peak) / if chunks == 2 { 2.0 } else { 1.0 };
        Ok(Outcome { seconds: seconds(time), peak })
    }
}

impl Line {
    fn check(&self, model: &Model) -> Result<(), &'static str> {
        let Self { devices, stages, tp, cp, ep, sequences, sequence, .. } = self;
        let counts = [devices, stages, tp, cp, ep, sequences, sequence];
        if counts.into_iter().any(|count| *count == 0 || *count > 1 << 20) {
            return Err("a count is 0, or far beyond all settings");
        }
        let rates = [self.tflops, self.link_gb_per_s, self.network_gb_per_s, self.dispatch_bytes];
        let possible = |rate: f64| rate > 0.0 && rate < 1e6;
        if !rates.into_iter().all(possible) || !(0.0..1e6).contains(&self.copies) {
            return Err("a rate or a size is not above zero, or far beyond all machines");
        }
        let group = u64::from(*stages) * u64::from(*tp) * u64::from(*cp);
        let devices = u64::from(*devices);
        if !devices.is_multiple_of(group) || !u64::from(*sequences).is_multiple_of(devices / group)
        {
            return Err("p x tp x cp must divide the devices, and what is left the sequences");
        }
        if !model.layers.is_multiple_of(2 * stages) {
            return Err("the layers must fill two chunks on each stage evenly");
        }
        let experts = model.routed > 0;
        if experts && (*tp, *cp) != (1, 1) || !experts && (*ep != 1 || self.pair == Answer::Yes) {
            return Err("a model with experts has ep here, another one tp and cp");
        }
        Ok(())
    }

    /// Tokens of a microbatch on a device, of which context parallelism takes a share.
    fn tokens(&self) -> f64 {
        f64::from(self.sequence) / f64::from(self.cp)
    }

    fn compute(&self, name: &'static str, flops: Flops) -> Place {
        let rate = self.tflops * 1e12 * f64::from(self.tp);
        Place::compute(name, flops.map(|flops| plan::nanos(flops / rate)))
    }

    /// A layer: with experts, attention and experts with dispatch and combine between; else attention and MLP
    /// between the collectives of their groups.
    fn places(&self, model: &Model) -> Vec<Place> {
        let (tokens, sequence) = (self.tokens(), f64::from(self.sequence));
        let [attention, experts] = [model.attention(tokens, sequence), model.experts(tokens)];
        if model.routed == 0 {
            return self.dense(model, attention, experts);
        }
        let sent = |bytes: f64| {
            let numbers = self.copies * tokens * f64::from(model.hidden);
            plan::nanos(numbers * bytes / (self.network_gb_per_s * 1e9))
        };
        // The backward of a combine is a dispatch, and that of a dispatch a combine.
        let [out, back] = [sent(self.dispatch_bytes), sent(HALF)];
        vec![
            self.compute("attention", attention),
            Place::communication("dispatch", [out, back]),
            self.compute("experts", experts),
            Place::communication("combine", [back, out]),
        ]
    }

    /// With sequence parallelism activations are gathered before attention and before the MLP, and scattered
    /// behind both: between them both in a row. A context group gathers keys and values between their
    /// projection and attention. B does the same the other way round; what else it gathers again is hidden
    /// behind its own products, as Megatron-LM does.
    fn dense(&self, model: &Model, attention: Flops, mlp: Flops) -> Vec<Place> {
        let others = |group: u32| (f64::from(group) - 1.0) / f64::from(group);
        let link = self.link_gb_per_s * 1e9;
        let moved = |bytes: f64| [plan::nanos(bytes / link); 2];
        let activation = self.tokens() * model.activation_bytes() * others(self.tp);
        let keys = f64::from(self.sequence) * model.kv_bytes() / f64::from(self.tp);
        let into = model.queries_keys_values(self.tokens());
        let behind = [0, 1, 2].map(|part| attention[part] - into[part]);
        let mut places = vec![Place::communication("gather", moved(activation))];
        match self.cp {
            1 => places.push(self.compute("attention", attention)),
            _ => places.extend([
                self.compute("projection", into),
                Place::communication("keys", moved(keys * others(self.cp))),
                self.compute("attention", behind),
            ]),
        }
        places.extend([
            Place::communication("exchange", moved(2.0 * activation)),
            self.compute("mlp", mlp),
            Place::communication("scatter", moved(activation)),
        ]);
        places
    }
}
