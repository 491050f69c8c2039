//! The choices of a joint search, and the setting that each choice makes.

mod checks;
mod chosen;
mod written;

use pipeline::overlap::Overlap;
use pipeline::{Bytes, LayerLayout, Limit, Limits, Placement, Schedule};
use search::{Choice, FoundJointly, Instance, Jointly, Progress, Space};
use search::{Effort, SearchError, search_jointly};

use super::searched::{explain, instance};
use super::{ScheduleSource, Searched, case_of, headroom};
use question::diagnostic::Diagnostic;
use question::host::Context;
use question::keys::Keys;
use question::resolve::{Resolved, explain as explain_fault, is_own, shape};
use question::scenario::{Scenario, Setting};
use question::search::{SearchKeys, Varied};
use question::values::passes::Recomputed;

use self::checks::total;
use self::written::written;

pub use self::checks::{check, may_copy};

/// The default of the most chunks per stage that are tried.
const MOST_CHUNKS: u64 = 3;
/// The most layers of a model whose layers are moved one by one.
const MOST_LAYERS: u64 = 4096;
/// The most chunks of a pipeline that is searched together with its layers and recomputation.
const MOST_ALL_CHUNKS: u64 = 1024;

/// The most forwards of an order: those of many choices are kept side by side.
const MOST_FORWARDS: u64 = 100_000;

/// A question whose choices are searched together with its order.
pub struct Joint<'a> {
    context: &'a Context<'a>,
    scenario: &'a Scenario,
    /// The question with nothing chosen.
    setting: Setting,
    keys: &'a SearchKeys,
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
    /// The question with the best choice made, as a scenario has it, with times of each chunk.
    pub setting: Setting,
    /// The order of that, with its case.
    pub searched: Searched,
    /// The result of the joint search.
    pub found: FoundJointly,
}

impl<'a> Joint<'a> {
    /// The joint search over the choices of `setting`.
    pub fn of(
        context: &'a Context<'a>,
        scenario: &'a Scenario,
        setting: &Setting,
        keys: &'a SearchKeys,
    ) -> Result<Self, Diagnostic> {
        check(scenario, setting, keys)?;
        let rule = ScheduleSource::Searched(keys.placement());
        let all = total(&setting.keys);
        let mut setting = setting.clone();
        if !setting.keys.has_chain() {
            // They are dealt by layouts, each with as many.
            setting.keys.layers = None;
        }
        let given_limits = setting.keys.memory_limit.take();
        let before = Resolved::of(context, scenario, &setting, &rule)?;
        let overlap = before.problem.costs().overlap();
        let pairs = overlap.is_some_and(Overlap::communicates);
        check_pairs(scenario, &setting, keys, pairs)?;
        let limits =
            given_limits.map(|given| limits(scenario, &setting, &before, &given)).transpose()?;
        if !is_own(&setting.keys) {
            // B and W apart replace the time of both together.
            setting.keys.backward = None;
        }
        let (shape, placement) = shape(scenario, &setting, &rule)?;
        let parts = parts(&setting.keys, keys);
        let at = (shape.stages(), shape.chunks_per_stage(), placement);
        let of_layout = setting.keys.layout.as_ref().map_or(0, LayerLayout::mtp);
        let mtp = keys.mtp_layers.unwrap_or(of_layout);
        let mut space = space((&setting.keys, all), keys, at, pairs);
        if mtp > 0 && space.asked.mtp.is_none() {
            space.asked.mtp = Some(space.asked.activations.len() - 1);
        }
        let mut joint = Self { context, scenario, setting, mtp, keys, parts, limits, space };
        joint.check_size()?;
        joint.settle_treatments()?;
        Ok(joint)
    }

    /// Checks the instance of the question as asked, and settles the treatments of activations: the parts that chunks
    /// may recompute, all of which must be valid where --vary names recompute, and offloading.
    fn settle_treatments(&mut self) -> Result<(), Diagnostic> {
        let asked = self.space.asked.clone();
        self.instance(&asked)?;
        self.space.treatments = self.parts.len();
        let mut known = vec![Recomputed::Nothing];
        for (treatment, part) in self.parts.iter().enumerate().skip(1) {
            let activations = vec![treatment; asked.activations.len()];
            let choice = Choice { activations, pairs: false, ..asked.clone() };
            match self.instance(&choice) {
                Ok(_) => known.push(*part),
                Err(wrong) if self.keys.names(Varied::Recompute) => {
                    return Err(wrong.with_help(format!(
                        "recompute {part} is among what --vary tries: give what it needs, or leave recompute out \
                         of --vary"
                    )));
                }
                Err(_) => {}
            }
        }
        let copies = may_copy(&self.setting, self.keys);
        self.space.host = copies.then_some(known.len());
        self.space.treatments = known.len() + usize::from(copies);
        self.parts = known;
        Ok(())
    }

    /// Refuses what has too many layers or chunks to try.
    fn check_size(&self) -> Result<(), Diagnostic> {
        let layers: u64 =
            self.space.asked.layers.iter().fold(0, |all, own| all.saturating_add(*own));
        let own = self.space.forms.iter().map(|(own, _)| u64::from(*own)).max().unwrap_or(1);
        let chunks = own.saturating_mul(self.space.stages as u64);
        let cells = chunks.saturating_mul(self.setting.keys.microbatches.unwrap_or(0));
        let (key, message) = if layers > MOST_LAYERS {
            ("layers", format!("{layers} layers are too many to deal: at most {MOST_LAYERS}"))
        } else if chunks > MOST_ALL_CHUNKS {
            (
                "stages",
                format!("{chunks} chunks are too many to choose for: at most {MOST_ALL_CHUNKS}"),
            )
        } else if cells > MOST_FORWARDS {
            (
                "microbatches",
                format!(
                    "{cells} forwards are too many to search for this number of choices: at most {MOST_FORWARDS}"
                ),
            )
        } else {
            return Ok(());
        };
        let cure = "leave --vary out, or chunks out of it, or ask for fewer microbatches";
        Err(self.scenario.error(&self.setting, Some(key), message).with_help(cure))
    }

    /// The instance of `choice`: costs, footprints and limits.
    pub fn instance(&self, choice: &Choice) -> Result<Instance, Diagnostic> {
        let wrong = || Diagnostic::new("there is no such choice of layers");
        let mut setting = self.setting(choice).ok_or_else(wrong)?;
        // The search itself distinguishes choices without memory from invalid ones.
        let limits = setting.keys.memory_limit.take();
        let rule = ScheduleSource::Searched(Some(choice.placement));
        let resolved = Resolved::of(self.context, self.scenario, &setting, &rule)?;
        headroom::check(self.context.host(), &rule, &resolved)?;
        let objective = self.keys.objective().unwrap_or_default();
        let mut instance = instance(self.scenario, &setting, &rule, &resolved, objective)?;
        let shape = instance.shape;
        let bytes = limits.iter().flatten().map(|limit| limit.bytes(shape, Bytes(0)));
        let bytes: Vec<Bytes> = bytes.collect();
        if !bytes.is_empty() {
            let limits = Limits::new(shape, &bytes);
            instance.limits = Some(limits.map_err(|fault| Diagnostic::new(fault.to_string()))?);
        }
        // Without communication a pair takes the sum of its passes.
        Ok(match instance.costs.overlap() {
            Some(overlap) if choice.pairs && overlap.communicates() => instance,
            Some(_) => Instance { costs: instance.costs.clone().apart(), ..instance },
            None => instance,
        })
    }

    /// The part that each chunk recomputes with `choice`.
    #[must_use]
    pub fn recomputed(&self, choice: &Choice) -> Vec<Recomputed> {
        let recomputed = |part: &usize| self.parts.get(*part).copied().unwrap_or_default();
        choice.activations.iter().map(recomputed).collect()
    }

    /// The choices of the question.
    #[must_use]
    pub const fn space(&self) -> &Space {
        &self.space
    }

    /// Searches the best choice with its best order; `known` are worth trying.
    pub fn search(
        &self,
        known: &[(Choice, Schedule)],
        effort: Effort,
        progress: &mut dyn FnMut(Progress),
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<SearchedJointly, Diagnostic> {
        let instance = |choice: &Choice| self.instance(choice).ok();
        let jointly = Jointly { space: &self.space, instance: &instance, known, effort };
        let found =
            search_jointly(&jointly, progress, stop).map_err(|error| self.explain(&error))?;
        let wrong = || Diagnostic::new("there is no such choice of layers");
        let setting = self.setting(&found.choice).ok_or_else(wrong)?;
        let rule = ScheduleSource::Searched(Some(found.choice.placement));
        let resolved = self.resolved(&setting, &rule, &found.instance)?;
        let schedule = found.found.schedule.clone();
        let case = case_of(self.context, self.scenario, &setting, &rule, resolved, schedule)?;
        let setting = written(setting, &found.instance.costs);
        let searched = Searched::nominal(case, found.instance.clone(), found.found.clone());
        Ok(SearchedJointly { setting, searched, found })
    }

    /// The parts of `setting` with the limits of `instance`: of an order that copies to the host, the smallest limit is
    /// not that of one microbatch without copies.
    fn resolved(
        &self,
        setting: &Setting,
        rule: &ScheduleSource,
        instance: &Instance,
    ) -> Result<Resolved, Diagnostic> {
        let mut unlimited = setting.clone();
        let given_limits = unlimited.keys.memory_limit.take().unwrap_or_default();
        let resolved = Resolved::of(self.context, self.scenario, &unlimited, rule)?;
        Ok(Resolved { limits: instance.limits.clone(), given_limits, ..resolved })
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

/// The memory of each stage under the limits `given_limits`; multiples are of the activations of the question as
/// asked.
fn limits(
    scenario: &Scenario,
    setting: &Setting,
    asked: &Resolved,
    given_limits: &[Limit],
) -> Result<Vec<Bytes>, Diagnostic> {
    let (shape, rule) = (asked.shape, ScheduleSource::Searched(None));
    let held = asked.problem.footprints().by_stage(shape, Placement::Looped);
    let most = held.into_iter().max().unwrap_or_default();
    let bytes: Vec<Bytes> = given_limits.iter().map(|limit| limit.bytes(shape, most)).collect();
    let limits = Limits::new(shape, &bytes);
    let limits = limits.map_err(|fault| explain_fault(scenario, setting, &rule, &fault))?;
    Ok(limits.by_stage().to_vec())
}

/// Checks that pairs on two streams can be chosen as asked; `communicate` is whether passes communicate.
fn check_pairs(
    scenario: &Scenario,
    setting: &Setting,
    asked: &SearchKeys,
    communicate: bool,
) -> Result<(), Diagnostic> {
    if asked.names(Varied::Pairs) && !communicate {
        let message = "pairs are to be chosen, and no pass communicates on a second stream";
        let cure = "give --chain with segments that communicate, such as dispatch=6.7ms/7.5ms, or leave pairs out of \
                    --vary";
        return Err(Diagnostic::new(message).with_help(cure));
    }
    if asked.names(Varied::Recompute) && communicate && !asked.varies(Varied::Pairs) {
        let message = "recompute is to be chosen, and pairs on two streams recompute nothing";
        let cure = "name pairs in --vary, too, so that passes may run one after the other, or leave recompute out of it";
        return Err(scenario.error(setting, Some("chain"), message.to_owned()).with_help(cure));
    }
    Ok(())
}

/// The parts that chunks may recompute, nothing first.
fn parts(keys: &Keys, asked: &SearchKeys) -> Vec<Recomputed> {
    if !asked.varies(Varied::Recompute) {
        return vec![Recomputed::Nothing];
    }
    let sizes = keys.hidden.is_some() && keys.heads.is_some() && keys.seq.is_some();
    let has_costs = keys.recompute_time.is_some() || keys.activation_kept.is_some();
    let selective = (sizes && !has_costs).then_some(Recomputed::Selective);
    let some = std::iter::once(Recomputed::Nothing).chain(selective);
    some.chain([Recomputed::Everything]).collect()
}

/// The choices that `asked` allows for `keys`, on a pipeline with the given stages, chunks per stage and placement;
/// `pairs` is whether its passes communicate on a second stream. Treatments of activations are added later.
fn space(
    (keys, all): (&Keys, Option<u64>),
    asked: &SearchKeys,
    (stages, own, placement): (usize, u16, Placement),
    pairs: bool,
) -> Space {
    let chunks = usize::from(own) * stages;
    let moves_layers = asked.varies(Varied::Layers) && all.is_some();
    let of_layout = keys.layout.as_ref().map(|layout| layout.layers().to_vec());
    let of_layers = [asked.resident_layer, asked.activation_head, asked.activation_tail];
    let counts = moves_layers || keys.has_chain() || of_layers.iter().any(Option::is_some);
    let counted = all.filter(|_| counts && keys.layout.is_none());
    let even = counted.map(|all| Space::even(all, chunks));
    let layers = of_layout.or(even).unwrap_or_default();
    let mtp = keys.layout.as_ref().and_then(LayerLayout::mtp_chunk);
    let activations = vec![0; chunks];
    let choice = Choice { chunks_per_stage: own, placement, layers, mtp, activations, pairs };
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
    let are_alike = keys.chain_dense.is_none();
    let chooses_pairs = pairs && asked.varies(Varied::Pairs);
    let (forms, treatments, host) = (forms.collect(), 1, None);
    Space { stages, asked: choice, forms, moves_layers, are_alike, treatments, host, chooses_pairs }
}
