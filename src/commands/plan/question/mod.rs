//! `PLAN.toml`: what a planner is asked.

mod document;
mod unrest;

use std::path::Path;

use pipeline::{Bytes, Choice, Family, Semantics};
use plan::{
    Attention, Biases, Boundary, Cluster, Experts, Loss, Norm, Recipe, Recompute, Room, Sizes,
    Space, Split, Transformer, Unrest, Zero,
};

use self::document::{Document, ModelDocument, SizesDocument, TrainingDocument};
use super::{config, machines, validate};
use crate::error::Error;
use crate::files;
use crate::kinds::{self, Kind};

/// The largest question.
const MAX_FILE: u64 = 1 << 20;
/// The most devices of a cluster.
const MAX_DEVICES: u64 = 1 << 20;
/// The most clusters of a question.
const MAX_CLUSTERS: usize = 256;
/// Schedules that are tried unless told: those that trainers run, and one for each trade of memory,
/// of the link to the host and of the head against bubble.
const SCHEDULES: [&str; 8] =
    ["1f1b", "1f1b-i", "zb-h1", "zb-v", "v-half", "po-h", "vocab-1", "v-half-vocab-1"];

/// Which price of a machine is paid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Paid {
    OnDemand,
    Reserved,
    Spot,
}

/// A question, whole and checked.
pub struct Question {
    pub title: String,
    pub model: Transformer,
    /// What was assumed where the model was read, a sentence each.
    pub model_assumed: Vec<String>,
    pub tokens: f64,
    pub deadline_days: Option<f64>,
    pub paid: Paid,
    /// How many plans of each cluster are told.
    pub plans: usize,
    pub clusters: Vec<Cluster>,
    pub space: Space,
    pub recipe: Recipe,
    pub unrest: Unrest,
}

/// Reads the question in `path`.
pub fn read(path: &Path) -> Result<Question, Error> {
    let text = files::read_toml(path, MAX_FILE)?;
    let document: Document = toml::from_str(&text)
        .map_err(|error| Error::toml(path, &text, &error, &[]))
        .map_err(|error| kinds::misplaced(path, &text, &[Kind::Plan], error))?;
    Reader { path, text: &text, document: &document }.question()
}

struct Reader<'a> {
    path: &'a Path,
    text: &'a str,
    document: &'a Document,
}

impl Reader<'_> {
    fn question(&self) -> Result<Question, Error> {
        let document = self.document;
        if !(1.0..=1e18).contains(&document.tokens) {
            let message = format!("tokens is {}: it must be from 1 to 1e18", document.tokens);
            return Err(self.wrong("tokens", message));
        }
        if let Some(days) = document.deadline_days.filter(|days| !(*days > 0.0 && *days <= 1e6)) {
            let message = format!("deadline-days is {days}: it must be more than 0");
            return Err(self.wrong("deadline-days", message));
        }
        if document.batch == 0 || document.batch > 1 << 30 {
            let message = format!("batch is {}: it must be from 1 to 2^30", document.batch);
            return Err(self.wrong("batch", message));
        }
        let config::Model { transformer: model, assumed } = self.model()?;
        let plans = document.plans.unwrap_or(3);
        if !(1..=1000).contains(&plans) {
            return Err(self.wrong("plans", format!("plans is {plans}: from 1 to 1000")));
        }
        let clusters = self.clusters(&model)?;
        let space = self.space(&model, &clusters)?;
        let unrest = self.unrest(&clusters)?;
        Ok(Question {
            title: document.title.clone().unwrap_or_else(|| "Plans".to_owned()),
            tokens: document.tokens,
            deadline_days: document.deadline_days,
            paid: self.paid(&clusters)?,
            plans: usize::try_from(plans).unwrap_or(1),
            clusters,
            space,
            recipe: self.recipe()?,
            unrest,
            model,
            model_assumed: assumed,
        })
    }

    /// An error at the line of `key`.
    fn wrong(&self, key: &str, message: String) -> Error {
        let mut start = 0;
        let mut place = None;
        for line in self.text.split_inclusive('\n') {
            let indent = line.len() - line.trim_start().len();
            let rest = line.trim_start().strip_prefix(key);
            if rest.is_some_and(|rest| rest.trim_start().starts_with(['=', ']'])) {
                place = Some(start + indent..start + indent + key.len());
                break;
            }
            start += line.len();
        }
        Error::scenario(self.path, self.text, place, message)
    }

    fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new(""))
    }

    fn attention(&self) -> Result<Attention, Error> {
        match self.document.attention.as_deref() {
            None | Some("flash") => Ok(Attention::Flash),
            Some("core") => Ok(Attention::Core),
            Some(other) => {
                Err(self.wrong("attention", format!("attention is `{other}`: write flash or core")))
            }
        }
    }

    fn model(&self) -> Result<config::Model, Error> {
        let attention = self.attention()?;
        match &self.document.model {
            ModelDocument::File(file) => {
                config::read(&self.folder().join(file), self.document.sequence, attention)
            }
            ModelDocument::Sizes(sizes) => {
                let transformer = self.sizes(sizes, attention)?;
                Ok(config::Model { transformer, assumed: Vec::new() })
            }
        }
    }

    fn sizes(&self, given: &SizesDocument, attention: Attention) -> Result<Transformer, Error> {
        let SizesDocument { hidden, heads, .. } = *given;
        let Some(sequence) = self.document.sequence else {
            return Err(self.wrong("model", "sequence is missing: the tokens of a sample".into()));
        };
        let head_size = match given.head_size {
            Some(size) => size,
            None if heads > 0 && hidden.is_multiple_of(heads) => hidden / heads,
            None => {
                let message = format!("a hidden size of {hidden} cannot be cut into {heads} heads");
                let cure = "give head-size where heads times their size is not the hidden size";
                return Err(self.wrong("heads", message).with_help(cure));
            }
        };
        let experts = match (given.experts, given.top_k) {
            (Some(count), Some(top_k)) => Some(Experts { count, top_k }),
            (None, None) => None,
            _ => return Err(self.wrong("experts", "experts and top-k belong together".into())),
        };
        let gated = given.gated.unwrap_or(false);
        let bias = given.biases.unwrap_or(!gated);
        let sizes = Sizes {
            layers: given.layers,
            hidden,
            heads,
            kv_heads: given.kv_heads.unwrap_or(heads),
            head_size,
            ffn: self.ffn(given)?,
            gated,
            vocabulary: given.vocabulary,
            sequence,
            positions: given.positions.unwrap_or(0),
            experts,
            tied: given.tied.unwrap_or(false),
            biases: Biases { qkv: bias, output: bias, mlp: bias },
            norm: if gated { Norm::Rms } else { Norm::Layer },
            qk_norm: given.qk_norm.unwrap_or(false),
            attention,
        };
        let place = |error: &plan::ModelError| match error {
            plan::ModelError::Size { what, .. } => *what,
            plan::ModelError::KvHeads { .. } => "kv-heads",
            plan::ModelError::TopK { .. } => "top-k",
            plan::ModelError::Positions { .. } => "positions",
            plan::ModelError::Parameters => "layers",
        };
        Transformer::new(sizes).map_err(|error| self.wrong(place(&error), error.to_string()))
    }

    /// The width of the MLP, or of an expert: 4 h is a rule of plain MLPs alone.
    fn ffn(&self, given: &SizesDocument) -> Result<u64, Error> {
        let of = match (given.experts, given.gated) {
            _ if given.ffn.is_some() => "",
            (Some(_), _) => "experts",
            (None, Some(true)) => "MLPs with a gate",
            (None, _) => "",
        };
        if of.is_empty() {
            return Ok(given.ffn.unwrap_or(given.hidden.saturating_mul(4)));
        }
        let message = format!("ffn is missing: {of} are not 4 times as wide as the hidden size");
        Err(self.wrong("model", message).with_help("write the width of one: ffn = 14336"))
    }

    fn clusters(&self, model: &Transformer) -> Result<Vec<Cluster>, Error> {
        let mut all = Vec::new();
        for one in &self.document.cluster {
            let message = "a cluster has a machine and a list of devices, or parts";
            match (&one.machine, &one.devices, &one.parts) {
                (Some(machine), Some(devices), None) => {
                    let mut machine = machines::named(machine, self.folder())?;
                    if let Some(profile) = &one.profile {
                        let path = self.folder().join(profile);
                        machine.measured = Some(machines::measured(&path, model)?);
                    }
                    for &devices in devices {
                        all.push(self.cluster(vec![(machine.clone(), devices)])?);
                    }
                }
                (None, None, Some(parts)) if one.profile.is_none() => {
                    let parts = parts.iter().map(|part| {
                        Ok((machines::named(&part.machine, self.folder())?, part.devices))
                    });
                    all.push(self.cluster(parts.collect::<Result<_, Error>>()?)?);
                }
                _ => return Err(self.wrong("[[cluster", message.to_owned())),
            }
        }
        if all.is_empty() || all.len() > MAX_CLUSTERS {
            let message = format!("{} clusters: from 1 to {MAX_CLUSTERS}", all.len());
            return Err(self.wrong("[[cluster", message));
        }
        Ok(all)
    }

    fn cluster(&self, parts: Vec<(plan::Machine, u64)>) -> Result<Cluster, Error> {
        match parts.iter().find(|(_, devices)| !(1..=MAX_DEVICES).contains(devices)) {
            None if !parts.is_empty() => Ok(Cluster { parts }),
            None => Err(self.wrong("parts", "parts is empty".to_owned())),
            Some((_, devices)) => {
                let message = format!("{devices} devices: from 1 to {MAX_DEVICES}");
                Err(self.wrong("devices", message))
            }
        }
    }

    fn paid(&self, clusters: &[Cluster]) -> Result<Paid, Error> {
        let paid = match self.document.price.as_deref() {
            None | Some("on-demand") => return Ok(Paid::OnDemand),
            Some("reserved") => Paid::Reserved,
            Some("spot") => Paid::Spot,
            Some(other) => {
                let message = format!("price is `{other}`: write on-demand, reserved or spot");
                return Err(self.wrong("price", message));
            }
        };
        let lacks = |machine: &plan::Machine| match paid {
            Paid::Spot => machine.price.spot.is_none(),
            _ => machine.price.reserved.is_none(),
        };
        let machines = clusters.iter().flat_map(|cluster| &cluster.parts);
        match machines.map(|(machine, _)| machine).find(|machine| lacks(machine)) {
            Some(machine) => {
                let message = format!("the machine {} has no such price", machine.name);
                Err(self.wrong("price", message))
            }
            None => Ok(paid),
        }
    }

    fn recipe(&self) -> Result<Recipe, Error> {
        let TrainingDocument { gradient_bytes, optimizer_bytes, .. } = self.document.training;
        for (key, bytes) in
            [("gradient-bytes", gradient_bytes), ("optimizer-bytes", optimizer_bytes)]
        {
            if let Some(bytes) = bytes.filter(|bytes| !(1..=64).contains(bytes)) {
                return Err(self.wrong(key, format!("{key} is {bytes}: from 1 to 64")));
            }
        }
        let training = &self.document.training;
        Ok(Recipe {
            batch: self.document.batch,
            gradient_bytes: gradient_bytes.unwrap_or(4),
            optimizer_bytes: optimizer_bytes.unwrap_or(12),
            sequence_parallel: training.sequence_parallel.unwrap_or(true),
            scatter_gather: true,
            overlap_gradients: training.overlap_gradients.unwrap_or(true),
            loss: self.loss()?,
            boundary: self.boundary()?,
            reserved: training.reserved.unwrap_or(validate::RESERVED),
            room: Room { error: validate::memory_bar::largest()?, cap: self.memory_cap()? },
        })
    }

    /// The most that a plan may hold of a device.
    fn memory_cap(&self) -> Result<Option<Bytes>, Error> {
        match self.document.search.memory_cap {
            Some(Bytes(0)) => {
                let message = "memory-cap is 0: it must be more than nothing, such as \"60GiB\"";
                Err(self.wrong("memory-cap", message.to_owned()))
            }
            cap => Ok(cap),
        }
    }

    fn loss(&self) -> Result<Loss, Error> {
        match self.document.training.loss.as_deref() {
            None | Some("separate") => Ok(Loss::Separate),
            Some("fused") => Ok(Loss::Fused),
            Some(other) => {
                Err(self.wrong("loss", format!("loss is `{other}`: write separate or fused")))
            }
        }
    }

    fn boundary(&self) -> Result<Boundary, Error> {
        let Some(name) = &self.document.training.boundary else { return Ok(Boundary::Barrier) };
        Boundary::named(name).ok_or_else(|| {
            let message = format!("boundary is `{name}`: write barrier or post-validation");
            self.wrong("boundary", message)
        })
    }

    fn space(&self, model: &Transformer, clusters: &[Cluster]) -> Result<Space, Error> {
        let search = &self.document.search;
        let node = clusters.iter().flat_map(|cluster| &cluster.parts).map(|(kind, _)| kind.node);
        let node = node.max().unwrap_or(1);
        let most = clusters.iter().map(Cluster::devices).max().unwrap_or(1);
        let space = Space {
            tensor: self.sizes_of("tensor", &search.tensor, || powers(node))?,
            pipeline: self.sizes_of("pipeline", &search.pipeline, || {
                divisors_of_all(clusters, model.layers.min(most).min(128))
            })?,
            context: self.sizes_of("context", &search.context, || vec![1])?,
            expert: self.sizes_of("expert", &search.expert, || match model.experts {
                Some(experts) => powers(experts.count.min(64)),
                None => vec![1],
            })?,
            zero: self.zeros()?,
            microbatch: self.sizes_of("microbatch", &search.microbatch, || powers(8))?,
            chunks: self.sizes_of("chunks", &search.chunks, || vec![2, 3, 4, 6, 8])?,
            families: self.families()?,
            recompute: self.recomputes(model.attention)?,
            split: self.named("split", &search.split, &[Split::Balanced], |name| match name {
                "even" => Ok(Split::Even),
                "balanced" => Ok(Split::Balanced),
                _ => Err("even or balanced"),
            })?,
            vocabulary_parallel: search.vocabulary_parallel.clone().unwrap_or_else(|| vec![false]),
        };
        if space.vocabulary_parallel.is_empty() {
            return Err(self.wrong("vocabulary-parallel", "vocabulary-parallel is empty".into()));
        }
        Ok(space)
    }

    fn recomputes(&self, attention: Attention) -> Result<Vec<Recompute>, Error> {
        // Attention in tiles holds no scores: there is nothing to select.
        let default: &[Recompute] = match attention {
            Attention::Flash => &[Recompute::None, Recompute::Full],
            Attention::Core => &Recompute::ALL,
        };
        self.named("recompute", &self.document.search.recompute, default, |name| {
            Recompute::named(name).ok_or("none, selective or full")
        })
    }

    fn sizes_of(
        &self,
        key: &str,
        given: &Option<Vec<u64>>,
        default: impl FnOnce() -> Vec<u64>,
    ) -> Result<Vec<u64>, Error> {
        let Some(given) = given else { return Ok(default()) };
        match given.iter().find(|size| !(1..=MAX_DEVICES).contains(*size)) {
            Some(size) => {
                Err(self.wrong(key, format!("{key} has {size}: from 1 to {MAX_DEVICES}")))
            }
            None if given.is_empty() => Err(self.wrong(key, format!("{key} is empty"))),
            None => Ok(given.clone()),
        }
    }

    fn zeros(&self) -> Result<Vec<Zero>, Error> {
        let Some(given) = &self.document.search.zero else {
            return Ok(vec![Zero::Optimizer, Zero::Parameters]);
        };
        let zeros = given.iter().map(|&stage| {
            Zero::numbered(stage)
                .ok_or_else(|| self.wrong("zero", format!("zero has {stage}: stages are 0 to 3")))
        });
        let zeros: Vec<Zero> = zeros.collect::<Result<_, _>>()?;
        if zeros.is_empty() {
            return Err(self.wrong("zero", "zero is empty".to_owned()));
        }
        Ok(zeros)
    }

    fn families(&self) -> Result<Vec<Family>, Error> {
        let default = SCHEDULES.iter().filter_map(|name| Family::named(name)).collect::<Vec<_>>();
        // The one that stands for all where there is one stage comes with whatever is asked.
        let mut all = self.named("schedule", &self.document.search.schedule, &default, |name| {
            let family = Family::named(name).ok_or("a schedule of `debubble schedules`")?;
            let about = family.about();
            let segments = matches!(about.choice, Choice::Segments { .. });
            if segments || about.semantics == Semantics::Asynchronous {
                return Err("one that flushes and leaves microbatches whole");
            }
            Ok(family)
        })?;
        if !all.contains(&Family::OneFOneB) && self.document.search.pipeline.is_none() {
            all.push(Family::OneFOneB);
        }
        Ok(all)
    }

    fn named<T: Copy>(
        &self,
        key: &str,
        given: &Option<Vec<String>>,
        default: &[T],
        read: impl Fn(&str) -> Result<T, &'static str>,
    ) -> Result<Vec<T>, Error> {
        let Some(given) = given else { return Ok(default.to_vec()) };
        let all = given.iter().map(|name| {
            read(name)
                .map_err(|known| self.wrong(key, format!("{key} has `{name}`: write {known}")))
        });
        let all: Vec<T> = all.collect::<Result<_, _>>()?;
        if all.is_empty() {
            return Err(self.wrong(key, format!("{key} is empty")));
        }
        Ok(all)
    }
}

/// Powers of two up to `most`.
fn powers(most: u64) -> Vec<u64> {
    (0..32).map(|exponent| 1 << exponent).take_while(|&power| power <= most).collect()
}

/// Numbers up to `most` that divide the devices of some cluster.
fn divisors_of_all(clusters: &[Cluster], most: u64) -> Vec<u64> {
    let divides = |stages: &u64| clusters.iter().any(|one| one.devices().is_multiple_of(*stages));
    (1..=most).filter(divides).collect()
}
