//! A measured run as a pipeline of segments: the work by its FLOPs, dispatch and combine by their bytes.

use std::path::Path;

use pipeline::overlap::{Chain, Contention, Interleaving, Layer, Rule, Segment, Weights};
use pipeline::{Family, Fault, LayerLayout, Nanos};
use question::Diagnostic;
use serde::Deserialize;

use super::super::sources::{Sources, error_in};
use super::layer::{Pipeline, Place, layer};
use super::model::{Flops, Model};

pub(in super::super) const RUNS: &str = "overlap-runs.csv";

/// How often a layer sends tokens to experts and back in F and B.
const ALL_TO_ALLS: f64 = 4.0;

#[derive(Deserialize, Clone, Debug)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Run {
    pub(super) run: String,
    model: String,
    stages: u32,
    microbatches: u32,
    tokens: u32,
    layout: String,
    recompute: Recompute,
    compute_s: Option<f64>,
    tflops: Option<f64>,
    all_to_all_s: Option<f64>,
    gb_per_s: Option<f64>,
    leaving: Option<f64>,
    outside_s: f64,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "kebab-case")]
enum Recompute {
    None,
    /// A layer is done again right before its backward, its all-to-alls beside nothing.
    Full,
}

/// A run with the times of its segments.
pub(super) struct Modelled<'a> {
    run: &'a Run,
    model: &'a Model,
    layout: LayerLayout,
    chunks: u64,
    /// FLOPs that a device does in a second.
    rate: f64,
    /// Seconds of one all-to-all.
    all_to_all: f64,
}

/// How passes of a run share the streams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sharing {
    /// One after the other.
    Apart,
    Pairs(Weights, Contention),
}

impl Run {
    pub(super) fn all(sources: &Sources<'_>) -> Result<Vec<Self>, Diagnostic> {
        let (path, runs) = sources.records::<Self>(RUNS)?;
        runs.iter().try_for_each(|run| run.check(&path))?;
        Ok(runs)
    }

    fn check(&self, path: &Path) -> Result<(), Diagnostic> {
        let wrong = |what: &str| Err(error_in(path, None, &format!("{}: {what}", self.run)));
        if [self.stages, self.microbatches, self.tokens].contains(&0) || self.tokens > 1 << 24 {
            return wrong("a count is 0, or far beyond all runs");
        }
        let given = [self.compute_s, self.tflops, self.all_to_all_s, self.gb_per_s, self.leaving];
        let possible = |figure: f64| figure > 0.0 && figure < 1e9;
        if !given.into_iter().flatten().all(possible) || !(0.0..1e9).contains(&self.outside_s) {
            return wrong("a figure is not above zero, or far beyond all runs");
        }
        match (self.compute_s.is_some(), self.tflops.is_some()) {
            (true, false) | (false, true) => {}
            _ => return wrong("either compute-s or tflops must be given"),
        }
        let by_bytes = [self.gb_per_s.is_some(), self.leaving.is_some()];
        match (self.all_to_all_s.is_some(), by_bytes) {
            (true, [false, false]) | (false, [true, true]) => Ok(()),
            _ => wrong("either all-to-all-s or gb-per-s and leaving must be given"),
        }
    }

    /// The run with the times of its segments.
    pub(super) fn modelled<'a>(&'a self, models: &'a [Model]) -> Result<Modelled<'a>, String> {
        let model = Model::named(models, &self.model);
        let model = model.ok_or_else(|| format!("there is no model {}", self.model))?;
        let layout: LayerLayout = match self.layout.as_str() {
            "" => self.even(model)?,
            given => given.parse().map_err(|error: pipeline::LayoutError| error.to_string())?,
        };
        if (layout.total(), layout.mtp()) != (u64::from(model.layers), u64::from(model.mtp)) {
            return Err(format!("the layout has other layers than {}", model.name));
        }
        let chunks = layout.chunks_per_stage(u64::from(self.stages));
        let chunks = chunks.map_err(|error| error.to_string())?;
        let tokens = f64::from(self.tokens);
        let all = f64::from(self.microbatches) / f64::from(self.stages);
        let rate = match (self.compute_s, self.tflops) {
            (Some(seconds), _) => model.flops(tokens, tokens) * all / seconds,
            (None, tflops) => tflops.unwrap_or(f64::INFINITY) * 1e12,
        };
        let all_to_all = match self.all_to_all_s {
            Some(seconds) => seconds / (f64::from(model.layers + model.mtp) * all * ALL_TO_ALLS),
            None => {
                let leaving = model.routed_bytes(tokens) * self.leaving.unwrap_or(1.0);
                leaving / (self.gb_per_s.unwrap_or(f64::INFINITY) * 1e9)
            }
        };
        Ok(Modelled { run: self, model, layout, chunks, rate, all_to_all })
    }

    /// The same number of layers on each stage.
    fn even(&self, model: &Model) -> Result<LayerLayout, String> {
        if !model.layers.is_multiple_of(self.stages) {
            return Err("the layers do not fill the stages evenly".to_owned());
        }
        let stages = usize::try_from(self.stages).unwrap_or(usize::MAX).min(1 << 16);
        let layers = vec![u64::from(model.layers / self.stages); stages];
        LayerLayout::of(layers).map_err(|error| error.to_string())
    }
}

impl Modelled<'_> {
    /// The step in seconds.
    pub(super) fn step(&self, sharing: Sharing) -> Result<f64, Fault> {
        let is_interleaved = self.chunks > 1;
        let contention = match sharing {
            Sharing::Apart => Contention::NONE,
            Sharing::Pairs(_, contention) => contention,
        };
        let family = match (sharing, is_interleaved) {
            (Sharing::Apart, false) => Family::OneFOneB,
            (Sharing::Apart, true) => Family::Interleaved,
            (Sharing::Pairs(..), false) => Family::OneFOneBOverlap,
            (Sharing::Pairs(..), true) => Family::InterleavedOverlap,
        };
        let rule = match sharing {
            Sharing::Apart => Rule::default(),
            Sharing::Pairs(weights, _) => {
                Rule { interleaving: self.interleaving()?, weights, lone: true }
            }
        };
        let shape = [self.run.stages.into(), self.chunks, self.run.microbatches.into()];
        let pipeline = Pipeline { shape, chains: self.chains(contention)?, hop: Nanos(0) };
        Ok(seconds(pipeline.step(family, rule)?.time) + self.run.outside_s)
    }

    /// The published order, with a layer's recomputation before its backward, and the projection of a
    /// layer of multi-token prediction beside its attention.
    fn interleaving(&self) -> Result<Interleaving, Fault> {
        match (self.run.recompute, self.model.mtp) {
            (Recompute::None, 0) => Ok(Interleaving::Published),
            (Recompute::None, _) => "cB pF aF eB dF eW dB eF cF aB aW pB pW".parse(),
            (Recompute::Full, 0) => "rB cB aF eB dF eW dB eF cF aB aW".parse(),
            (Recompute::Full, _) => "rB cB pF aF eB dF eW dB eF cF aB aW pB pW".parse(),
        }
    }

    fn chains(&self, contention: Contention) -> Result<Vec<Chain>, Fault> {
        let plain = self.layer(false, contention)?;
        let mtp = self.layer(true, contention)?;
        let tokens = f64::from(self.run.tokens);
        let output = layer(&[self.compute("output", self.model.output(tokens))], contention)?;
        let count = |layers: u64| u32::try_from(layers).unwrap_or(u32::MAX);
        let last = self.layout.layers().len() - 1;
        let chunk = |(at, layers): (usize, &u64)| {
            let mut runs = vec![(plain.clone(), count(*layers))];
            runs.push((mtp.clone(), count(self.layout.mtp_in(at))));
            runs.retain(|(_, count)| *count > 0);
            let tail = if at == last { output.clone() } else { Layer::default() };
            Chain::new(Layer::default(), runs, tail)
        };
        self.layout.layers().iter().enumerate().map(chunk).collect()
    }

    /// A layer, which may be one of multi-token prediction, with its replay where it has one.
    fn layer(&self, is_mtp: bool, contention: Contention) -> Result<Layer, Fault> {
        let tokens = f64::from(self.run.tokens);
        let all_to_all = plan::nanos(self.all_to_all);
        let [dispatch, combine] =
            ["dispatch", "combine"].map(|name| Place::communication(name, [all_to_all; 2]));
        let mut places = vec![
            self.compute("attention", self.model.attention(tokens, tokens)),
            dispatch,
            self.compute("experts", self.model.experts(tokens)),
            combine,
        ];
        if is_mtp {
            places.insert(0, self.compute("projection", self.model.projection(tokens)));
        }
        let mut layer = layer(&places, contention)?;
        if self.run.recompute == Recompute::Full {
            let all = layer.forward.iter().map(|segment| segment.time).sum();
            let name = "replay".parse().map_err(|error: pipeline::overlap::SegmentNameError| {
                Fault::Segments { what: error.to_string() }
            })?;
            // Nothing runs beside its all-to-alls, so that they hold the compute stream.
            layer.backward.insert(0, Segment::compute(name, all));
            layer.weight.iter_mut().for_each(|weight| weight.behind += 1);
        }
        Ok(layer)
    }

    fn compute(&self, name: &'static str, flops: Flops) -> Place {
        Place::compute(name, flops.map(|flops| plan::nanos(flops / self.rate)))
    }
}

#[allow(clippy::cast_precision_loss)] // Steps are far below 2^53 ns.
pub(super) fn seconds(time: Nanos) -> f64 {
    time.0 as f64 / 1e9
}
