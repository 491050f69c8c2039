//! `[training]`: the recipe, and what the software does for its speed.

use pipeline::Bytes;
use plan::{
    Boundary, Cluster, Graphs, Imbalance, Loss, Machine, MemoryBudget, Offload, Offloaded,
    Optimizer, Precision, Recipe, Software, Transformer, Tuning, Update,
};
use question::diagnostic::Diagnostic;
use question::format::size;
use question::nearest;

use crate::document::TrainingDocument;
use crate::framework::Framework;
use crate::lengths::Packed;
use crate::memory_error::MemoryError;
use crate::reader::Reader;

/// Memory that the framework and its libraries take of a device beside the model, unless the question
/// says.
pub const RESERVED: Bytes = Bytes(1 << 30);

/// How tokens get to their experts, and whether each is sent once to a node.
const DISPATCHERS: [(&str, bool); 3] = [("alltoall", false), ("deepep", true), ("hybridep", true)];

/// How keys and values reach a context group, and whether all of them are gathered first.
const EXCHANGES: [(&str, bool); 2] = [("ring", false), ("all-gather", true)];

/// Whether all machines have 8-bit products: their constants were fitted to software that overlaps its
/// communication.
fn is_of_today(clusters: &[Cluster]) -> bool {
    let mut machines = clusters.iter().flat_map(|cluster| &cluster.parts);
    machines.all(|(machine, _)| machine.peak_fp8.is_some())
}

/// The error that `machine` has no products of `precision`, and its remedy.
fn lacks_format(machine: &Machine, precision: Precision) -> (String, String) {
    let (name, format) = (&machine.name, precision.name());
    let rate = if precision == Precision::NvFp4 { "fp4" } else { "fp8" };
    let peak = if rate == "fp4" { machine.peak_fp4 } else { machine.peak_fp8 };
    if peak.is_none() {
        return (
            format!("the machine {name} has no peak rate for {format}"),
            format!("write bf16, take another machine, or give its file a peak-{rate}-tflops"),
        );
    }
    let others: Vec<&str> = Precision::ALL
        .into_iter()
        .filter(|one| machine.peak_of(*one).is_some())
        .map(Precision::name)
        .collect();
    (
        format!("the devices of {name} have no {format}"),
        format!("write {}, or take another machine", others.join(", ")),
    )
}

impl Reader<'_> {
    /// The recipe, whole, and that of stock Megatron-LM where the question does not say whose software runs.
    pub(crate) fn recipes(
        &self,
        model: &Transformer,
        framework: Framework,
        clusters: &[Cluster],
        packed: Option<&Packed>,
    ) -> Result<(Recipe, Option<Recipe>), Diagnostic> {
        if !framework.has_layers(model) {
            let message = "framework is torchtitan, which has no sparse attention by an indexer";
            let cure = "take framework = \"megatron\", or leave it out";
            return Err(self.wrong("framework", message.to_owned()).with_help(cure));
        }
        let attended = packed.map_or(1.0, Packed::mean);
        let imbalance = self.imbalance(model, framework, clusters)?;
        let streams = self.streams(model)?;
        let capture = self.capture(model, framework)?;
        let of = |tuning| {
            let mut recipe = self.recipe_of(framework, clusters, tuning)?;
            recipe.software.streams = streams;
            recipe.software.capture = capture;
            Ok(Recipe { attended, imbalance: imbalance.clone(), ..recipe })
        };
        let own: Recipe = of(self.tuning(framework, clusters)?)?;
        let is_open = own.software.tuning.is_none();
        Ok((own, is_open.then(|| of(Some(Tuning::Stock))).transpose()?))
    }

    /// The recipe, checked against the machines of `clusters`; the imbalance of experts is set elsewhere.
    pub(crate) fn recipe(
        &self,
        framework: Framework,
        clusters: &[Cluster],
    ) -> Result<Recipe, Diagnostic> {
        self.recipe_of(framework, clusters, self.tuning(framework, clusters)?)
    }

    /// The same with this `tuning`.
    pub(crate) fn recipe_of(
        &self,
        framework: Framework,
        clusters: &[Cluster],
        tuning: Option<Tuning>,
    ) -> Result<Recipe, Diagnostic> {
        let training = &self.document.training;
        let TrainingDocument { gradient_bytes, weight_bytes, .. } = *training;
        self.check_bytes()?;
        // Megatron-LM overlaps nothing by default.
        let today = is_of_today(clusters) && tuning != Some(Tuning::Stock);
        let optimizer = self.optimizer(framework, clusters)?;
        // Its gather of parameters follows the update (Megatron-LM, `LayerWiseDistributedOptimizer`).
        let is_muon = optimizer.update == Update::Muon;
        Ok(Recipe {
            batch: self.document.batch,
            gradient_bytes: gradient_bytes.unwrap_or(4),
            optimizer,
            weight_bytes: weight_bytes.unwrap_or(2),
            logit_bytes: training.logit_bytes.unwrap_or(framework.logit_bytes()),
            fp8_activation_input: training.fp8_activation_input.unwrap_or(false),
            offload: self.offload(clusters)?,
            sequence_parallel: training.sequence_parallel.unwrap_or(true),
            scatter_gather: true,
            overlap_gradients: training.overlap_gradients.unwrap_or(tuning != Some(Tuning::Stock)),
            overlap_parameters: training.overlap_parameters.unwrap_or(today && !is_muon),
            loss: self.loss()?,
            boundary: self.boundary()?,
            reserved: training.reserved.unwrap_or(RESERVED),
            memory_budget: MemoryBudget {
                error: self.memory_error.of(framework),
                peaks: MemoryError::peaks(framework),
                cap: self.memory_cap(clusters)?,
                is_even: false,
            },
            precision: self.precision("precision", &training.precision, clusters)?,
            head: self.precision("head-precision", &training.head_precision, clusters)?,
            software: framework.runs_like(Software { tuning, ..self.software(today)? }),
            imbalance: Imbalance::default(),
            attended: 1.0,
        })
    }

    /// The tuning of the software that runs the step, if it is given, or all machines are calibrated by stock
    /// software.
    pub(crate) fn tuning(
        &self,
        framework: Framework,
        clusters: &[Cluster],
    ) -> Result<Option<Tuning>, Diagnostic> {
        let Some(given) = &self.document.training.tuning else {
            let is_stock = |machine: &Machine| {
                let mut runs = machine.calibrated.iter();
                !machine.calibrated.is_empty() && runs.all(|run| run.tuning == Some(Tuning::Stock))
            };
            let mut machines = clusters.iter().flat_map(|cluster| &cluster.parts);
            let are_stock = !clusters.is_empty() && machines.all(|(machine, _)| is_stock(machine));
            let is_open = framework != Framework::Torchtitan && are_stock;
            return Ok(is_open.then_some(Tuning::Stock));
        };
        if framework == Framework::Torchtitan {
            let message = "tuning is about Megatron-LM, and framework is torchtitan".to_owned();
            return Err(self.wrong("training.tuning", message).with_help("leave tuning out"));
        }
        let known = Tuning::NAMES.into_iter().find(|(name, _)| name == given);
        let (_, tuning) = known.ok_or_else(|| {
            let brief: String = given.chars().take(40).collect();
            self.wrong("training.tuning", format!("tuning is `{brief}`: write tuned or stock"))
        })?;
        Ok(Some(tuning))
    }

    fn optimizer(
        &self,
        framework: Framework,
        clusters: &[Cluster],
    ) -> Result<Optimizer, Diagnostic> {
        let TrainingDocument { optimizer, optimizer_bytes, .. } = &self.document.training;
        let name = optimizer.as_deref().unwrap_or("adamw");
        let known = Update::ALL.into_iter().find(|known| known.name() == name);
        let update = known.ok_or_else(|| {
            let brief: String = name.chars().take(40).collect();
            let near = nearest::question(&brief, Update::ALL.map(Update::name));
            let message = format!("optimizer is `{brief}`{near}");
            self.wrong("training.optimizer", message).with_help("write adamw, muon or sgd")
        })?;
        if update != Update::AdamW && framework == Framework::Torchtitan {
            let message = format!("optimizer is {name}, and torchtitan has adamw alone");
            let cure = "take framework = \"megatron\", or leave optimizer out";
            return Err(self.wrong("training.optimizer", message).with_help(cure));
        }
        self.on_host(Optimizer::new(update, *optimizer_bytes), framework, clusters)
    }

    /// `optimizer` with the share of its state that is on the host.
    fn on_host(
        &self,
        optimizer: Optimizer,
        framework: Framework,
        clusters: &[Cluster],
    ) -> Result<Optimizer, Diagnostic> {
        const KEY: &str = "optimizer-offload";
        let TrainingDocument { optimizer_offload, host_update, .. } = self.document.training;
        let on_host = optimizer_offload.unwrap_or(0.0);
        let wrong = |message: String, cure: &str| {
            Err(self.wrong(&format!("training.{KEY}"), message).with_help(cure.to_owned()))
        };
        if !(0.0..=1.0).contains(&on_host) {
            return wrong(format!("{KEY} is {on_host}"), "write a share from 0 to 1");
        }
        if host_update.is_some() && on_host <= 0.0 {
            let message = format!("host-update goes with {KEY}");
            let cure = format!("give {KEY}, too, or leave it out");
            return Err(self.wrong("training.host-update", message).with_help(cure));
        }
        if on_host > 0.0 {
            self.check_hosts(KEY, clusters)?;
            if optimizer.update == Update::Muon {
                return wrong(
                    format!("{KEY} goes with adamw and sgd alone"),
                    "leave one of them out",
                );
            }
            if framework == Framework::Torchtitan {
                let message = format!("{KEY} is a share, and torchtitan offloads all of a model");
                return wrong(message, "take framework = \"megatron\", or leave it out");
            }
        }
        // Given for a billion parameters.
        let host_update =
            host_update.map_or(optimizer.host_update, |time| plan::number(time.0) * 1e-18);
        Ok(Optimizer { on_host, host_update, ..optimizer })
    }

    /// Checks that numbers of bytes are some.
    fn check_bytes(&self) -> Result<(), Diagnostic> {
        let training = &self.document.training;
        for (key, bytes) in [
            ("gradient-bytes", training.gradient_bytes),
            ("optimizer-bytes", training.optimizer_bytes),
            ("weight-bytes", training.weight_bytes),
            ("logit-bytes", training.logit_bytes),
        ] {
            if let Some(bytes) = bytes.filter(|bytes| !(1..=64).contains(bytes)) {
                return Err(self.wrong(key, format!("{key} is {bytes}: from 1 to 64")));
            }
        }
        Ok(())
    }

    /// The activations that are copied to the host; each machine of `clusters` must have a host link.
    fn offload(&self, clusters: &[Cluster]) -> Result<Offload, Diagnostic> {
        const KEY: &str = "training.offload";
        let Some(names) = &self.document.training.offload else { return Ok(Offload::NONE) };
        let one = |name: &String| {
            Offloaded::named(name).ok_or_else(|| {
                let known = Offloaded::NAMES.map(|(_, known)| known);
                let brief: String = name.chars().take(40).collect();
                let near = nearest::question(name, known);
                let message =
                    format!("offload names `{brief}`, which is not a part of a layer{near}");
                self.wrong(KEY, message).with_help(format!("write any of {}", known.join(", ")))
            })
        };
        let parts = names.iter().map(one).collect::<Result<Vec<_>, _>>()?;
        let has = |part| parts.contains(&part);
        if has(Offloaded::AttentionProjection) && !has(Offloaded::CoreAttention) {
            let message =
                "offload has attn_proj without core_attn, whose backward needs the same tensor";
            let cure = "add core_attn, as Megatron-LM demands, or take attn_proj out";
            return Err(self.wrong(KEY, message.to_owned()).with_help(cure));
        }
        if !parts.is_empty() {
            self.check_hosts("offload", clusters)?;
        }
        Ok(Offload::of(&parts))
    }

    /// Checks that each machine of `clusters` has a link to its host, which `key` copies over.
    fn check_hosts(&self, key: &str, clusters: &[Cluster]) -> Result<(), Diagnostic> {
        let mut machines = clusters.iter().flat_map(|cluster| &cluster.parts);
        let Some((machine, _)) = machines.find(|(machine, _)| machine.host.is_none()) else {
            return Ok(());
        };
        let name = &machine.name;
        let message = format!("{key} copies to the host, whose link {name} does not tell");
        let cure =
            format!("give its file a host-link and devices-per-host-link, or take {key} out");
        Err(self.wrong(&format!("training.{key}"), message).with_help(cure))
    }

    /// The format of products that `key` names, for which each machine must have a peak rate.
    fn precision(
        &self,
        key: &str,
        name: &Option<String>,
        clusters: &[Cluster],
    ) -> Result<Precision, Diagnostic> {
        let Some(name) = name else { return Ok(Precision::default()) };
        let path = format!("training.{key}");
        let precision = Precision::named(name).ok_or_else(|| {
            let known = Precision::ALL.map(Precision::name);
            let message = format!("{key} is `{name}`{}", nearest::question(name, known));
            self.wrong(&path, message).with_help(format!("write one of {}", known.join(", ")))
        })?;
        let machines = clusters.iter().flat_map(|cluster| &cluster.parts);
        let mut lacking = machines.filter(|(machine, _)| machine.peak_of(precision).is_none());
        match lacking.next() {
            Some((machine, _)) => {
                let (message, cure) = lacks_format(machine, precision);
                Err(self.wrong(&path, message).with_help(cure))
            }
            None => Ok(precision),
        }
    }

    /// The features of the software; defaults depend on whether the machines are of `today`.
    fn software(&self, today: bool) -> Result<Software, Diagnostic> {
        let training = &self.document.training;
        let graphs = self.word("cuda-graphs", &training.cuda_graphs, &Graphs::NAMES)?;
        Ok(Software {
            graphs: graphs.1.share(),
            overlap_experts: training.overlap_experts.unwrap_or(false),
            overlap_tensor: training.overlap_tensor.unwrap_or(false),
            overlap_transfers: training.overlap_transfers.unwrap_or(today),
            sends_once: self.dispatcher()?.1,
            gathers_context: self
                .word("context-exchange", &training.context_exchange, &EXCHANGES)?
                .1,
            fused_experts: training.fused_experts.unwrap_or(today),
            eager: !training.compiled.unwrap_or(true),
            ..Software::default()
        })
    }

    /// How tokens get to their experts, and whether each is sent once to a node.
    pub(crate) fn dispatcher(&self) -> Result<(&'static str, bool), Diagnostic> {
        self.word("dispatcher", &self.document.training.dispatcher, &DISPATCHERS)
    }

    /// The entry of `known` that `given` names, by default the first.
    fn word<T: Copy>(
        &self,
        key: &str,
        given: &Option<String>,
        known: &[(&'static str, T)],
    ) -> Result<(&'static str, T), Diagnostic> {
        let named =
            |(name, _): &&(&'static str, T)| given.as_deref().is_none_or(|one| one == *name);
        known.iter().find(named).copied().ok_or_else(|| {
            let given: String = given.iter().flat_map(|one| one.chars().take(40)).collect();
            let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
            let message = format!("{key} is `{given}`: write {}", names.join(", "));
            self.wrong(&format!("training.{key}"), message)
        })
    }

    /// The memory that predictions may reach, if the question has it.
    fn memory_cap(&self, clusters: &[Cluster]) -> Result<Option<Bytes>, Diagnostic> {
        let Some(cap) = self.document.search.memory_cap else { return Ok(None) };
        if cap == Bytes(0) {
            let message = "memory-cap is 0: it must be more than nothing, such as \"60GiB\"";
            return Err(self.wrong("memory-cap", message.to_owned()));
        }
        let machines = clusters.iter().flat_map(|cluster| &cluster.parts).map(|(one, _)| one);
        let most = machines.map(|one| MemoryBudget::default().if_exact(one)).max();
        if let Some(most) = most.filter(|most| *most < cap) {
            let message = format!(
                "memory-cap is {}, and the devices have {} at most without their reserve",
                size(cap),
                size(most)
            );
            let cure = "write less, or leave memory-cap out: then a margin for the error of predictions is kept";
            return Err(self.wrong("memory-cap", message).with_help(cure));
        }
        Ok(Some(cap))
    }

    fn loss(&self) -> Result<Loss, Diagnostic> {
        match self.document.training.loss.as_deref() {
            None | Some("separate") => Ok(Loss::Separate),
            Some("fused") => Ok(Loss::Fused),
            Some(other) => {
                Err(self.wrong("loss", format!("loss is `{other}`: write separate or fused")))
            }
        }
    }

    fn boundary(&self) -> Result<Boundary, Diagnostic> {
        let Some(name) = &self.document.training.boundary else { return Ok(Boundary::Barrier) };
        Boundary::named(name).ok_or_else(|| {
            let message = format!("boundary is `{name}`: write barrier or post-validation");
            self.wrong("boundary", message)
        })
    }
}
