//! An encoder in front of a language model, as a question asks: schedules, times, and placements.

mod sizes;

use pipeline::{
    Bytes, Choice, Chunks, Costs, Encoder, Family, Fault, Footprint, Footprints, Limit,
    MicrobatchWork, Nanos, PassTimes, Placement, Problem, Semantics, Shape, Vocabulary,
};
use question::diagnostic::Diagnostic;
use question::encoder::{EncoderKeys, EncoderPlacement};
use question::host::Context;
use question::{nearest, quote};
use search::encoder::MAX_ENCODER_OPERATIONS;

use self::sizes::Sizes;

/// The default of stages, of microbatches and of layers of the encoder.
const STAGES: u64 = 8;
const MICROBATCHES: u64 = 32;
const ENCODER_LAYERS: u64 = 24;

/// The most multiples of the default search.
const MAX_EFFORT: u64 = 1000;

/// Passes above which orders made for the durations are left out where no schedule is named.
const FEW_PASSES: u64 = 50_000;

/// A schedule of the question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asked {
    pub family: Family,
    /// Chunks per stage.
    pub chunks: u64,
    /// Whether the question names it.
    pub is_named: bool,
}

/// The times of the language model.
#[derive(Clone, Debug)]
enum Times {
    /// Of a stage and microbatch.
    Stage(PassTimes),
    /// Of each layer, and behind them of the head.
    Layers(Vec<plan::Times>, plan::Times),
}

/// A question, whole and checked.
#[derive(Clone, Debug)]
pub struct EncoderQuestion {
    pub schedules: Vec<Asked>,
    pub encoder: Encoder,
    /// Where it may lie.
    pub placements: Vec<EncoderPlacement>,
    /// Stages of its own, if the question says how many.
    pub own_stages: Option<u16>,
    /// Layers of the language model, if it is cut only between them.
    pub layers: Option<u64>,
    pub stages: u64,
    pub microbatches: u64,
    /// Whether activations were given, so that bytes are known.
    pub has_bytes: bool,
    /// The most that a stage may hold.
    pub limit: Option<Bytes>,
    /// How long to search, in multiples of the default.
    pub effort: u64,
    /// The seed of the search.
    pub seed: u64,
    /// What was assumed, a sentence each.
    pub assumed: Vec<String>,
    times: Times,
    hop: Nanos,
    activation: Bytes,
}

/// Activations of a stage and microbatch where nobody gives any: schedules whose order keeps a limit count them.
const COUNTED: Bytes = Bytes(1 << 30);

fn wrong(key: &str, message: impl Into<String>) -> Diagnostic {
    Diagnostic::new(message).about(key)
}

fn missing(key: &str, cure: &str) -> Diagnostic {
    wrong(key, format!("--{key} is missing")).with_help(cure)
}

/// The question that `keys` ask.
pub fn asked(context: &Context<'_>, keys: &EncoderKeys) -> Result<EncoderQuestion, Diagnostic> {
    let stages = keys.stages.unwrap_or(STAGES);
    let microbatches = keys.microbatches.unwrap_or(MICROBATCHES);
    let shape = |chunks| {
        Shape::new(stages, chunks, microbatches).map_err(|fault| Diagnostic::new(fault.to_string()))
    };
    shape(keys.chunks.unwrap_or(1))?;
    let sizes = Sizes::read(context, keys, stages)?;
    let (times, mut assumed) = times(keys, sizes.as_ref())?;
    let hop = match (keys.hop, &sizes) {
        (Some(hop), _) => hop,
        (None, Some(sizes)) if keys.model.is_some() => sizes.hop(),
        (None, _) => Nanos(0),
    };
    let encoder = encoder(keys, sizes.as_ref(), hop, microbatches)?;
    assumed.extend(sizes.into_iter().flat_map(|sizes| sizes.assumed));
    let schedules = schedules(keys, &shape)?;
    let layers = u64::from(encoder.layers());
    for one in &schedules {
        let operations = 3 * stages.saturating_mul(one.chunks).saturating_mul(microbatches);
        let operations = operations.saturating_add(2 * microbatches.saturating_mul(layers));
        if operations > MAX_ENCODER_OPERATIONS as u64 {
            let operations = usize::try_from(operations).unwrap_or(usize::MAX);
            let fault = Fault::EncoderOperations { operations };
            return Err(wrong("microbatches", fault.to_string()));
        }
    }
    let has_bytes = keys.activation.is_some() || keys.encoder_activation.is_some();
    let uncounted = if has_bytes { Bytes(0) } else { COUNTED };
    Ok(EncoderQuestion {
        schedules,
        encoder,
        placements: keys.placement.clone().unwrap_or_else(|| EncoderPlacement::ALL.to_vec()),
        own_stages: own_stages(keys, stages)?,
        layers: keys.layers,
        stages,
        microbatches,
        has_bytes,
        limit: limit(keys)?,
        effort: effort(keys)?,
        seed: keys.seed.unwrap_or(0),
        assumed,
        times,
        hop,
        activation: keys.activation.unwrap_or(uncounted),
    })
}

/// The memory limit, which needs bytes to be compared with.
fn limit(keys: &EncoderKeys) -> Result<Option<Bytes>, Diagnostic> {
    if keys.memory_limit.is_some() && keys.activation.is_none() {
        return Err(missing("activation", "--memory-limit needs the bytes that stages hold"));
    }
    Ok(keys.memory_limit)
}

fn effort(keys: &EncoderKeys) -> Result<u64, Diagnostic> {
    match keys.effort.unwrap_or(1) {
        effort if effort > MAX_EFFORT => {
            Err(wrong("effort", format!("--effort is {effort}: from 0 to {MAX_EFFORT}")))
        }
        effort => Ok(effort),
    }
}

fn own_stages(keys: &EncoderKeys, stages: u64) -> Result<Option<u16>, Diagnostic> {
    match keys.own_stages {
        Some(own) if own == 0 || own >= stages => Err(wrong(
            "own-stages",
            format!("--own-stages {own} of {stages} stages: both encoder and model need some"),
        )),
        own => Ok(own.map(|own| u16::try_from(own).unwrap_or(u16::MAX))),
    }
}

/// The times of the language model, and what was assumed for them.
fn times(keys: &EncoderKeys, sizes: Option<&Sizes>) -> Result<(Times, Vec<String>), Diagnostic> {
    if let (Some(_), Some(forward)) = (&keys.model, keys.forward) {
        let message = format!("--forward {forward} and --model exclude each other");
        return Err(wrong("forward", message));
    }
    if let Some((layers, head)) = sizes.and_then(Sizes::model) {
        return Ok((Times::Layers(layers, head), Vec::new()));
    }
    let Some(forward) = keys.forward else {
        let cure = "give the forward time of a stage and microbatch, or --model and --machine";
        return Err(missing("forward", cure));
    };
    let mut assumed = Vec::new();
    let backward = keys.backward.unwrap_or_else(|| {
        assumed.push("a backward takes twice as long as a forward".to_owned());
        Nanos(forward.0.saturating_mul(2))
    });
    let weight = keys.weight.unwrap_or(Nanos(backward.0 / 2));
    if weight > backward {
        let message = format!("--weight {weight} is more than the whole --backward {backward}");
        return Err(wrong("weight", message));
    }
    Ok((Times::Stage(PassTimes::new(forward, backward - weight, weight)), assumed))
}

/// The encoder of the question.
fn encoder(
    keys: &EncoderKeys,
    sizes: Option<&Sizes>,
    hop: Nanos,
    microbatches: u64,
) -> Result<Encoder, Diagnostic> {
    let zero = Nanos(0);
    let layers = sizes.and_then(Sizes::encoder_layers).or(keys.encoder_layers);
    let layers = layers.unwrap_or(ENCODER_LAYERS);
    if let (true, Some(backward)) = (keys.frozen_encoder, keys.encoder_backward) {
        let message = format!("--encoder-backward {backward}: a frozen encoder has no backward");
        return Err(wrong("encoder-backward", message));
    }
    let times = match (keys.encoder_forward, sizes.and_then(Sizes::encoder)) {
        (Some(forward), None) => {
            let both = keys.encoder_backward.unwrap_or(Nanos(forward.0.saturating_mul(2)));
            let weight = Nanos(both.0 / 2);
            PassTimes::new(forward, both - weight, weight)
        }
        (None, Some(times)) => times,
        (Some(_), Some(_)) => {
            let message = "--encoder-forward and --encoder-hidden exclude each other";
            return Err(wrong("encoder-forward", message));
        }
        (None, None) => {
            let cure = "give the forward time of a microbatch, or --encoder-hidden and --machine";
            return Err(missing("encoder-forward", cure));
        }
    };
    let times = match keys.frozen_encoder {
        true => PassTimes::new(times.forward, zero, zero),
        false => times,
    };
    let transfer = keys.encoder_transfer.unwrap_or(hop);
    let held = keys.encoder_activation.unwrap_or_default();
    let fault = |key: &'static str| move |fault: Fault| wrong(key, fault.to_string());
    let encoder = Encoder::new(times, layers, transfer, held).map_err(fault("encoder-layers"))?;
    let Some(factors) = &keys.encoder_work else { return Ok(encoder) };
    if factors.len() as u64 != microbatches {
        let given = factors.len();
        let message = format!("--encoder-work has {given} factors for {microbatches} microbatches");
        return Err(wrong("encoder-work", message));
    }
    let work = factors.iter().filter_map(|factor| factor.work()).collect();
    Ok(encoder.with_microbatch_work(MicrobatchWork::new(work)))
}

/// Why `family` has no encoder in front of it, if so.
fn unsuitable(family: Family) -> Option<&'static str> {
    let about = family.about();
    match about {
        _ if about.semantics == Semantics::Asynchronous => Some("it never flushes"),
        _ if about.vocabulary != Vocabulary::Whole => Some("its output layer is in shards"),
        _ if about.placement == Placement::Mirrored => Some("microbatches enter at both ends"),
        _ => match about.choice {
            Choice::Offload => Some("it copies activations to the host"),
            Choice::Segments { .. } => Some("it cuts microbatches"),
            Choice::Nothing | Choice::Group => None,
        },
    }
}

/// The schedules that are compared.
fn schedules(
    keys: &EncoderKeys,
    shape: &dyn Fn(u64) -> Result<Shape, Diagnostic>,
) -> Result<Vec<Asked>, Diagnostic> {
    let asked = |family: Family, is_named| Asked {
        family,
        chunks: family.about().chunks.of(keys.chunks),
        is_named,
    };
    if let Some(names) = &keys.schedule {
        let mut all: Vec<Asked> = Vec::new();
        for name in names {
            let family = Family::named(name).ok_or_else(|| unknown(name))?;
            if let Some(why) = unsuitable(family) {
                let message = format!("{name} cannot have an encoder in front: {why}");
                return Err(wrong("schedule", message));
            }
            let one = asked(family, true);
            shape(one.chunks)?;
            if !all.contains(&one) {
                all.push(one);
            }
        }
        return Ok(all);
    }
    let is_small = |one: &Asked| {
        let cells = shape(one.chunks).map_or(u64::MAX, |shape| 3 * shape.cells() as u64);
        let allows = match one.family.about().chunks {
            Chunks::Exactly(chunks) => keys.chunks.is_none_or(|given| given == u64::from(chunks)),
            Chunks::Any { .. } => true,
        };
        let is_made_for_times = one.family.depends_on_times();
        allows && (cells <= FEW_PASSES || (cells < u64::MAX && !is_made_for_times))
    };
    let all = Family::ALL.into_iter().filter(|&family| unsuitable(family).is_none());
    Ok(all.map(|family| asked(family, false)).filter(is_small).collect())
}

fn unknown(name: &str) -> Diagnostic {
    let suitable = Family::ALL.into_iter().filter(|&family| unsuitable(family).is_none());
    let near = nearest::question(name, suitable.map(Family::name));
    wrong("schedule", format!("there is no schedule `{}`{near}", quote::clip(name)))
        .with_help("`debubble schedules` lists all names")
}

impl EncoderQuestion {
    /// The language model in the chunks of `asked`.
    pub fn problem(&self, asked: Asked) -> Result<Problem, Fault> {
        let shape = Shape::new(self.stages, asked.chunks, self.microbatches)?;
        let chunks = u64::from(shape.chunks());
        let of_chunk = |chunk: u64| match &self.times {
            Times::Stage(times) => {
                let part = |time: Nanos| time.share(chunk / self.stages, asked.chunks);
                PassTimes::new(
                    part(times.forward),
                    part(times.backward_input),
                    part(times.backward_weight),
                )
            }
            Times::Layers(layers, head) => layers_of(layers, *head, [chunk, chunks]),
        };
        let costs = Costs::new((0..chunks).map(of_chunk).collect(), self.hop);
        let held = |chunk: u64| {
            let held = self.activation.share(chunk / self.stages, asked.chunks);
            Footprint { until_backward: held, until_weight: held }
        };
        let footprints = Footprints::new((0..chunks).map(held).collect());
        let problem = Problem::new(shape, costs)?.with_footprints(footprints)?;
        Ok(match self.limit {
            Some(limit) => problem.with_limit(Limit::Bytes(limit)),
            None => problem,
        })
    }
}

/// The times of chunk `chunk` of `chunks`, with the head behind the last one.
fn layers_of(layers: &[plan::Times], head: plan::Times, [chunk, chunks]: [u64; 2]) -> PassTimes {
    let count = layers.len() as u64;
    let at = |chunk: u64| usize::try_from(count * chunk / chunks.max(1)).unwrap_or(usize::MAX);
    let own = layers.get(at(chunk)..at(chunk + 1)).unwrap_or_default();
    let mut all = own.iter().fold(plan::Times::default(), |all, one| all.plus(*one));
    if chunk + 1 == chunks {
        all = all.plus(head);
    }
    let plan::Times { forward, backward_input, backward_weight } = all;
    PassTimes::new(plan::nanos(forward), plan::nanos(backward_input), plan::nanos(backward_weight))
}
