//! `[search]`: which set-ups are tried.

use pipeline::{Choice, Family, LayerLayout, Placement, Semantics};
use plan::{
    Attention, Cluster, Graphs, Machine, Offload, Options, Recompute, Setup, Space, Split,
    Transformer, Tuning, Zero,
};
use question::diagnostic::Diagnostic;
use question::source::SEARCHED;

use crate::clusters::MAX_DEVICES;
use crate::framework::Framework;
use crate::reader::Reader;
use crate::setup::SPLIT_SEARCHED;

/// Schedules that are tried by default, beside orders that are searched: those that trainers run, and one for
/// each trade of memory, of the link to the host and of the head against bubble.
const SCHEDULES: [&str; 8] =
    ["1f1b", "1f1b-i", "zb-h1", "zb-v", "v-half", "po-h", "vocab-1", "v-half-vocab-1"];
/// The schedules that are tried by default.
#[must_use]
pub fn default_schedules() -> Vec<Family> {
    SCHEDULES.iter().filter_map(|name| Family::named(name)).collect()
}

/// Schedules whose set-ups say how devices are shared best where all orders are to be searched.
const SCOUTS: [Family; 3] = [Family::OneFOneB, Family::ZbH1, Family::ZbV];
/// The largest tensor groups that are tried by default where fast links reach beyond a node: heads of
/// keys and values are seldom more than 8.
const TENSOR_IN_DOMAIN: u64 = 8;
/// The most stages that are tried by default.
const MAX_STAGES: u64 = 128;

/// The values of `software`, and whether keys that are left out are searched.
const VALUES: [(&str, bool); 2] = [("all", true), ("as given", false)];

/// The table `[search]`. Where it has no groups, they follow from each cluster.
#[derive(Clone)]
pub(crate) struct Search {
    tensor: Option<Vec<u64>>,
    pipeline: Option<Vec<u64>>,
    /// The layers of each chunk, if they are given.
    pub(crate) layout: Option<LayerLayout>,
    /// Whether orders are searched for the best set-ups.
    pub(crate) searched: bool,
    /// Whether published schedules are tried.
    pub(crate) published: bool,
    /// Whether layers are dealt together with orders that are searched.
    pub(crate) deals: bool,
    /// Context groups of which each device has half of [`WHOLE_SEQUENCE`], unless the question names groups.
    halves: Option<u64>,
    /// All else, which no cluster changes.
    rest: Space,
}

/// The keys of software that a question leaves out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Open {
    graphs: bool,
    dispatcher: bool,
    overlap_experts: bool,
    overlap_tensor: bool,
    pub(crate) recompute: bool,
    pub(crate) offload: bool,
}

impl Open {
    /// `options`, with those that are not open switched off.
    pub(crate) fn of(self, options: Options) -> Options {
        Options {
            graphs: if self.graphs { options.graphs } else { Graphs::None },
            sends_once: self.dispatcher && options.sends_once,
            overlap_experts: self.overlap_experts && options.overlap_experts,
            overlap_tensor: self.overlap_tensor && options.overlap_tensor,
            offload: if self.offload { options.offload } else { Offload::NONE },
        }
    }
}

/// The schedules of a search.
struct Schedules {
    families: Vec<Family>,
    searched: bool,
    published: bool,
}

impl Search {
    /// The values that are tried on `cluster`, with `modules` as a further choice of recomputation.
    pub(crate) fn space(
        &self,
        model: &Transformer,
        cluster: &Cluster,
        modules: Option<Recompute>,
    ) -> Space {
        let group = |kind: &Machine| kind.node.max(kind.domain.min(TENSOR_IN_DOMAIN));
        let node = cluster.parts.iter().map(|(kind, _)| group(kind)).max().unwrap_or(1);
        let devices = cluster.devices();
        let most = model.layers.min(devices).min(MAX_STAGES);
        let divisors = || (1..=most).filter(|stages| devices.is_multiple_of(*stages)).collect();
        let pipeline = self.pipeline.clone().unwrap_or_else(divisors);
        let tensor = self.tensor.clone().unwrap_or_else(|| powers(node));
        let mut space = Space { tensor, pipeline, ..self.rest.clone() };
        space.recompute.extend(modules);
        if let Some(layout) = &self.layout {
            let stages = space.pipeline.iter();
            let mut chunks: Vec<u64> =
                stages.filter_map(|&p| layout.chunks_per_stage(p).ok()).collect();
            chunks.sort_unstable();
            chunks.dedup();
            (space.chunks, space.split) = (chunks, vec![Split::Layout]);
        }
        space
    }

    /// The part of `space` that is tried with context groups of [`Search::halves`], which free memory: what trainers run
    /// and holds least.
    pub(crate) fn in_halves(&self, space: &Space) -> Option<Space> {
        let runs = |family: &Family| matches!(family, Family::OneFOneB | Family::Interleaved);
        Some(Space {
            context: vec![self.halves?],
            microbatch: space.microbatch.iter().copied().min().into_iter().collect(),
            zero: space.zero.iter().copied().take(1).collect(),
            families: space.families.iter().copied().filter(runs).collect(),
            ..space.clone()
        })
    }

    /// Whether `setup` has the chunks of the layout, if there is one.
    pub(crate) fn has_chunks(&self, setup: &Setup) -> bool {
        let is_mirrored = setup.family.about().placement == Placement::Mirrored;
        self.layout.as_ref().is_none_or(|layout| {
            layout.chunks_per_stage(setup.pipeline) == Ok(setup.chunks) && !is_mirrored
        })
    }
}

/// Tokens of a sequence that a device is not asked to share.
const WHOLE_SEQUENCE: u64 = 8192;

/// The context groups that are tried for sequences of this length: powers of two that leave each device
/// [`WHOLE_SEQUENCE`] tokens or more, at most 64.
fn contexts(sequence: u64) -> Vec<u64> {
    powers((sequence / WHOLE_SEQUENCE).clamp(1, 64))
}

/// The context groups that leave each device half of [`WHOLE_SEQUENCE`].
fn halves(sequence: u64) -> Option<u64> {
    let most =
        contexts(sequence).into_iter().max().filter(|most| most * WHOLE_SEQUENCE <= sequence)?;
    Some(2 * most)
}

impl Reader<'_> {
    pub(crate) fn framework(&self) -> Result<Framework, Diagnostic> {
        let Some(name) = self.document.framework.as_deref() else { return Ok(Framework::Any) };
        Framework::named(name).ok_or_else(|| {
            let name: String = name.chars().take(40).collect();
            let message = format!("framework is `{name}`: write megatron, torchtitan or any");
            self.wrong("framework", message)
        })
    }

    /// Whether software is searched, and the keys that the question leaves out.
    pub(crate) fn open(&self, tuning: Option<Tuning>) -> Result<(bool, Open), Diagnostic> {
        let given = &self.document.search.software;
        let searched = match given.as_deref() {
            // Megatron-LM's defaults have none of it.
            None => tuning != Some(Tuning::Stock),
            Some(name) => {
                let known = VALUES.into_iter().find(|(value, _)| *value == name);
                let (_, searched) = known.ok_or_else(|| {
                    let brief: String = name.chars().take(40).collect();
                    let message = format!("software is `{brief}`: write all or as given");
                    self.wrong("search.software", message)
                })?;
                searched
            }
        };
        let training = &self.document.training;
        let streams = training.two_streams.unwrap_or(false);
        let open = Open {
            graphs: training.cuda_graphs.is_none(),
            dispatcher: training.dispatcher.is_none(),
            overlap_experts: training.overlap_experts.is_none() && !streams,
            overlap_tensor: training.overlap_tensor.is_none(),
            recompute: self.document.search.recompute.is_none(),
            // Megatron-LM combines no graph of a whole step with copies.
            offload: training.offload.is_none()
                && training.cuda_graphs.as_deref() != Some(Graphs::Full.name()),
        };
        Ok((searched && self.document.setup.is_none(), open))
    }

    pub(crate) fn search(
        &self,
        model: &Transformer,
        framework: Framework,
    ) -> Result<Search, Diagnostic> {
        let search = &self.document.search;
        let sizes = |key, given, default: fn() -> Vec<u64>| {
            Ok::<_, Diagnostic>(self.sizes_of(key, given)?.unwrap_or_else(default))
        };
        let Schedules { families, searched, published } = self.schedules(framework)?;
        let (split, deals) = self.splits()?;
        let experts = match model.experts {
            Some(experts) => powers(experts.count.min(64)),
            None => vec![1],
        };
        Ok(Search {
            tensor: self.sizes_of("search.tensor", &search.tensor)?,
            pipeline: self.sizes_of("search.pipeline", &search.pipeline)?,
            layout: self.layout(model)?,
            searched,
            published,
            deals,
            halves: halves(model.sequence).filter(|_| search.context.is_none()),
            rest: Space {
                tensor: Vec::new(),
                pipeline: Vec::new(),
                context: self
                    .sizes_of("search.context", &search.context)?
                    .unwrap_or_else(|| contexts(model.sequence)),
                expert: self.sizes_of("search.expert", &search.expert)?.unwrap_or(experts),
                zero: self.zeros()?,
                microbatch: sizes("search.microbatch", &search.microbatch, || powers(8))?,
                chunks: sizes("search.chunks", &search.chunks, || vec![2, 3, 4, 6, 8])?,
                families,
                recompute: self.recomputes(model.attention, framework)?,
                split,
                vocabulary_parallel: self.vocabulary_parallel(framework)?,
            },
        })
    }

    /// How layers are dealt before orders are made, and whether they are dealt together with those that are searched.
    fn splits(&self) -> Result<(Vec<Split>, bool), Diagnostic> {
        let search = &self.document.search;
        let mut all =
            self.named("split", &search.split, &[Split::Searched], |name| match name {
                "even" => Ok(Split::Even),
                "balanced" => Ok(Split::Balanced),
                SPLIT_SEARCHED => Ok(Split::Searched),
                _ => Err(format!("write even, balanced or {SPLIT_SEARCHED}")),
            })?;
        let deals = all.contains(&Split::Searched) && search.layout.is_none();
        // Where orders are published, and where a search begins.
        if deals && !all.contains(&Split::Balanced) {
            all.push(Split::Balanced);
        }
        all.retain(|split| *split != Split::Searched);
        Ok((all, deals))
    }

    /// The layout, if it is one of `model` that set-ups can have.
    fn layout(&self, model: &Transformer) -> Result<Option<LayerLayout>, Diagnostic> {
        let search = &self.document.search;
        let Some(layout) = &search.layout else { return Ok(None) };
        let fail = |message: String| self.wrong("search.layout", message);
        if search.split.is_some() || search.chunks.is_some() {
            let other = if search.split.is_some() { "split" } else { "chunks" };
            let message = format!("layout and {other} exclude each other");
            return Err(fail(message).with_help(format!("a layout says it: take {other} out")));
        }
        self.check_layout("search.layout", layout, model)?;
        let stages = search.pipeline.iter().flatten();
        let mut misfits = stages.filter_map(|&stages| layout.chunks_per_stage(stages).err());
        match misfits.next() {
            Some(misfit) => Err(fail(misfit.to_string())),
            None => Ok(Some(layout.clone())),
        }
    }

    fn vocabulary_parallel(&self, framework: Framework) -> Result<Vec<bool>, Diagnostic> {
        let key = "search.vocabulary-parallel";
        let given = self.document.search.vocabulary_parallel.clone();
        let given = given.unwrap_or_else(|| vec![false]);
        if given.is_empty() {
            return Err(self.wrong(key, "vocabulary-parallel is empty".into()));
        }
        if given.contains(&true) && !framework.has_vocabulary_parallel() {
            let message = format!(
                "vocabulary-parallel is true, but {} has embedding and head on one stage each",
                framework.title()
            );
            return Err(self.wrong(key, message).with_help(any_framework("it")));
        }
        Ok(given)
    }

    fn recomputes(
        &self,
        attention: Attention,
        framework: Framework,
    ) -> Result<Vec<Recompute>, Diagnostic> {
        // Attention in tiles holds no scores: there is nothing to select.
        let default: &[Recompute] = match attention {
            Attention::Core if framework.has_recompute(Recompute::Selective) => &Recompute::ALL,
            _ => &[Recompute::None, Recompute::Full],
        };
        self.named("recompute", &self.document.search.recompute, default, |name| {
            let known = || "write none, selective or full".to_owned();
            let recompute = Recompute::named(name).ok_or_else(known)?;
            match framework.has_recompute(recompute) {
                true => Ok(recompute),
                false => Err(format!("{} recomputes other parts then", framework.title())),
            }
        })
    }

    fn sizes_of(
        &self,
        key: &str,
        given: &Option<Vec<u64>>,
    ) -> Result<Option<Vec<u64>>, Diagnostic> {
        let Some(given) = given else { return Ok(None) };
        let name = key.rsplit('.').next().unwrap_or(key);
        match given.iter().find(|size| !(1..=MAX_DEVICES).contains(*size)) {
            Some(size) => {
                Err(self.wrong(key, format!("{name} has {size}: from 1 to {MAX_DEVICES}")))
            }
            None if given.is_empty() => Err(self.wrong(key, format!("{name} is empty"))),
            None => Ok(Some(given.clone())),
        }
    }

    fn zeros(&self) -> Result<Vec<Zero>, Diagnostic> {
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

    /// The schedules that are tried: those that are named, or the default ones.
    fn schedules(&self, framework: Framework) -> Result<Schedules, Diagnostic> {
        let Some(given) = &self.document.search.schedule else {
            let searched = self.search_fault(framework).is_none();
            return Ok(Schedules {
                families: self.families(framework, &None)?,
                searched,
                published: true,
            });
        };
        let (searched, published): (Vec<String>, Vec<String>) =
            given.iter().cloned().partition(|name| name == SEARCHED);
        if let Some((message, cure)) = self.search_fault(framework).filter(|_| !searched.is_empty())
        {
            return Err(self.wrong("search.schedule", message).with_help(cure));
        }
        let alone = published.is_empty() && !searched.is_empty();
        Ok(Schedules {
            families: match alone {
                true => SCOUTS.to_vec(),
                false => self.families(framework, &Some(published))?,
            },
            searched: !searched.is_empty(),
            published: !alone,
        })
    }

    /// Why no order is searched for set-ups, and a cure; nothing where one may be.
    fn search_fault(&self, framework: Framework) -> Option<(String, &'static str)> {
        if !framework.takes_orders() {
            let message = format!("{} takes no order that is found by search", framework.title());
            return Some((
                message,
                "take zb-auto out, or write framework = \"any\" or \"torchtitan\"",
            ));
        }
        if self.document.training.two_streams.unwrap_or(false) {
            let message = "no order is searched for passes that share two streams".to_owned();
            return Some((message, "take zb-auto out, or two-streams"));
        }
        None
    }

    fn families(
        &self,
        framework: Framework,
        given: &Option<Vec<String>>,
    ) -> Result<Vec<Family>, Diagnostic> {
        let known = default_schedules().into_iter();
        let default: Vec<Family> = known.filter(|&family| framework.has_schedule(family)).collect();
        let mut all = self.named("schedule", given, &default, |name| {
            let unknown = || "write a schedule of `debubble schedules`".to_owned();
            let family = Family::named(name).ok_or_else(unknown)?;
            let about = family.about();
            let segments = matches!(about.choice, Choice::Segments { .. });
            if segments || about.semantics == Semantics::Asynchronous {
                return Err("write one that flushes and leaves microbatches whole".to_owned());
            }
            if !framework.has_schedule(family) {
                let names: Vec<&str> = default.iter().map(|family| family.name()).collect();
                return Err(format!(
                    "{} does not run it; write such as {}, or leave framework out",
                    framework.title(),
                    names.join(", ")
                ));
            }
            Ok(family)
        })?;
        // The one that stands for all where there is one stage comes with whatever is asked.
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
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Vec<T>, Diagnostic> {
        let Some(given) = given else { return Ok(default.to_vec()) };
        let place = format!("search.{key}");
        let all = given.iter().map(|name| {
            read(name).map_err(|cure| {
                let name: String = name.chars().take(40).collect();
                self.wrong(&place, format!("{key} has `{name}`: {cure}"))
            })
        });
        let all: Vec<T> = all.collect::<Result<_, _>>()?;
        if all.is_empty() {
            return Err(self.wrong(&place, format!("{key} is empty")));
        }
        Ok(all)
    }
}

/// How what only some frameworks lack can be had.
fn any_framework(what: &str) -> String {
    format!("leave {what} out, or write framework = \"any\"")
}

/// Powers of two up to `most`.
fn powers(most: u64) -> Vec<u64> {
    (0..32).map(|exponent| 1 << exponent).take_while(|&power| power <= most).collect()
}
