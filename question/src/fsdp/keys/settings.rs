//! The settings that keys ask for, each with its study.

use fsdp::{FsdpError, Lengths, Links, Machine, Nodes, Study};
use sim::straggler::{Stragglers, Target};

use super::FsdpKeys;
use crate::diagnostic::Diagnostic;
use crate::host::Context;
use crate::noise;
use crate::values::noise::Jittered;
use crate::values::packing::{PackingRatio, ShardingKey};

/// The most settings of one call.
const MAX_SETTINGS: usize = 1_000;

/// One point of the grid.
pub struct FsdpSetting {
    /// Data-parallel devices.
    pub devices: usize,
    /// Samples of a minibatch per device.
    pub minibatch_size: u64,
    /// The most tokens of a microbatch.
    pub max_tokens: u64,
    /// The study that is run.
    pub study: Study,
}

impl FsdpSetting {
    /// `fault` with the setting it arose in.
    pub fn error(&self, fault: &FsdpError) -> Diagnostic {
        let Self { devices, minibatch_size, .. } = self;
        let place = format!("{devices} devices, minibatch size {minibatch_size}");
        let error = Diagnostic::new(format!("{place}: {fault}"));
        match fault {
            FsdpError::Deadlock { .. } => error.with_help(
                "leave out --communication to have lb-mini with on-demand communication only, or \
                 take lb-micro",
            ),
            FsdpError::TooLong { .. } => {
                error.with_help("raise --max-tokens, or name a --packing-ratio in its place")
            }
            _ => error,
        }
    }
}

impl FsdpKeys {
    /// All settings, in the order of the keys; nothing is drawn yet.
    pub fn settings(&self, context: &Context<'_>) -> Result<Vec<FsdpSetting>, Diagnostic> {
        self.check()?;
        let lengths = self.lengths.read(context).map_err(|error| error.about("lengths"))?;
        let limits = self.limits(&lengths);
        let count = self.devices.len().saturating_mul(self.minibatch_size.len());
        let count = count.saturating_mul(limits.len());
        if count > MAX_SETTINGS {
            let message = format!("{count} settings: at most {MAX_SETTINGS} in one call");
            return Err(Diagnostic::new(message));
        }
        let mut settings = Vec::with_capacity(count);
        for &devices in &self.devices {
            let machine = self.machine(context, devices)?;
            for &minibatch_size in &self.minibatch_size {
                for &max_tokens in &limits {
                    let study = Study {
                        machine: machine.clone(),
                        lengths: lengths.clone(),
                        model: self.cost_model(),
                        minibatch: minibatch_size,
                        limit: max_tokens,
                        minibatches: self.minibatches,
                        seed: self.seed,
                    };
                    settings.push(FsdpSetting { devices, minibatch_size, max_tokens, study });
                }
            }
        }
        Ok(settings)
    }

    /// Refuses keys that exclude each other, and those of links without what a link needs.
    fn check(&self) -> Result<(), Diagnostic> {
        let blame = |key: &str, message: String| Err(Diagnostic::new(message).about(key));
        if !self.packing_ratio.is_empty() && !self.max_tokens.is_empty() {
            let message = "--packing-ratio and --max-tokens exclude each other";
            return blame("packing-ratio", message.to_owned());
        }
        if self.bandwidth.is_some() && self.parameters.is_none() {
            return blame("bandwidth", "--bandwidth needs --parameters".to_owned());
        }
        let of_links = [
            ("parameters", self.parameters.is_some()),
            ("latency", self.latency.is_some()),
            ("owners", self.owners.is_some()),
            ("pull-bandwidth", self.pull_bandwidth.is_some()),
            ("node-bandwidth", self.node_bandwidth.is_some()),
            ("no-overlap", self.no_overlap),
        ];
        if self.devices_per_node.is_some() != self.node_bandwidth.is_some() {
            let message = "--devices-per-node and --node-bandwidth need each other";
            return blame("node-bandwidth", message.to_owned());
        }
        if self.sharding == ShardingKey::Hybrid && self.devices_per_node.is_none() {
            return blame("sharding", "--sharding hybrid needs --devices-per-node".to_owned());
        }
        match of_links.into_iter().find(|&(_, given)| given && self.bandwidth.is_none()) {
            Some((key, _)) => blame(key, format!("--{key} needs --bandwidth")),
            None => Ok(()),
        }
    }

    /// The most tokens of a microbatch, rounded down.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // A ratio is checked.
    fn limits(&self, lengths: &Lengths) -> Vec<u64> {
        let of_ratio = |ratio: &PackingRatio| (ratio.0 * f64::from(lengths.longest())) as u64;
        match (self.max_tokens.as_slice(), self.packing_ratio.as_slice()) {
            ([], []) => vec![u64::from(lengths.longest())],
            ([], ratios) => ratios.iter().map(of_ratio).collect(),
            (tokens, _) => tokens.to_vec(),
        }
    }

    fn machine(&self, context: &Context<'_>, devices: usize) -> Result<Machine, Diagnostic> {
        let fail = |fault: FsdpError| Diagnostic::new(fault.to_string());
        let mut machine = Machine::new(devices, self.layers()).map_err(fail)?;
        if let (Some(parameters), Some(bandwidth)) = (self.parameters, self.bandwidth) {
            let nodes = self.devices_per_node.zip(self.node_bandwidth);
            // Fewer devices than a node of a named machine has sit on one node.
            let nodes = nodes.filter(|(node, _)| self.machine.is_none() || devices > *node);
            let sharding = self.sharding.sharding();
            let nodes = nodes.map(|(devices, bandwidth)| Nodes { devices, bandwidth, sharding });
            let links = Links {
                bandwidth,
                latency: self.latency.unwrap_or_default(),
                parameters,
                owners: self.owners,
                pull_bandwidth: self.pull_bandwidth,
                nodes,
                overlap: !self.no_overlap,
            };
            machine = machine.with_links(links).map_err(fail)?;
        }
        match self.stragglers(context, devices)? {
            Some(stragglers) => Ok(machine.with_stragglers(stragglers)),
            None => Ok(machine),
        }
    }

    fn stragglers(
        &self,
        context: &Context<'_>,
        devices: usize,
    ) -> Result<Option<Stragglers>, Diagnostic> {
        if self.slowdown.is_empty() && self.jitter.is_none() && self.stall.is_none() {
            return Ok(None);
        }
        let fail = |error: sim::straggler::StragglerError| Diagnostic::new(error.to_string());
        let mut stragglers = Stragglers::new(devices, self.seed);
        for slowdown in &self.slowdown {
            if !matches!(slowdown.target, Target::Device(_)) {
                let message = format!("--slowdown {}: there are only devices", slowdown.target);
                return Err(Diagnostic::new(message).with_help("write device:3=1.5"));
            }
            stragglers.slow(slowdown.target, slowdown.factor).map_err(fail)?;
        }
        if let Some(jitter) = &self.jitter {
            if jitter.what == Jittered::Hop {
                let message = "--jitter hop: there are no hops between stages";
                return Err(Diagnostic::new(message).with_help("write pass=LAW, for layers"));
            }
            stragglers.jitter_passes(noise::law(context, &jitter.law)?);
        }
        if let Some(stall) = self.stall {
            stragglers.stall(stall.probability, stall.length).map_err(fail)?;
        }
        Ok(Some(stragglers))
    }
}
