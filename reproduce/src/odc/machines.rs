//! Times of ODC's models on the machines that they were measured on. No constant is fitted here: costs
//! are ODC's own fits, or scaled from the larger of them by sizes, and links are those of data sheets.

use std::path::Path;

use fsdp::{CostModel, FsdpError, Links, Machine, Nodes, Sharding};
use pipeline::{Bandwidth, Bytes, Nanos};
use question::Diagnostic;
use serde::Deserialize;

use super::super::sources::{Sources, error_in};
use super::MODELS;

/// The models that ODC fitted costs of, the smaller first.
pub(super) const FITS: [(&str, CostModel); 2] =
    [("1.5b", CostModel::FIT_1_5B), ("7b", CostModel::FIT_7B)];

const NODE: usize = 8;
/// Of an A100's NVLinks, in bytes per second and direction.
const NVLINK: u64 = 300_000_000_000;
/// Of a node: RoCE, 800 Gbit/s (published).
const ROCE: u64 = 100_000_000_000;
const LATENCY: Nanos = Nanos(10_000);
/// Bytes of a parameter as it travels, in bf16.
const BF16: u64 = 2;

/// A model, and how many devices it is trained on.
#[derive(Deserialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct Model {
    pub(super) model: String,
    pub(super) layers: u16,
    hidden: u32,
    parameters: u64,
    pub(super) devices: usize,
}

pub(super) struct Models(pub(super) Vec<Model>);

impl Models {
    /// Reads the models, of which ODC's fits need two.
    pub(super) fn read(sources: &Sources<'_>) -> Result<Self, Diagnostic> {
        let (path, all) = sources.records::<Model>(MODELS)?;
        let models = Self(all);
        for (name, _) in FITS {
            if models.named(name).is_none() {
                return Err(error_in(&path, None, &format!("there is no model `{name}`")));
            }
        }
        let is_none = |model: &&Model| {
            model.layers == 0 || model.hidden == 0 || model.parameters == 0 || model.devices == 0
        };
        if let Some(model) = models.0.iter().find(is_none) {
            let message = format!("{}: a size is 0", model.model);
            return Err(error_in(&path, None, &message));
        }
        Ok(models)
    }

    pub(super) fn named(&self, name: &str) -> Option<&Model> {
        self.0.iter().find(|model| model.model == name)
    }

    /// Both costs of `model` at 32,000 tokens: ODC's fit, or that of the largest model that has one,
    /// scaled by sizes.
    pub(super) fn costs(&self, model: &Model) -> [f64; 2] {
        let fit = FITS.into_iter().find(|(name, _)| *name == model.model);
        let [_, (name, large)] = FITS;
        match (fit, self.named(name)) {
            (Some((_, fit)), _) => constants(fit),
            (None, Some(from)) => scaled(constants(large), from, model),
            (None, None) => constants(large),
        }
    }

    /// Errors of scaling the smaller fit to the larger model, against the fit of the larger, which is
    /// not used for costs of the smaller.
    pub(super) fn held_out(&self) -> Option<[f64; 2]> {
        let [(small, of_small), (large, of_large)] = FITS;
        let scaled = scaled(constants(of_small), self.named(small)?, self.named(large)?);
        Some([0, 1].map(|at| scaled[at] / constants(of_large)[at] - 1.0))
    }
}

/// a and b of a fit, which is quadratic.
fn constants(fit: CostModel) -> [f64; 2] {
    fit.constants().unwrap_or_default()
}

/// Costs scaled by sizes: attention by layers times width, the rest by parameters.
fn scaled(costs: [f64; 2], from: &Model, to: &Model) -> [f64; 2] {
    let width = |model: &Model| f64::from(model.layers) * f64::from(model.hidden);
    let [of_from, of_to] = [from, to].map(|model| super::super::cell::whole(model.parameters));
    [costs[0] * width(to) / width(from), costs[1] * of_to / of_from]
}

/// The cost model of both costs, on devices that are `faster` times as fast.
pub(super) fn cost_model(costs: [f64; 2], faster: f64) -> Result<CostModel, FsdpError> {
    CostModel::quadratic(costs[0] / faster, costs[1] / faster)
}

impl Model {
    pub(super) const fn bytes(&self) -> Bytes {
        Bytes(self.parameters.saturating_mul(BF16))
    }

    /// A100s of this model's number in nodes of eight, with parameters divided as `sharding` says.
    pub(super) fn a100s(&self, sharding: Sharding) -> Result<Machine, FsdpError> {
        let nodes = (self.devices > NODE).then(|| rate(ROCE)).transpose()?;
        let nodes = nodes.map(|bandwidth| Nodes { devices: NODE, bandwidth, sharding });
        let links = Links {
            bandwidth: rate(NVLINK)?,
            latency: LATENCY,
            parameters: self.bytes(),
            owners: None,
            pull_bandwidth: None,
            nodes,
            overlap: true,
        };
        Machine::new(self.devices, u64::from(self.layers))?.with_links(links)
    }
}

/// A rate that a data sheet names.
pub(super) fn rate(bytes_per_second: u64) -> Result<Bandwidth, FsdpError> {
    Bandwidth::new(bytes_per_second).map_err(|_| FsdpError::Overflow)
}

/// An error in a row of `name`.
pub(super) fn wrong(name: &str, row: &str, fault: &FsdpError) -> Diagnostic {
    error_in(Path::new(name), None, &format!("{row}: {fault}"))
}
