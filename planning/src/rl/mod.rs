//! A step of reinforcement learning by model and machine: engines by a roofline of decoding, training by the
//! layer formulas.

mod engine;
mod memory;
mod pipelines;

use fsdp::rl::{Beside, Forwards, Placement, Rollout, Steps, Trainer, Training};
use fsdp::{CostModel, FsdpError, Lengths, Links, Nodes, Sharding, Way};
use pipeline::Nanos;
use plan::{Mixer, gathered, number};
use question::diagnostic::Diagnostic;
use question::host::Context;
use question::rl::RlKeys;
use question::values::packing::{
    CommunicationKey, MethodKey, PlacementKey, RecomputeKey, StrategyKey,
};

pub use self::engine::EngineFacts;
pub use self::memory::TrainingSetup;
use crate::samples::{Cost, HALF, Samples, constants};

/// F, B with what it computes again, and W, over all three, where costs are given. The W of adapters counts as
/// none.
const fn passes(keys: &RlKeys) -> [f64; 3] {
    match (keys.recompute, keys.lora_rank.is_some()) {
        (RecomputeKey::Full, false) => [0.25, 0.5, 0.25],
        (RecomputeKey::None, false) => [1.0 / 3.0; 3],
        (RecomputeKey::Full, true) => [1.0 / 3.0, 2.0 / 3.0, 0.0],
        (RecomputeKey::None, true) => [0.5, 0.5, 0.0],
    }
}

/// The steps of a question, and what was assumed.
pub struct Asked {
    pub steps: Steps,
    /// What an engine holds, and how fast it is.
    pub engine: EngineFacts,
    /// The cost of a sample on a device, as `--cost` takes it.
    pub cost: CostModel,
    /// Devices of rollout and of training.
    pub devices: [u64; 2],
    /// Devices of a group that trains on the same samples: a sequence-parallel group, or a replica.
    pub group: u64,
    /// Attention heads of the model, which groups of devices must divide.
    pub heads: u64,
    /// Layers of the model.
    pub layers: u64,
    /// The training as the planner knows it, for its memory.
    pub training: TrainingSetup,
    /// What was assumed, a sentence each.
    pub assumed: Vec<String>,
}

/// The question that `keys` ask, whole and checked.
pub fn asked(context: &Context<'_>, keys: &RlKeys) -> Result<Asked, Diagnostic> {
    let missing = |key: &str, cure: &str| {
        Diagnostic::new(format!("--{key} is missing")).with_help(cure).about(key)
    };
    let model = keys.model.as_ref().ok_or_else(|| {
        missing("model", "name one such as qwen2.5-7b, or a config.json of Hugging Face")
    })?;
    let machine = keys.machine.as_ref();
    let machine =
        machine.ok_or_else(|| missing("machine", "name one such as h100, or its file"))?;
    let samples = Samples::read(context, model, machine)?;
    let samples = match keys.lora_rank {
        None => samples,
        Some(rank) => samples.with_adapters(rank).map_err(|error| error.about("lora-rank"))?,
    };
    let prompts =
        keys.prompt_lengths.read(context).map_err(|error| error.about("prompt-lengths"))?;
    let responses =
        keys.response_lengths.read(context).map_err(|error| error.about("response-lengths"))?;
    Reader { keys, samples, lengths: [prompts, responses] }.read()
}

struct Reader<'a> {
    keys: &'a RlKeys,
    samples: Samples,
    /// Of prompts and responses.
    lengths: [Lengths; 2],
}

fn wrong(key: &str, message: String) -> Diagnostic {
    Diagnostic::new(message).about(key)
}

fn fault(fault: &FsdpError) -> Diagnostic {
    Diagnostic::new(fault.to_string())
}

impl Reader<'_> {
    fn read(self) -> Result<Asked, Diagnostic> {
        pipelines::check_strategy(self.keys)?;
        let [generating, training] = self.devices()?;
        let (engine, facts) = self.engine(generating)?;
        let trained = self.training(training)?;
        let cost = trained.model;
        let chunks = match &trained.trainer {
            Trainer::Fsdp(..) => 1,
            Trainer::Pipelines(pipelines) => pipelines.chunks.len() as u64,
        };
        let setup = self.training_setup(training, trained.limit, chunks);
        let steps = Steps {
            rollout: Rollout {
                engine,
                replicas: generating / self.keys.tensor,
                prompts: self.keys.prompts,
                responses: self.keys.responses,
                prompt_lengths: self.lengths[0].clone(),
                response_lengths: self.lengths[1].clone(),
                budget: self.budget()?,
                seed: self.keys.seed,
            },
            training: trained,
            placement: match self.keys.placement {
                PlacementKey::Colocated => Placement::Colocated,
                PlacementKey::Separate => Placement::Separate,
            },
            beside: Beside {
                reward: self.keys.reward.unwrap_or_default(),
                sync: self.keys.sync.unwrap_or_else(|| self.sync(generating)),
                switch: self.keys.switch.unwrap_or_default(),
            },
            steps: self.keys.steps,
            factors: None,
        };
        let updates = |error: FsdpError| match error {
            FsdpError::Updates { .. } => fault(&error)
                .with_help("give a --mini-batch that divides --prompts")
                .about("mini-batch"),
            FsdpError::Budget { .. } => {
                fault(&error).with_help("give a larger --rollout-budget").about("rollout-budget")
            }
            FsdpError::Pipeline(_) => fault(&error).about("pipeline"),
            other => fault(&other),
        };
        steps.check().map_err(updates)?;
        let group = pipelines::group(self.keys);
        let shared = number(group / self.keys.pipeline.max(1));
        Ok(Asked {
            steps,
            engine: facts,
            cost: cost.scaled(shared).map_err(|error| fault(&error))?,
            devices: [generating, training],
            group,
            heads: self.samples.model.heads,
            layers: self.samples.model.layers,
            training: setup,
            assumed: self.assumed(training, chunks),
        })
    }

    /// Devices of rollout and of training.
    fn devices(&self) -> Result<[u64; 2], Diagnostic> {
        let RlKeys { devices, tensor, sequence_parallel, .. } = *self.keys;
        if devices == 0 || devices > fsdp::MAX_DEVICES {
            let message = format!("--devices is {devices}: from 1 to {}", fsdp::MAX_DEVICES);
            return Err(wrong("devices", message));
        }
        let both = match (self.keys.placement, self.keys.rollout_devices) {
            (PlacementKey::Colocated, None) => [devices; 2],
            (PlacementKey::Colocated, Some(_)) => {
                let message = "--rollout-devices needs --placement separate".to_owned();
                return Err(wrong("rollout-devices", message));
            }
            (PlacementKey::Separate, given) => {
                let own = given.unwrap_or(devices / 2);
                if own == 0 || own >= devices {
                    let message = format!(
                        "{own} of {devices} devices generate: both rollout and training need some"
                    );
                    return Err(wrong("rollout-devices", message));
                }
                [own, devices - own]
            }
        };
        let heads = self.samples.model.heads;
        let parts = [
            ("tensor", tensor, both[0], "generate"),
            ("sequence-parallel", sequence_parallel, both[1], "train"),
        ];
        for (key, size, of, what) in parts {
            if size == 0 || !of.is_multiple_of(size) {
                let message =
                    format!("--{key} {size} does not divide the {of} devices that {what}");
                return Err(wrong(key, message));
            }
            if !heads.is_multiple_of(size) {
                let message = format!("--{key} {size} does not divide the {heads} attention heads");
                return Err(wrong(key, message));
            }
        }
        Ok(both)
    }

    fn budget(&self) -> Result<Option<u32>, Diagnostic> {
        match self.keys.rollout_budget {
            Some(0) => Err(wrong("rollout-budget", "--rollout-budget must be 1 or more".into())),
            given => Ok(given),
        }
    }

    /// Tokens of the longest sample.
    fn longest(&self) -> u64 {
        self.lengths.iter().map(|lengths| u64::from(lengths.longest())).sum()
    }

    /// The most tokens of a microbatch of a device, in updates and in forwards alone.
    fn limits(&self) -> Result<[u64; 2], Diagnostic> {
        let shared = pipelines::shared(self.keys).max(1);
        let longest = self.longest().div_ceil(shared);
        let limit = self.keys.max_tokens.unwrap_or(longest);
        let forward = self.keys.log_prob_max_tokens.unwrap_or(limit);
        for (key, given) in [("max-tokens", limit), ("log-prob-max-tokens", forward)] {
            if given < longest {
                let message = format!(
                    "--{key} is {given}, but the longest sample has {longest} tokens on a device: samples are \
                     not split"
                );
                let cure = match self.keys.strategy {
                    StrategyKey::Fsdp => "raise it, or --sequence-parallel",
                    StrategyKey::Megatron => "raise it, or --context",
                };
                return Err(wrong(key, message).with_help(cure));
            }
        }
        Ok([limit, forward])
    }

    /// Forward and backward of a sample by a group, and the forward alone.
    fn cost(&self) -> Result<[CostModel; 2], Diagnostic> {
        let shared = self.keys.sequence_parallel;
        let [limit, _] = self.limits()?;
        let recompute = self.keys.recompute;
        if let Some(given) = &self.keys.cost {
            let both = given.model().scaled(1.0 / number(shared));
            let [part, ..] = passes(self.keys);
            let models = both.and_then(|both| Ok([both, both.scaled(part)?]));
            return models.map_err(|error| fault(&error).about("cost"));
        }
        let cost = self.samples.cost(limit, shared, recompute);
        let exchange = self.exchange();
        // Gradients of all that is exchanged, and once more what is computed again.
        let passes = if recompute == RecomputeKey::Full { 3.0 } else { 2.0 };
        let model = |[squares, tokens]: [f64; 2], passes: f64| {
            let [a, b] = constants([squares, tokens + exchange * passes]);
            CostModel::quadratic(a, b).map_err(|error| fault(&error))
        };
        let Cost { forward, both } = cost;
        Ok([model(both, passes)?, model(forward, 1.0)?])
    }

    /// Seconds for each token of a sample that the all-to-alls of a sequence-parallel group take in a forward:
    /// queries, keys, values and the output of attention change from tokens to heads and back (DeepSpeed
    /// Ulysses, arXiv 2309.14509, section 3).
    fn exchange(&self) -> f64 {
        let (model, machine) = (&self.samples.model, &self.samples.machine);
        let members = self.keys.sequence_parallel;
        let numbers = model.query_size() + model.kv_size() + model.attended_size();
        let bytes = number(numbers * model.layers) * HALF / number(members);
        let rate =
            if members <= machine.domain { machine.hop_inside() } else { machine.hop_outside() };
        gathered(bytes, members, rate)
    }

    fn training(&self, devices: u64) -> Result<Training, Diagnostic> {
        let keys = self.keys;
        let [limit, forward_limit] =
            self.limits()?.map(|limit| limit.saturating_mul(pipelines::shared(keys)));
        let (trainer, model) = match keys.strategy {
            StrategyKey::Fsdp => self.fsdp(devices)?,
            StrategyKey::Megatron => {
                let samples = &self.samples;
                let (own, model) = pipelines::Reader { keys, samples, devices, limit }.read()?;
                (Trainer::Pipelines(own), model)
            }
        };
        let mini_batch = keys.mini_batch.unwrap_or(keys.prompts);
        Ok(Training {
            trainer,
            model,
            way: Way {
                method: keys.method.method(),
                communication: keys.communication.communication(),
            },
            limit,
            forward_limit,
            update: mini_batch.saturating_mul(keys.responses),
            epochs: keys.epochs,
            forwards: Forwards {
                old: !keys.no_old_log_probs,
                reference: keys.reference,
                critic: keys.critic,
            },
        })
    }

    fn fsdp(&self, devices: u64) -> Result<(Trainer, CostModel), Diagnostic> {
        let keys = self.keys;
        if keys.method == MethodKey::LbMini && keys.communication == CommunicationKey::Collectives {
            let message = "--method lb-mini gives devices unequal numbers of microbatches, with which collectives \
                           would deadlock";
            return Err(wrong("communication", message.to_owned())
                .with_help("add --communication on-demand, or take lb-micro"));
        }
        let groups = usize::try_from(devices / keys.sequence_parallel).unwrap_or(usize::MAX);
        let [model, forward] = self.cost()?;
        let links = self.links(devices)?;
        let machine = fsdp::Machine::new(groups, self.samples.model.layers)
            .and_then(|machine| machine.with_links(links))
            .map_err(|error| fault(&error))?;
        Ok((Trainer::Fsdp(machine, forward), model))
    }

    /// Groups of FSDP on a node, and how many there would be on a full one. Where they do not fill nodes, those are
    /// as much smaller.
    fn of_node(&self, groups: u64) -> [u64; 2] {
        let full = (self.samples.machine.domain / self.keys.sequence_parallel).max(1);
        let fits = |size: &u64| groups.is_multiple_of(*size);
        [(1..=full.min(groups)).rev().find(fits).unwrap_or(1), full]
    }

    /// The links between the groups that train.
    fn links(&self, devices: u64) -> Result<Links, Diagnostic> {
        let samples = &self.samples;
        let [of_node, _] = self.of_node(devices / self.keys.sequence_parallel);
        let network = samples.network(devices)?;
        let nodes = network.map(|bandwidth| Nodes {
            devices: usize::try_from(of_node).unwrap_or(usize::MAX),
            bandwidth,
            sharding: Sharding::Full,
        });
        Ok(Links {
            bandwidth: samples.link()?,
            latency: samples.latency(),
            parameters: samples.bytes(),
            owners: None,
            pull_bandwidth: None,
            nodes,
            overlap: true,
        })
    }

    /// How long all weights take to the engines: gathered over the devices that share them, or sent to the
    /// devices of an engine.
    fn sync(&self, generating: u64) -> Nanos {
        let machine = &self.samples.machine;
        // Engines keep weights that are not trained.
        let bytes = HALF * number(self.samples.model.trained_parameters());
        let devices = self.keys.devices;
        plan::nanos(match self.keys.placement {
            PlacementKey::Colocated => gathered(bytes, generating, machine.ring(generating, 1)),
            PlacementKey::Separate => {
                let inside = devices <= machine.domain;
                let rate = if inside { machine.hop_inside() } else { machine.hop_outside() };
                bytes / (rate * number(self.keys.tensor))
            }
        })
    }

    /// What is assumed, where `devices` train, in pipelines of `chunks` chunks of layers.
    fn assumed(&self, devices: u64, chunks: u64) -> Vec<String> {
        let model = &self.samples.model;
        let mut assumed: Vec<String> = self.samples.assumed.clone();
        // The lengths of the question count, not those of the config.
        assumed.retain(|one| !one.starts_with("`sequence`"));
        if !model.layers.is_multiple_of(chunks) {
            assumed.push(format!(
                "{} layers are divided among {chunks} chunks as evenly as possible",
                model.layers
            ));
        }
        let is_fsdp = self.keys.strategy == StrategyKey::Fsdp;
        let [of_node, full] = self.of_node(devices / self.keys.sequence_parallel);
        if is_fsdp && devices > self.samples.machine.domain && of_node < full {
            let shared = self.keys.sequence_parallel;
            assumed.push(format!(
                "{devices} devices fill no nodes of {}: nodes of {} are simulated",
                full * shared,
                of_node * shared
            ));
        }
        if self.keys.lora_rank.is_some() && is_fsdp {
            assumed.push(
                "FSDP exchanges gradients of all weights, though only adapters have some"
                    .to_owned(),
            );
        }
        if model.experts.is_some() {
            assumed.push(
                "every decode step reads all experts, which a small batch does not touch"
                    .to_owned(),
            );
        }
        if model.layer_kinds().iter().any(|kind| kind.mixer == Mixer::Window) {
            assumed.push("layers with a window keep and read all of a context".to_owned());
        }
        assumed
    }
}
