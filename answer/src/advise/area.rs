//! Parts of a set-up that change without other hardware, and the changes of each that are tried.

use pipeline::{Choice, Chunks, Family, Semantics, Vocabulary};
use plan::{Attention, Cluster, Loss, Recompute, Setup, Split, Zero};
use planning::{Framework, Question, default_schedules};
use serde::Serialize;

/// A part of a set-up that changes without other hardware.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Area {
    /// The schedule and the chunks of a stage, in the trainer of the run.
    Schedule,
    /// The schedule, of another trainer.
    OtherTrainer,
    /// The layers of each chunk.
    Layers,
    /// The size of a microbatch.
    Microbatch,
    /// Activations that are computed again.
    Recomputation,
    /// Overlap, graphs, dispatchers and fused kernels.
    Software,
    /// The state that replicas shard.
    Sharding,
    /// Tensor, pipeline, context and expert groups.
    Groups,
    /// All of them together.
    Together,
}

impl Area {
    /// Its name in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Schedule => "schedule",
            Self::OtherTrainer => "schedule of another trainer",
            Self::Layers => "layers of stages",
            Self::Microbatch => "microbatch",
            Self::Recomputation => "recomputation",
            Self::Software => "software",
            Self::Sharding => "sharding",
            Self::Groups => "parallel groups",
            Self::Together => "all together",
        }
    }
}

/// A changed question of one set-up.
pub(super) struct Variant {
    pub(super) area: Area,
    /// The change, as keys with values.
    pub(super) name: String,
    pub(super) question: Question,
}

/// Chunks of a stage that are tried.
const CHUNKS: [u64; 5] = [2, 3, 4, 6, 8];
/// Sizes of a microbatch that are tried.
const MICROBATCHES: [u64; 5] = [1, 2, 4, 8, 16];
/// Recomputations that are tried for every model.
const RECOMPUTATIONS: [&str; 4] = ["none", "selective", "layernorm", "full"];
/// Those for models without experts.
const OF_DENSE: [&str; 1] = ["mlp"];
/// Those for models with experts.
const OF_EXPERTS: [&str; 2] = ["moe_act", "layernorm,moe_act"];
/// Those for models with experts and latent attention.
const OF_LATENT: [&str; 1] = ["layernorm,mla_up_proj,moe_act"];

/// All changes of one part of `setup`, which `question` asks for on `cluster`.
pub(super) fn variants(question: &Question, setup: Setup, cluster: &Cluster) -> Vec<Variant> {
    let all = Variants { question, setup, cluster };
    [
        all.schedules(),
        all.layers(),
        all.microbatches(),
        all.recomputations(),
        all.software(),
        all.sharding(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

struct Variants<'a> {
    question: &'a Question,
    setup: Setup,
    cluster: &'a Cluster,
}

impl Variants<'_> {
    /// The question about `setup`, with layers dealt anew where the layout of the run does not suit it.
    fn of(&self, area: Area, name: String, setup: Setup) -> Variant {
        let is_own = setup.chunks == self.setup.chunks && setup.pipeline == self.setup.pipeline;
        let (setup, layout) = match setup.split == Split::Layout && !is_own {
            true => (Setup { split: Split::Balanced, ..setup }, None),
            false => (setup, self.question.layout().cloned()),
        };
        Variant { area, name, question: self.question.of_setup(setup, layout) }
    }

    fn schedules(&self) -> Vec<Variant> {
        let own = self.setup;
        if own.pipeline == 1 {
            return Vec::new();
        }
        let mut all = Vec::new();
        for family in default_schedules() {
            let about = family.about();
            let flushes = about.semantics != Semantics::Asynchronous;
            let is_whole = flushes && !matches!(about.choice, Choice::Segments { .. });
            if !is_whole
                || family.vocabulary() != Vocabulary::Whole
                || about.choice == Choice::Offload
            {
                continue;
            }
            for chunks in chunks_of(family) {
                let setup = Setup { family, chunks, searched: false, ..own };
                let is_known = (family, chunks, false) == (own.family, own.chunks, own.searched);
                if !is_known && chunks * own.pipeline <= self.question.model.layers {
                    all.extend(self.schedule(setup));
                }
            }
        }
        for chunks in [1, 2] {
            let family = Setup::placed_by_chunks(chunks);
            let setup = Setup { family, chunks, searched: true, ..own };
            if !own.searched || own.chunks != chunks {
                all.extend(self.schedule(setup));
            }
        }
        all
    }

    /// The variant with the schedule of `setup`, if some trainer runs it.
    fn schedule(&self, setup: Setup) -> Option<Variant> {
        let question = self.question;
        let name = schedule_name(&setup);
        if question.framework != Framework::Any && question.framework.runs(&setup, &question.recipe)
        {
            return Some(self.of(Area::Schedule, name, setup));
        }
        let other = Framework::that_runs(&setup, &question.recipe)?;
        let mut variant = self.of(Area::OtherTrainer, name, setup);
        variant.question.framework = other;
        Some(variant)
    }

    fn layers(&self) -> Vec<Variant> {
        let own = self.setup;
        if own.pipeline == 1 {
            return Vec::new();
        }
        let splits = [(Split::Even, "even"), (Split::Balanced, "balanced")];
        let others = splits.into_iter().filter(|(split, _)| *split != own.split);
        let of = |(split, name)| {
            self.of(Area::Layers, format!("split = {name}"), Setup { split, ..own })
        };
        others.map(of).collect()
    }

    fn microbatches(&self) -> Vec<Variant> {
        let own = self.setup;
        let others = MICROBATCHES.into_iter().filter(|size| *size != own.microbatch);
        let setups = others.map(|microbatch| Setup { microbatch, ..own });
        setups
            .filter(|setup| setup.microbatches(self.question.recipe.batch).is_some())
            .map(|setup| {
                self.of(Area::Microbatch, format!("microbatch = {}", setup.microbatch), setup)
            })
            .collect()
    }

    fn recomputations(&self) -> Vec<Variant> {
        let own = self.setup;
        let model = &self.question.model;
        let own_names: &[&str] = if model.experts.is_some() { &OF_EXPERTS } else { &OF_DENSE };
        let latent: &[&str] = match (model.experts, model.latent) {
            (Some(_), Some(_)) => &OF_LATENT,
            _ => &[],
        };
        let names = RECOMPUTATIONS.iter().chain(own_names).chain(latent);
        let is_tried = |recompute: &Recompute| {
            // Attention in tiles holds no scores.
            let selects = *recompute != Recompute::Selective || model.attention == Attention::Core;
            selects && *recompute != own.recompute
        };
        names
            .filter_map(|name| Recompute::named(name))
            .filter(is_tried)
            .filter(|recompute| self.question.framework.has_recompute(*recompute))
            .map(|recompute| {
                let name = format!("recompute = {}", recompute.name());
                self.of(Area::Recomputation, name, Setup { recompute, ..own })
            })
            .collect()
    }

    fn software(&self) -> Vec<Variant> {
        let layout = self.question.layout();
        let of_key = |key: planning::SoftwareKey| Variant {
            area: Area::Software,
            name: key.line().replace('"', ""),
            question: self.question.with_key(key).of_setup(self.setup, layout.cloned()),
        };
        let keys = self.question.open_software(self.cluster);
        let mut all: Vec<Variant> = keys.into_iter().map(of_key).collect();
        let recipe = &self.question.recipe;
        let mut add = |name: &str, change: fn(&mut plan::Recipe)| {
            let mut variant = self.of(Area::Software, name.to_owned(), self.setup);
            change(&mut variant.question.recipe);
            all.push(variant);
        };
        if !recipe.overlap_gradients && self.setup.data > 1 {
            add("overlap-gradients = true", |recipe| recipe.overlap_gradients = true);
        }
        if !recipe.overlap_parameters && self.setup.data > 1 && recipe.overlap_gradients {
            add("overlap-parameters = true", |recipe| recipe.overlap_parameters = true);
        }
        if recipe.loss != Loss::Fused {
            add("loss = fused", |recipe| recipe.loss = Loss::Fused);
        }
        all
    }

    fn sharding(&self) -> Vec<Variant> {
        let own = self.setup;
        if own.data == 1 {
            return Vec::new();
        }
        let others = Zero::ALL.into_iter().filter(|zero| *zero != own.zero);
        others
            .map(|zero| Setup { zero, ..own })
            .filter(|setup| self.question.framework.runs(setup, &self.question.recipe))
            .map(|setup| self.of(Area::Sharding, format!("zero = {}", setup.zero.stage()), setup))
            .collect()
    }
}

/// The chunks of a stage that are tried under `family`.
fn chunks_of(family: Family) -> Vec<u64> {
    match family.about().chunks {
        Chunks::Exactly(exactly) => vec![u64::from(exactly)],
        Chunks::Any { .. } => CHUNKS.to_vec(),
    }
}

/// The schedule of `setup`, in keys.
pub(super) fn schedule_name(setup: &Setup) -> String {
    match setup.chunks {
        1 => format!("schedule = {}", setup.schedule_name()),
        chunks => format!("schedule = {}, chunks = {chunks}", setup.schedule_name()),
    }
}
