//! What a joint search may choose of a question, and the question that a choice comes to.

use pipeline::overlap::Overlap;
use pipeline::{Bytes, LayerLayout, Limit, Limits, Placement, Schedule, Share};
use search::{Choice, FoundJointly, Instance, Jointly, ProgressJointly, Space};
use search::{Effort, SearchError, search_jointly};

use super::searched::{explain, instance};
use super::{Prepared, Recomputed, ScheduleSource, Searched, case_of, checks, prepared, room};
use crate::diagnostic::Diagnostic;
use crate::host::Context;
use crate::keys::Keys;
use crate::scenario::{Scenario, Setting};
use crate::search::{self as asked, Varied};

/// The most chunks per stage that are tried where nothing is said of it.
const MOST_CHUNKS: u64 = 3;
/// The most layers of a model whose layers are moved one by one.
const MOST_LAYERS: u64 = 4096;
/// The most chunks of a pipeline that is searched together with its layers and recomputation.
const MOST_ALL_CHUNKS: u64 = 1024;

/// What is kept of a question while its choices are tried.
pub struct Joint<'a> {
    context: &'a Context<'a>,
    scenario: &'a Scenario,
    /// The question with nothing chosen.
    setting: Setting,
    keys: &'a asked::Keys,
    /// The parts that chunks may recompute; only nothing where that is not chosen.
    parts: Vec<Recomputed>,
    /// The memory of every stage, if it is limited.
    limits: Option<Vec<Bytes>>,
    /// Layers of multi-token prediction.
    mtp: u64,
    space: Space,
}

/// A joint search that is done.
pub struct SearchedJointly {
    /// The question with the best choice made, as a scenario has it.
    pub setting: Setting,
    /// The order of that, with its case.
    pub searched: Searched,
    /// All that was found.
    pub found: FoundJointly,
}

/// Checks that the keys of a joint search go together, with each other and with those of `setting`.
///
/// # Errors
/// At the first key that does not.
pub fn check(
    scenario: &Scenario,
    setting: &Setting,
    asked: &asked::Keys,
) -> Result<(), Diagnostic> {
    if asked.vary.is_empty() {
        let Some(key) = asked.of_joint().next() else { return Ok(()) };
        let message = format!("{key} says something of what --vary chooses, which is not given");
        return Err(Diagnostic::new(message).with_help("give --vary all, or leave it out"));
    }
    let keys = &setting.keys;
    let wrong = |key, message: String, cure: &str| {
        Err(scenario.error(setting, Some(key), message).with_help(cure))
    };
    for (key, given) in
        [("profile", keys.profile.is_some()), ("chain-file", keys.chain_file.is_some())]
    {
        if given {
            let message = format!("{key} has times of its own, which --vary cannot deal to chunks");
            return wrong(
                key,
                message,
                "give the times of a layer by --chain, or of a stage by --forward and its like",
            );
        }
    }
    if asked.varies(Varied::Recompute) && keys.recompute.is_some() {
        let message = "recompute is what --vary chooses, so it cannot be told".to_owned();
        return wrong(
            "recompute",
            message,
            "leave it out, or name in --vary what else is to be chosen",
        );
    }
    if asked.varies(Varied::Placement) && asked.placement.is_some() {
        let message = "placement is what --vary chooses, so it cannot be told";
        let cure = "leave it out, or name in --vary what else is to be chosen";
        return Err(Diagnostic::new(message).with_help(cure));
    }
    if keys.memory_limit.is_some() && !checks::has_footprints(keys) {
        let message =
            "a joint search measures memory in bytes, and no sizes of activations are given";
        let cure = "give --activation, or --hidden, --heads and --seq with --layers-per-stage and \
                    --microbatch-size";
        return wrong("memory-limit", message.to_owned(), cure);
    }
    let has_mtp = keys.layout.as_ref().is_some_and(|layout| layout.mtp() > 0);
    if asked.mtp_layers.is_some() && (has_mtp || !keys.has_chain()) {
        let message = match has_mtp {
            true => "mtp-layers and the m of the layout say the same",
            false => "mtp-layers do more than others, and nothing says what a layer does",
        };
        let cure = "give mtp-layers with --layers, --chain and --chain-mtp";
        return Err(Diagnostic::new(message).with_help(cure));
    }
    let extra = asked.activation_head.or(asked.activation_tail);
    if extra.is_some() && keys.activation.is_none() {
        let message =
            "activation-head and activation-tail come on top of --activation, which is not given";
        return Err(Diagnostic::new(message).with_help("give --activation, that of the mean stage"));
    }
    check_dealt(scenario, setting, asked)
}

/// Checks that what is dealt to chunks by layers is given once for all stages.
fn check_dealt(
    scenario: &Scenario,
    setting: &Setting,
    asked: &asked::Keys,
) -> Result<(), Diagnostic> {
    fn count<T>(list: &Option<Vec<T>>) -> usize {
        list.as_ref().map_or(0, Vec::len)
    }
    let keys = &setting.keys;
    let moves = asked.varies(Varied::Layers) || asked.varies(Varied::Chunks);
    let all = [
        ("forward", count(&keys.forward)),
        ("backward-input", count(&keys.backward_input)),
        ("backward-weight", count(&keys.backward_weight)),
        ("activation", count(&keys.activation)),
        ("activation-until-weight", count(&keys.activation_until_weight)),
        ("recompute", count(&keys.recompute)),
        ("recompute-time", count(&keys.recompute_time)),
        ("activation-kept", count(&keys.activation_kept)),
    ];
    let several = all.into_iter().find(|(_, count)| *count > 1).filter(|_| moves);
    if let Some((key, _)) = several {
        let message =
            format!("{key} has a value for each stage or chunk, but layers move between them");
        let cure = "give one value, that of the mean stage, which is dealt by layers; what the ends of the model \
                    do besides is said by --chain, --chain-head and --chain-tail, or leave layers and chunks \
                    out of --vary";
        return Err(scenario.error(setting, Some(key), message).with_help(cure));
    }
    if total(keys).is_none() && asked.varies(Varied::Layers) {
        let message = "layers are to be searched, and nothing says how many there are";
        let cure = "give --layers, those of the whole model, or --layers-per-stage or --layout";
        return Err(scenario.error(setting, Some("layers"), message.to_owned()).with_help(cure));
    }
    let is_even = asked.resident_layer.is_some() && total(keys).is_none();
    if is_even {
        let message = "resident-layer is of each layer, and nothing says how many there are";
        return Err(
            Diagnostic::new(message).with_help("give --layers, --layers-per-stage or --layout")
        );
    }
    Ok(())
}

/// The transformer layers of the whole model, if the question says.
fn total(keys: &Keys) -> Option<u64> {
    let of_stages = || keys.layers_per_stage?.checked_mul(keys.stages?);
    let of_layout = keys.layout.as_ref().map(LayerLayout::total);
    of_layout.or(keys.layers).or_else(of_stages)
}

impl<'a> Joint<'a> {
    /// What may be chosen of `setting`.
    ///
    /// # Errors
    /// If keys do not go together, the question is wrong, or there is too much to choose.
    pub fn of(
        context: &'a Context<'a>,
        scenario: &'a Scenario,
        setting: &Setting,
        keys: &'a asked::Keys,
    ) -> Result<Self, Diagnostic> {
        check(scenario, setting, keys)?;
        let rule = ScheduleSource::Searched(keys.placement());
        let all = total(&setting.keys);
        let mut setting = setting.clone();
        if !setting.keys.has_chain() {
            // They are dealt by layouts, each with as many.
            setting.keys.layers = None;
        }
        let told = setting.keys.memory_limit.take();
        let before = prepared(context, scenario, &setting, &rule)?;
        let overlap = before.problem.costs().overlap();
        if overlap.is_some_and(Overlap::communicates) {
            return Err(communicates(scenario, &setting));
        }
        let limits = told.map(|told| limits(scenario, &setting, &before, &told)).transpose()?;
        // B and W apart say what both together said.
        setting.keys.backward = None;
        let (shape, placement) = super::shape(scenario, &setting, &rule)?;
        let parts = parts(&setting.keys, keys);
        let at = (shape.stages(), shape.chunks_per_stage(), placement);
        let of_layout = setting.keys.layout.as_ref().map_or(0, LayerLayout::mtp);
        let mtp = keys.mtp_layers.unwrap_or(of_layout);
        let mut space = space((&setting.keys, all), keys, at, parts.len());
        if mtp > 0 && space.asked.mtp.is_none() {
            space.asked.mtp = Some(space.asked.recompute.len() - 1);
        }
        let joint = Self { context, scenario, setting, mtp, keys, parts, limits, space };
        joint.check_size()?;
        joint.check_parts()?;
        Ok(joint)
    }

    /// Checks that the question knows what it asks itself, and everything that chunks may recompute.
    fn check_parts(&self) -> Result<(), Diagnostic> {
        let asked = &self.space.asked;
        self.instance(asked)?;
        for (part, told) in self.parts.iter().enumerate().skip(1) {
            let choice = Choice { recompute: vec![part; asked.recompute.len()], ..asked.clone() };
            self.instance(&choice).map_err(|wrong| {
                wrong.with_help(format!(
                    "recompute {told} is among what --vary tries: give what it needs, or leave recompute out of \
                     --vary"
                ))
            })?;
        }
        Ok(())
    }

    /// Refuses what has too many layers or chunks to try.
    fn check_size(&self) -> Result<(), Diagnostic> {
        let layers: u64 =
            self.space.asked.layers.iter().fold(0, |all, own| all.saturating_add(*own));
        let own = self.space.forms.iter().map(|(own, _)| u64::from(*own)).max().unwrap_or(1);
        let chunks = own.saturating_mul(self.space.stages as u64);
        let (key, message) = match (layers > MOST_LAYERS, chunks > MOST_ALL_CHUNKS) {
            (true, _) => {
                ("layers", format!("{layers} layers are too many to deal: at most {MOST_LAYERS}"))
            }
            (_, true) => (
                "stages",
                format!("{chunks} chunks are too many to choose for: at most {MOST_ALL_CHUNKS}"),
            ),
            _ => return Ok(()),
        };
        let cure = "leave --vary out, or chunks out of it";
        Err(self.scenario.error(&self.setting, Some(key), message).with_help(cure))
    }

    /// The question with `choice` made.
    pub fn setting(&self, choice: &Choice) -> Option<Setting> {
        let mut setting = self.setting.clone();
        let keys = &mut setting.keys;
        keys.chunks = Some(u64::from(choice.chunks_per_stage));
        keys.schedule = None;
        if !choice.layers.is_empty() {
            let layout = LayerLayout::of(choice.layers.clone()).ok()?;
            keys.layout = Some(match choice.mtp {
                Some(chunk) => layout.with_mtp(chunk, self.mtp)?,
                None => layout,
            });
            keys.layers = None;
            self.deal(keys, choice);
        }
        if self.space.recomputed > 1 {
            let all = choice.recompute.iter().map(|&part| self.parts.get(part).copied());
            let all = all.collect::<Option<Vec<Recomputed>>>()?;
            keys.recompute = all.iter().any(|one| *one != Recomputed::Nothing).then_some(all);
        }
        if let Some(limits) = &self.limits {
            let resident = self.resident(choice);
            let left = limits.iter().zip(resident).map(|(limit, resident)| {
                // A stage that is full without activations lacks memory like any other.
                Limit::Bytes(Bytes(limit.0.saturating_sub(resident.0).max(1)))
            });
            keys.memory_limit = Some(left.collect());
        }
        Some(setting)
    }

    /// Gives each chunk its own bytes where the ends of the model, or layers of multi-token prediction, hold
    /// more than the layers.
    fn deal(&self, keys: &mut Keys, choice: &Choice) {
        let mtp = self.mtp;
        let (head, tail) = (self.keys.activation_head, self.keys.activation_tail);
        if mtp == 0 && head.is_none() && tail.is_none() {
            return;
        }
        let stages = self.space.stages as u64;
        let all = choice.layers.iter().sum::<u64>() + mtp;
        let own =
            |chunk: usize| choice.layers[chunk] + if choice.mtp == Some(chunk) { mtp } else { 0 };
        let chunks = choice.layers.len();
        let dealt = |mean: Bytes| -> Vec<Bytes> {
            (0..chunks).map(|chunk| mean.part(own(chunk).saturating_mul(stages), all)).collect()
        };
        for list in [&mut keys.activation, &mut keys.activation_until_weight] {
            let Some([mean]) = list.as_deref() else { continue };
            let mut each = dealt(*mean);
            each[0] += head.unwrap_or_default();
            each[chunks - 1] += tail.unwrap_or_default();
            *list = Some(each);
        }
        if let Some([mean]) = keys.activation_kept.as_deref() {
            keys.activation_kept = Some(dealt(*mean));
        }
        if let Some([mean]) = keys.recompute_time.as_deref() {
            let mean = *mean;
            let part = |chunk| mean.part(own(chunk).saturating_mul(stages), all);
            keys.recompute_time = Some((0..chunks).map(part).collect());
        }
    }

    /// The bytes that each stage holds all the time with `choice`.
    #[must_use]
    pub fn resident(&self, choice: &Choice) -> Vec<Bytes> {
        let chunks = choice.recompute.len();
        let layer = self.keys.resident_layer.unwrap_or_default();
        let mut held = vec![Bytes(0); self.space.stages];
        let shape =
            pipeline::Shape::new(self.space.stages as u64, u64::from(choice.chunks_per_stage), 1);
        let Ok(shape) = shape else { return held };
        for (chunk, at) in (0..shape.chunks()).zip(0..chunks) {
            let mtp = if choice.mtp == Some(at) { self.mtp } else { 0 };
            let layers = choice.layers.get(at).copied().unwrap_or(0).saturating_add(mtp);
            let ends =
                [(at == 0, self.keys.resident_head), (at + 1 == chunks, self.keys.resident_tail)];
            let ends = ends.into_iter().filter(|(there, _)| *there).filter_map(|(_, bytes)| bytes);
            let own =
                ends.fold(layer.0.saturating_mul(layers), |all, end| all.saturating_add(end.0));
            let stage = &mut held[choice.placement.stage(shape, chunk, 0)];
            *stage = Bytes(stage.0.saturating_add(own));
        }
        held
    }

    /// What passes cost and hold with `choice`.
    ///
    /// # Errors
    /// If the question knows no such choice.
    pub fn instance(&self, choice: &Choice) -> Result<Instance, Diagnostic> {
        let wrong = || Diagnostic::new("there is no such choice of layers");
        let mut setting = self.setting(choice).ok_or_else(wrong)?;
        // What lacks memory is told apart from what is wrong by the search.
        let limits = setting.keys.memory_limit.take();
        let rule = ScheduleSource::Searched(Some(choice.placement));
        let prepared = prepared(self.context, self.scenario, &setting, &rule)?;
        room::check(self.context.host(), &rule, &prepared)?;
        let objective = self.keys.objective().unwrap_or_default();
        let mut instance = instance(self.scenario, &setting, &rule, &prepared, objective)?;
        let shape = instance.shape;
        let bytes = limits.iter().flatten().map(|limit| limit.bytes(shape, Bytes(0)));
        let bytes: Vec<Bytes> = bytes.collect();
        if !bytes.is_empty() {
            let limits = Limits::new(shape, &bytes);
            instance.limits = Some(limits.map_err(|fault| Diagnostic::new(fault.to_string()))?);
        }
        // Without communication a pair takes the sum of its passes.
        Ok(match instance.costs.overlap() {
            Some(_) => Instance { costs: instance.costs.clone().apart(), ..instance },
            None => instance,
        })
    }

    /// What chunk number `chunk` recomputes with `choice`.
    #[must_use]
    pub fn recomputed(&self, choice: &Choice) -> Vec<Recomputed> {
        let told = |part: &usize| self.parts.get(*part).copied().unwrap_or_default();
        choice.recompute.iter().map(told).collect()
    }

    /// The choices of the question.
    #[must_use]
    pub const fn space(&self) -> &Space {
        &self.space
    }

    /// Searches the best choice with its best order; `known` are worth trying.
    ///
    /// # Errors
    /// If no choice has an order under its limit.
    pub fn search(
        &self,
        known: &[(Choice, Schedule)],
        effort: Effort,
        progress: &mut dyn FnMut(ProgressJointly),
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<SearchedJointly, Diagnostic> {
        let instance = |choice: &Choice| self.instance(choice).ok();
        let jointly = Jointly { space: &self.space, instance: &instance, known, effort };
        let found =
            search_jointly(&jointly, progress, stop).map_err(|error| self.explain(&error))?;
        let wrong = || Diagnostic::new("there is no such choice of layers");
        let setting = self.setting(&found.choice).ok_or_else(wrong)?;
        let rule = ScheduleSource::Searched(Some(found.choice.placement));
        let prepared = prepared(self.context, self.scenario, &setting, &rule)?;
        let schedule = found.found.schedule.clone();
        let case = case_of(self.context, self.scenario, &setting, &rule, prepared, schedule)?;
        let searched =
            Searched { case, instance: found.instance.clone(), found: found.found.clone() };
        Ok(SearchedJointly { setting, searched, found })
    }

    fn explain(&self, error: &SearchError) -> Diagnostic {
        let wrong = explain(self.scenario, &self.setting, error);
        match error {
            SearchError::Infeasible(_) => wrong.with_help(
                "so it is with the layers as they are asked, and nothing that --vary tried needs as little: raise the \
                 limit, which is for activations and resident bytes, or let --vary change more",
            ),
            _ => wrong,
        }
    }
}

/// The memory of each stage where `told` limits it: multiples are of the activations of the question as it is
/// asked.
fn limits(
    scenario: &Scenario,
    setting: &Setting,
    asked: &Prepared,
    told: &[Limit],
) -> Result<Vec<Bytes>, Diagnostic> {
    let (shape, rule) = (asked.shape, ScheduleSource::Searched(None));
    let held = asked.problem.footprints().by_stage(shape, Placement::Looped);
    let most = held.into_iter().max().unwrap_or_default();
    let bytes: Vec<Bytes> = told.iter().map(|limit| limit.bytes(shape, most)).collect();
    let limits = Limits::new(shape, &bytes);
    let limits = limits.map_err(|fault| checks::explain(scenario, setting, &rule, &fault))?;
    Ok(limits.by_stage().to_vec())
}

/// The refusal of chains on two streams.
fn communicates(scenario: &Scenario, setting: &Setting) -> Diagnostic {
    let message = "--vary knows passes on one stream, and this chain communicates on a second";
    let cure = "leave --vary out: pairs on two streams are searched with layers as they are told; or give the \
                communication as a part of the compute segments";
    scenario.error(setting, Some("chain"), message.to_owned()).with_help(cure)
}

/// What chunks may recompute, nothing first.
fn parts(keys: &Keys, asked: &asked::Keys) -> Vec<Recomputed> {
    if !asked.varies(Varied::Recompute) {
        return vec![Recomputed::Nothing];
    }
    let sizes = keys.hidden.is_some() && keys.heads.is_some() && keys.seq.is_some();
    let told = keys.recompute_time.is_some() || keys.activation_kept.is_some();
    let selective = (sizes && !told).then_some(Recomputed::Selective);
    let some = std::iter::once(Recomputed::Nothing).chain(selective);
    some.chain([Recomputed::Everything]).collect()
}

/// The choices that `asked` allows of `keys`, whose pipeline has so many stages, and chunks on each that lie so.
fn space(
    (keys, all): (&Keys, Option<u64>),
    asked: &asked::Keys,
    (stages, own, placement): (usize, u16, Placement),
    recomputed: usize,
) -> Space {
    let chunks = usize::from(own) * stages;
    let moves_layers = asked.varies(Varied::Layers);
    let told = keys.layout.as_ref().map(|layout| layout.layers().to_vec());
    let counts = moves_layers || keys.has_chain() || asked.resident_layer.is_some();
    let counted = all.filter(|_| counts && keys.layout.is_none());
    let even = counted.map(|all| Space::even(all, chunks));
    let layers = told.or(even).unwrap_or_default();
    let mtp = keys.layout.as_ref().and_then(LayerLayout::mtp_chunk);
    let recompute = vec![0; chunks];
    let choice = Choice { chunks_per_stage: own, placement, layers, mtp, recompute };
    let most = asked.max_chunks.unwrap_or(MOST_CHUNKS.max(u64::from(own)));
    let most = u16::try_from(most).unwrap_or(u16::MAX);
    let all: Vec<u16> = match asked.varies(Varied::Chunks) {
        true => (1..=most).collect(),
        false => vec![own],
    };
    let lie = |own: u16| match (asked.varies(Varied::Placement), own) {
        (_, 1) => vec![Placement::Looped],
        (true, _) => vec![Placement::Looped, Placement::Vee],
        (false, 2) => vec![asked.placement().unwrap_or(Placement::Vee)],
        (false, _) => vec![asked.placement().unwrap_or(Placement::Looped)],
    };
    let forms = all.into_iter().flat_map(|own| lie(own).into_iter().map(move |at| (own, at)));
    Space { stages, asked: choice, forms: forms.collect(), moves_layers, recomputed }
}
