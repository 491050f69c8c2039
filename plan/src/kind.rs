//! Kinds of steps: the properties that a measured step must share with a predicted one to tell its
//! error.

use std::fmt;

use crate::inputs::Inputs;
use crate::model::Attention;
use crate::setup::{Setup, Zero};
use crate::software::Tuning;

/// The kind of a step. Errors of one kind say nothing about another.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Kind {
    /// The type of its devices, as published measurements name it; nothing for devices whose machine
    /// names none, and for several types side by side.
    pub device: Option<String>,
    /// How attention is computed.
    pub attention: Attention,
    /// The state that replicas share.
    pub sharding: Sharding,
    /// Whether layers have experts.
    pub experts: bool,
    /// How far it reaches.
    pub reach: Reach,
    /// The framework that runs it, where it is given.
    pub tuning: Option<Tuning>,
    /// Whether the times of layers come from a profile of the user's in place of the formulas.
    pub profiled: bool,
    /// Whether some weights are frozen, beside adapters or alone.
    pub frozen: bool,
}

/// The state that data-parallel replicas shard instead of holding all of it each.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Sharding {
    /// Nothing, or the optimizer's state: ZeRO stages 0 and 1.
    Optimizer,
    /// Gradients too: ZeRO stage 2.
    Gradients,
    /// Parameters too: ZeRO stage 3, FSDP.
    Parameters,
}

/// Extent of the devices of a step.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Reach {
    /// All in one node, or in one domain of fast links.
    OneNode,
    /// On several.
    ManyNodes,
}

impl Kind {
    /// The kind of a step of `setup` on `inputs`.
    #[must_use]
    pub fn of(inputs: &Inputs<'_>, setup: &Setup) -> Self {
        let Inputs { model, recipe, cluster, .. } = inputs;
        let machines = || cluster.parts.iter().map(|(machine, _)| machine);
        let device = machines().next().and_then(|machine| machine.device.clone());
        let is_alone = machines().all(|machine| machine.device == device);
        let domain = machines().map(|machine| machine.domain).min().unwrap_or(1);
        let partition = setup.partition(recipe);
        let shares = setup.data.saturating_mul(setup.context) > 1;
        Self {
            device: device.filter(|_| is_alone),
            attention: model.attention,
            sharding: match setup.zero {
                Zero::Gradients if shares => Sharding::Gradients,
                Zero::Parameters if shares => Sharding::Parameters,
                _ => Sharding::Optimizer,
            },
            experts: model.experts.is_some(),
            tuning: recipe.software.tuning,
            reach: if cluster.devices() > domain { Reach::ManyNodes } else { Reach::OneNode },
            profiled: machines()
                .any(|machine| machine.measured.is_some_and(|measured| measured.is_of(partition))),
            frozen: !model.frozen().is_none(),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let device = self.device.as_deref().unwrap_or("no device of a published type");
        let attention = match self.attention {
            Attention::Core => "core attention",
            Attention::Flash => "flash attention",
        };
        let sharding = match self.sharding {
            Sharding::Optimizer => "ZeRO 0-1",
            Sharding::Gradients => "ZeRO 2",
            Sharding::Parameters => "ZeRO 3",
        };
        let experts = if self.experts { "experts" } else { "dense" };
        let reach = match self.reach {
            Reach::OneNode => "one node",
            Reach::ManyNodes => "many nodes",
        };
        write!(f, "{device}, {attention}, {sharding}, {experts}, {reach}")?;
        if let Some(tuning) = self.tuning {
            write!(f, ", {}", tuning.name())?;
        }
        if self.frozen {
            f.write_str(", frozen weights")?;
        }
        if self.profiled { f.write_str(", layers of a profile") } else { Ok(()) }
    }
}
