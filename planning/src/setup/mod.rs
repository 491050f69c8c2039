//! `[setup]`: the one set-up that is asked for.

mod layers;
mod unfit;

use pipeline::{Choice, Chunks, Family, LayerLayout, Placement, Semantics, Vocabulary};
use plan::{Cluster, Inputs, Options, Recipe, Recompute, Reshard, Setup, Split, Transformer, Zero};
use question::diagnostic::Diagnostic;
use question::source::SEARCHED;

use crate::clusters::MAX_DEVICES;
use crate::document::SetupDocument;
use crate::framework::Framework;
use crate::reader::Reader;

/// The name of layers that are dealt together with the order that is searched.
pub(crate) const SPLIT_SEARCHED: &str = "searched";

/// The set-up of a question, for any of its clusters.
#[derive(Clone)]
pub(crate) struct Asked {
    /// The set-up; its replicas are a placeholder where they are not given.
    pub(crate) setup: Setup,
    /// Replicas, if they are given.
    pub(crate) data: Option<u64>,
    /// The layers of each chunk, if they are given.
    pub(crate) layout: Option<LayerLayout>,
}

impl Asked {
    /// The set-up on `cluster`.
    pub(crate) fn on(&self, cluster: &Cluster) -> Setup {
        let Setup { tensor, pipeline, context, .. } = self.setup;
        let group = tensor.saturating_mul(pipeline).saturating_mul(context).max(1);
        Setup { data: self.data.unwrap_or((cluster.devices() / group).max(1)), ..self.setup }
    }
}

/// The path of the key `name` of the table.
fn key(name: &str) -> String {
    format!("setup.{name}")
}

impl Reader<'_> {
    /// The set-up of the table `[setup]`, if there is one, checked on each of `clusters`.
    pub(crate) fn setup(
        &self,
        model: &Transformer,
        recipe: &Recipe,
        framework: Framework,
        clusters: &[Cluster],
    ) -> Result<Option<Asked>, Diagnostic> {
        let Some(document) = &self.document.setup else { return Ok(None) };
        let search = crate::SearchDocument {
            memory_cap: self.document.search.memory_cap,
            ..Default::default()
        };
        if self.document.search != search {
            let message = "a question has one set-up, [setup], or several, [search]";
            let cure = "take one of the two out; of [search], memory-cap may stay with [setup]";
            return Err(self.wrong("search", message.to_owned()).with_help(cure));
        }
        let asked = self.asked(document, model)?;
        for cluster in clusters {
            self.check_setup(&asked, model, recipe, cluster)?;
            self.check_framework(&asked.on(cluster), recipe, framework)?;
        }
        Ok(Some(asked))
    }

    fn asked(&self, given: &SetupDocument, model: &Transformer) -> Result<Asked, Diagnostic> {
        self.check_sizes(given)?;
        let pipeline = given.pipeline.unwrap_or(1);
        let (family, chunks) = self.family_of(given)?;
        let searched = given.schedule.as_deref() == Some(SEARCHED);
        let layout = self.layout_of(given, model, family, chunks)?;
        let split = match (&layout, given.split.as_deref()) {
            (Some(_), _) => Split::Layout,
            (None, None | Some("even")) => Split::Even,
            (None, Some("balanced")) => Split::Balanced,
            (None, Some(SPLIT_SEARCHED)) if searched => Split::Searched,
            (None, Some(SPLIT_SEARCHED)) => {
                let message = format!("split is {SPLIT_SEARCHED}, but no order is");
                let cure = format!("write schedule = \"{SEARCHED}\", or split = \"balanced\"");
                return Err(self.wrong(&key("split"), message).with_help(cure));
            }
            (None, Some(other)) => {
                let message = format!(
                    "split is `{}`: write even, balanced or {SPLIT_SEARCHED}",
                    brief(other)
                );
                return Err(self.wrong(&key("split"), message));
            }
        };
        let zero = given.zero.unwrap_or(1);
        let zero = Zero::numbered(zero).ok_or_else(|| {
            self.wrong(&key("zero"), format!("zero is {zero}: the stages are 0, 1, 2 and 3"))
        })?;
        let (tensor, expert) = (given.tensor.unwrap_or(1), given.expert.unwrap_or(1));
        let shared = family.vocabulary() != Vocabulary::Whole;
        let setup = Setup {
            data: given.data.unwrap_or(1),
            tensor,
            pipeline,
            context: given.context.unwrap_or(1),
            expert,
            expert_tensor: given.expert_tensor.unwrap_or(tensor),
            zero,
            reshard: self.reshard_of(given)?,
            shard_groups: given.shard_groups.unwrap_or(1),
            microbatch: given.microbatch.unwrap_or(1),
            chunks,
            family,
            searched,
            recompute: self.recompute_of(given)?,
            split,
            vocabulary_parallel: shared || given.vocabulary_parallel.unwrap_or(false),
            options: Options::default(),
        };
        Ok(Asked { setup, data: given.data, layout })
    }

    fn check_sizes(&self, given: &SetupDocument) -> Result<(), Diagnostic> {
        let sizes = [
            ("tensor", given.tensor),
            ("pipeline", given.pipeline),
            ("chunks", given.chunks),
            ("context", given.context),
            ("expert", given.expert),
            ("expert-tensor", given.expert_tensor),
            ("data", given.data),
            ("microbatch", given.microbatch),
            ("shard-groups", given.shard_groups),
        ];
        let wrong = sizes.into_iter().find_map(|(name, size)| {
            size.filter(|size| !(1..=MAX_DEVICES).contains(size)).map(|size| (name, size))
        });
        match wrong {
            Some((name, size)) => {
                Err(self.wrong(&key(name), format!("{name} is {size}: from 1 to {MAX_DEVICES}")))
            }
            None => Ok(()),
        }
    }

    /// The schedule, and the chunks of each stage.
    fn family_of(&self, given: &SetupDocument) -> Result<(Family, u64), Diagnostic> {
        let pipeline = given.pipeline.unwrap_or(1);
        let of_layout = match &given.layout {
            Some(layout) => Some(layout.chunks_per_stage(pipeline).map_err(|misfit| {
                self.wrong(&key("layout"), misfit.to_string()).with_help(
                    "pipeline times chunks is the number of | in the layout, and one more",
                )
            })?),
            None => None,
        };
        if let (Some(of_layout), Some(chunks)) = (of_layout, given.chunks)
            && of_layout != chunks
        {
            let message = format!(
                "chunks is {chunks}, but the layout has {of_layout} for each of {pipeline} stages"
            );
            return Err(self.wrong(&key("chunks"), message).with_help("take chunks out"));
        }
        let chunks = of_layout.or(given.chunks);
        let family = match given.schedule.as_deref() {
            Some(SEARCHED) => Setup::placed_by_chunks(chunks.unwrap_or(1)),
            Some(name) => self.schedule(name)?,
            None if chunks.unwrap_or(1) > 1 => Family::Interleaved,
            None => Family::OneFOneB,
        };
        if pipeline == 1 && (family != Family::OneFOneB || chunks.unwrap_or(1) > 1) {
            let at = if given.schedule.is_some() { "schedule" } else { "chunks" };
            let message = "one stage has no schedule to choose and nothing to interleave";
            let cure = format!("give pipeline, or take {at} out");
            return Err(self.wrong(&key(at), message.to_owned()).with_help(cure));
        }
        let of_family = match family.about().chunks {
            Chunks::Exactly(exactly) => u64::from(exactly),
            Chunks::Any { default } => chunks.unwrap_or(u64::from(default)),
        };
        match chunks.filter(|chunks| *chunks != of_family) {
            Some(asked) => {
                let message = format!(
                    "{} has {of_family} chunks for each stage, but {asked} are asked for",
                    family.name()
                );
                let at = if given.chunks.is_some() { "chunks" } else { "layout" };
                let cure = format!("write {of_family}, or another schedule, such as 1f1b-i");
                Err(self.wrong(&key(at), message).with_help(cure))
            }
            None => Ok((family, of_family)),
        }
    }

    fn schedule(&self, name: &str) -> Result<Family, Diagnostic> {
        let at = key("schedule");
        let Some(family) = Family::named(name) else {
            let names = Family::ALL.into_iter().map(Family::name).chain([SEARCHED]);
            let near = question::nearest::question(name, names);
            let message = format!("there is no schedule `{}`{near}", brief(name));
            return Err(self.wrong(&at, message).with_help("`debubble schedules` lists them"));
        };
        let about = family.about();
        let segments = matches!(about.choice, Choice::Segments { .. });
        if segments || about.semantics == Semantics::Asynchronous {
            let message = format!("{name} never flushes, or cuts microbatches: no step is planned");
            return Err(self.wrong(&at, message).with_help("write another, such as 1f1b or zb-v"));
        }
        Ok(family)
    }

    /// When gathered parameters are freed; by default never in a pipeline.
    fn reshard_of(&self, given: &SetupDocument) -> Result<Reshard, Diagnostic> {
        let Some(name) = &given.reshard else {
            let is_single = given.pipeline.unwrap_or(1) == 1;
            return Ok(if is_single { Reshard::AfterForward } else { Reshard::Never });
        };
        Reshard::named(name).ok_or_else(|| {
            let message =
                format!("reshard is `{}`: write after-forward, after-last or never", brief(name));
            self.wrong(&key("reshard"), message)
        })
    }

    /// Refuses `reshard` where no gathered parameters or whole gradients are given up.
    pub(crate) fn check_reshard(&self) -> Result<(), Diagnostic> {
        let Some(setup) = &self.document.setup else { return Ok(()) };
        let zero = setup.zero.unwrap_or(1);
        if setup.reshard.is_none() || zero >= 2 {
            return Ok(());
        }
        let message = format!("reshard is about ZeRO 2 and 3, and zero is {zero}");
        Err(self.wrong(&key("reshard"), message).with_help("write zero = 3, or take reshard out"))
    }

    fn recompute_of(&self, given: &SetupDocument) -> Result<Recompute, Diagnostic> {
        let names = given.recompute.as_ref().map_or_else(|| "none".to_owned(), |all| all.join(","));
        let names = match given.recompute_layers {
            Some(layers) if names == Recompute::Full.name() => format!("{names}-{layers}"),
            Some(_) => {
                let message = "recompute-layers is for recompute = \"full\"".to_owned();
                let cure = "write recompute = \"full\", or take it out";
                return Err(self.wrong(&key("recompute-layers"), message).with_help(cure));
            }
            None => names,
        };
        let at = if given.recompute_layers.is_some() { "recompute-layers" } else { "recompute" };
        Recompute::named(&names).ok_or_else(|| {
            let message = format!("recompute is `{}`", brief(&names));
            let cure = "write none, selective, full or full-4, selective_op, or some of core_attn, \
                        moe_act, layernorm, mla_up_proj, mlp, moe and shared_experts";
            self.wrong(&key(at), message).with_help(cure)
        })
    }

    /// Checks that `framework` runs `setup`.
    fn check_framework(
        &self,
        setup: &Setup,
        recipe: &Recipe,
        framework: Framework,
    ) -> Result<(), Diagnostic> {
        if framework.runs(setup, recipe) {
            return Ok(());
        }
        let Lack { key: at, what, cure } = lack(setup, recipe, framework);
        let message = format!("{} does not run {what}", framework.title());
        Err(self.wrong(&self.first_given(&[at, "pipeline"]), message).with_help(cure))
    }

    /// The path of the first of the keys `names` of the table that the question says, or of the table.
    fn first_given(&self, names: &[&str]) -> String {
        let Some((_, text)) = self.file else { return key(names[0]) };
        let spans = question::KeySpans::of_text(text);
        let first = names.iter().map(|name| key(name)).find(|path| spans.has(path));
        first.unwrap_or_else(|| "setup".to_owned())
    }

    /// Checks that the set-up of `asked` can be one on `cluster`.
    fn check_setup(
        &self,
        asked: &Asked,
        model: &Transformer,
        recipe: &Recipe,
        cluster: &Cluster,
    ) -> Result<(), Diagnostic> {
        let inputs =
            Inputs { layout: asked.layout.as_ref(), ..Inputs::new(model, recipe, cluster) };
        match inputs.cost(&asked.on(cluster)) {
            Err(plan::Rejected::Unfit(unfit)) => {
                Err(self.unfit(unfit, &asked.on(cluster), &inputs))
            }
            Err(other) => Err(self.wrong(&self.first_given(&["schedule"]), other.to_string())),
            Ok(_) => Ok(()),
        }
    }
}

/// The beginning of a text of the user.
fn brief(text: &str) -> String {
    text.chars().take(40).collect()
}

/// A part of a set-up that a framework lacks.
struct Lack {
    /// The key that asks for it.
    key: &'static str,
    /// The part, in words.
    what: String,
    /// The remedy.
    cure: String,
}

/// The first part of `setup` by `recipe` that `framework`, which does not run it, lacks.
fn lack(setup: &Setup, recipe: &Recipe, framework: Framework) -> Lack {
    let any = || "write framework = \"any\", or ask for another".to_owned();
    let is_megatron = framework == Framework::Megatron && setup.pipeline > 1;
    let wave = setup.family.about().placement == Placement::Vee && setup.chunks != 2;
    let (key, what, cure) = match () {
        () if setup.pipeline > 1 && setup.searched && !framework.takes_orders() => {
            let what = format!("{SEARCHED}: it takes no order that is found by search");
            ("schedule", what, any())
        }
        () if setup.pipeline > 1 && !framework.has_schedule(setup.family) => {
            ("schedule", format!("the schedule {}", setup.family.name()), any())
        }
        () if !framework.has_recompute(setup.recompute) => {
            ("recompute", format!("recompute = \"{}\"", setup.recompute.name()), any())
        }
        () if setup.vocabulary_parallel && !framework.has_vocabulary_parallel() => {
            ("vocabulary-parallel", "the vocabulary on all stages".to_owned(), any())
        }
        () if framework.lacks_microbatches(setup, recipe.batch) => {
            let count = setup.microbatches(recipe.batch).unwrap_or_default();
            let what = format!(
                "{} with {count} microbatches on {} stages: it needs at least as many microbatches as \
                 there are stages",
                setup.family.name(),
                setup.pipeline
            );
            let least = setup.pipeline.saturating_mul(setup.microbatch).saturating_mul(setup.data);
            let other = if is_megatron { "1f1b" } else { "zb-auto" };
            let cure = format!("write batch = {least} or more, or schedule = \"{other}\"");
            ("schedule", what, cure)
        }
        () if is_megatron && Framework::overlaps_nothing(setup) => {
            let what = format!("{} where experts are on one device", setup.family.name());
            ("schedule", what, "write expert = 2 or more, or schedule = \"1f1b-i\"".to_owned())
        }
        () if framework.lacks_overlap(setup, &recipe.software) => {
            let what = "overlap-experts on one chunk per stage, or with whole layers recomputed";
            let cure = "write schedule = \"1f1b-i\", or take overlap-experts out";
            ("schedule", what.to_owned(), cure.to_owned())
        }
        () if wave => {
            let what = format!("a V of {} chunks per stage: its own has 2", setup.chunks);
            ("chunks", what, "write chunks = 2".to_owned())
        }
        () => {
            let what =
                "ZeRO stage 1 without a pipeline: FSDP without one is stage 2 or 3".to_owned();
            ("zero", what, "write zero = 2 or 3, or pipeline = 2 or more".to_owned())
        }
    };
    Lack { key, what, cure }
}
