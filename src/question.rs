//! From keys to problems and schedules: what a setting asks, made whole and checked.

use std::path::Path;

use pipeline::{
    Bytes, Chunks, Costs, Family, Fault, Footprint, Footprints, Limit, LimitUse, Nanos, PassTimes,
    Placement, Problem, Schedule, Shape, spread,
};

use crate::error::Error;
use crate::files;
use crate::hardware::{self, Hardware};
use crate::keys::Keys;
use crate::noise::Noise;
use crate::scenario::{Scenario, Setting};

/// The largest schedule file.
const MAX_SCHEDULE: u64 = 2 << 30;

/// What orders the passes: a family, or an order somebody wrote down.
pub enum Rule {
    /// A family.
    Family(Family),
    /// The schedule of a file, and the name of the file.
    Written(String, Box<Schedule>),
}

impl Rule {
    /// The family of that name, or the schedule in that file.
    pub fn named(name: &str) -> Result<Self, Error> {
        if let Some(family) = Family::named(name) {
            return Ok(Self::Family(family));
        }
        let path = Path::new(name);
        if !path.exists() && !name.contains(['/', '.']) {
            return Err(unknown(name));
        }
        let text = files::read_text(path, MAX_SCHEDULE)?;
        let schedule = text.parse().map_err(|fault| Error::question(format!("{name}: {fault}")))?;
        let stem = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        Ok(Self::Written(stem, Box::new(schedule)))
    }

    /// The family, if it is one.
    pub const fn family(&self) -> Option<Family> {
        match self {
            Self::Family(family) => Some(*family),
            Self::Written(..) => None,
        }
    }

    /// What to call it: the name of the family, or of the file without folder and extension.
    pub fn name(&self) -> &str {
        match self {
            Self::Family(family) => family.name(),
            Self::Written(name, _) => name,
        }
    }
}

fn unknown(name: &str) -> Error {
    let distance = |family: &Family| strsim::damerau_levenshtein(family.name(), name);
    let nearest = Family::ALL.into_iter().min_by_key(distance).map_or("", Family::name);
    Error::question(format!("there is no schedule `{name}`: did you mean `{nearest}`?"))
        .with_help("`debubble schedules` lists all names; a file name needs a `.` or a `/`")
}

/// The schedules a setting names.
pub fn rules(scenario: &Scenario, setting: &Setting) -> Result<Vec<Rule>, Error> {
    let names = setting.keys.schedule.as_deref().unwrap_or_default();
    if names.is_empty() {
        let message = "no schedule is named: give --schedule, for example 1f1b,zb-h1,zb-2p";
        return Err(Error::question(message).with_help("`debubble schedules` lists all names"));
    }
    let rule = |name: &String| match Rule::named(name) {
        Err(Error::Question { message, help }) => {
            let error = scenario.error(setting, Some("schedule"), message);
            Err(match help {
                Some(help) => error.with_help(help),
                None => error,
            })
        }
        other => other,
    };
    names.iter().map(rule).collect()
}

/// A schedule with what it was made for.
#[derive(Clone)]
pub struct Case {
    /// Name of the setting, if it has one.
    pub setting: Option<String>,
    /// Name of the schedule.
    pub name: String,
    /// The family that made it, unless it was written by hand.
    pub family: Option<Family>,
    /// Layers of each stage, if the question says.
    pub layers_per_stage: Option<u64>,
    /// Whether the footprints are bytes of whole stages.
    pub has_whole_bytes: bool,
    /// Costs and footprints.
    pub problem: Problem,
    /// Whether the footprints were given, rather than counted as one unit each.
    pub has_footprints: bool,
    /// The order.
    pub schedule: Schedule,
    /// The memory limit in bytes, if there is one.
    pub limit: Option<Bytes>,
    /// How durations differ from the costs, if anything was said of it.
    pub noise: Option<Noise>,
    /// What it runs on, if the question says.
    pub hardware: Option<Hardware>,
}

impl Case {
    /// What one microbatch holds on the stage that holds most: M_B, the unit of limits.
    pub fn microbatch_bytes(&self) -> Bytes {
        let (shape, placement) = (self.schedule.shape(), self.schedule.placement());
        let by_stage = self.problem.footprints().by_stage(shape, placement);
        by_stage.into_iter().max().unwrap_or_default()
    }
}

/// Builds the schedule of `rule` for `setting`.
pub fn case(scenario: &Scenario, setting: &Setting, rule: &Rule) -> Result<Case, Error> {
    let keys = &setting.keys;
    let times = complete(scenario, setting, rule)?;
    let fault = |fault| explain(scenario, setting, rule, &fault);
    let (shape, placement) = shape(keys, rule).map_err(fault)?;
    agree(scenario, setting, rule, shape)?;
    let hardware = Hardware::of(scenario, setting, shape, placement)?;
    let hop = keys.hop.or_else(|| hardware.as_ref().map(|one| one.longest_hop(shape, placement)));
    let costs = costs(times, hop, shape, placement).map_err(fault)?;
    let mut problem = Problem::new(shape, costs).map_err(fault)?;
    let footprints = footprints(keys, shape, placement).map_err(fault)?;
    let has_footprints = footprints.is_some();
    if let Some(footprints) = footprints {
        problem = problem.with_footprints(footprints).map_err(fault)?;
    }
    if let Some(limit) = keys.memory_limit {
        problem = problem.with_limit(limit);
    }
    let limit = problem.limit(placement).map_err(fault)?;
    let schedule = match rule {
        Rule::Family(family) => family.schedule(&problem).map_err(fault)?,
        Rule::Written(_, schedule) => (**schedule).clone(),
    };
    let devices = hardware.as_ref().map(|hardware| hardware.seats.devices().to_vec());
    let devices = devices.unwrap_or_else(|| (0..shape.stages()).collect());
    let noise = Noise::of(scenario, setting, shape, devices)?;
    Ok(Case {
        setting: setting.name.clone(),
        name: rule.name().to_owned(),
        family: rule.family(),
        layers_per_stage: keys.layers_per_stage,
        has_whole_bytes: hardware::measures_bytes(keys),
        problem,
        has_footprints,
        schedule,
        limit,
        noise,
        hardware,
    })
}

/// Checks that `setting` lacks no key that `rule` needs.
pub fn check(scenario: &Scenario, setting: &Setting, rule: &Rule) -> Result<(), Error> {
    complete(scenario, setting, rule).map(|_| ())
}

/// F, B and W as given, once nothing else is missing either; says all that is missing at once.
fn complete<'a>(
    scenario: &Scenario,
    setting: &'a Setting,
    rule: &Rule,
) -> Result<[&'a [Nanos]; 3], Error> {
    let keys = &setting.keys;
    let times = [&keys.forward, &keys.backward_input, &keys.backward_weight].map(Option::as_deref);
    if some_size(keys) && keys.activation.is_some() {
        let message = "activation and hidden, heads, seq exclude each other".to_owned();
        return Err(scenario.error(setting, Some("activation"), message));
    }
    if let (Some(Limit::Bytes(limit)), false) = (keys.memory_limit, has_footprints(keys)) {
        let message = format!("a memory limit in bytes, {limit}, needs the sizes of activations");
        let cure = "give --hidden, --heads and --seq, or --activation; or a limit such as 1.5p";
        return Err(scenario.error(setting, Some("memory-limit"), message).with_help(cure));
    }
    let missing = missing(keys, matches!(rule, Rule::Family(_)));
    if let ([Some(f), Some(b), Some(w)], true) = (times, missing.is_empty()) {
        return Ok([f, b, w]);
    }
    let flags: Vec<String> = missing.iter().map(|key| format!("--{key}")).collect();
    let message = format!("the question is incomplete: {} missing", flags.join(", "));
    let cure = "times carry units, as in --forward 29.718ms; every flag is also a scenario key";
    Err(scenario.error(setting, None, message).with_help(cure))
}

fn some_size(keys: &Keys) -> bool {
    [keys.hidden, keys.heads, keys.seq].iter().any(Option::is_some)
}

/// The keys without which the question makes no sense; a written schedule brings its own shape.
fn missing(keys: &Keys, needs_shape: bool) -> Vec<&'static str> {
    let scale = keys.layers_per_stage.is_some() || keys.microbatch_size.is_some();
    let sizes = some_size(keys) || scale;
    let required = [
        ("stages", needs_shape && keys.stages.is_none()),
        ("microbatches", needs_shape && keys.microbatches.is_none()),
        ("forward", keys.forward.is_none()),
        ("backward-input", keys.backward_input.is_none()),
        ("backward-weight", keys.backward_weight.is_none()),
        ("hidden", sizes && keys.hidden.is_none()),
        ("heads", sizes && keys.heads.is_none()),
        ("seq", sizes && keys.seq.is_none()),
        ("layers-per-stage", scale && keys.layers_per_stage.is_none()),
        ("microbatch-size", scale && keys.microbatch_size.is_none()),
        ("activation", keys.activation_until_weight.is_some() && keys.activation.is_none()),
    ];
    required.into_iter().filter(|(_, lacks)| *lacks).map(|(key, _)| key).collect()
}

/// The shape asked for, and where its chunks lie.
fn shape(keys: &Keys, rule: &Rule) -> Result<(Shape, Placement), Fault> {
    match rule {
        Rule::Written(_, schedule) => Ok((schedule.shape(), schedule.placement())),
        Rule::Family(family) => {
            let about = family.about();
            let chunks = match about.chunks {
                Chunks::Exactly(chunks) => u64::from(chunks),
                Chunks::Any { default } => keys.chunks.unwrap_or(u64::from(default)),
            };
            let (stages, microbatches) = (keys.stages, keys.microbatches);
            let shape = Shape::new(stages.unwrap_or(0), chunks, microbatches.unwrap_or(0))?;
            Ok((shape, about.placement))
        }
    }
}

/// Checks that a written schedule is for the pipeline the keys speak of.
fn agree(scenario: &Scenario, setting: &Setting, rule: &Rule, shape: Shape) -> Result<(), Error> {
    let Rule::Written(name, _) = rule else { return Ok(()) };
    let keys = &setting.keys;
    let told = [
        ("stages", keys.stages, shape.stages() as u64),
        ("microbatches", keys.microbatches, u64::from(shape.microbatches())),
        ("chunks", keys.chunks, u64::from(shape.chunks_per_stage())),
    ];
    for (key, told, has) in told {
        if let Some(told) = told.filter(|&told| told != has) {
            let message = format!("the schedule {name} has {key} = {has}, not {told}");
            return Err(scenario.error(setting, Some(key), message));
        }
    }
    Ok(())
}

/// Times by chunk, from F, B and W as given.
fn costs(
    [f, b, w]: [&[Nanos]; 3],
    hop: Option<Nanos>,
    shape: Shape,
    placement: Placement,
) -> Result<Costs, Fault> {
    let by_chunk = |what, values: &[Nanos]| {
        spread(what, values, shape, |chunk| placement.stage(shape, chunk, 0))
    };
    let f = by_chunk("forward", f)?.into_iter();
    let b = by_chunk("backward-input", b)?;
    let w = by_chunk("backward-weight", w)?;
    let times = f.zip(b).zip(w).map(|((forward, backward_input), backward_weight)| PassTimes {
        forward,
        backward_input,
        backward_weight,
    });
    Ok(Costs::new(times.collect(), hop.unwrap_or_default()))
}

/// Footprints by chunk, from the sizes of the model (Zero Bubble, section 2: 34h+5as and 32h per
/// layer and token) or from bytes; `None` if the keys say nothing.
fn footprints(
    keys: &Keys,
    shape: Shape,
    placement: Placement,
) -> Result<Option<Footprints>, Fault> {
    let by_chunk = |what, values: &[Bytes]| {
        spread(what, values, shape, |chunk| placement.stage(shape, chunk, 0))
    };
    let (until_backward, until_weight) = match (&keys.activation, keys.hidden) {
        (Some(activation), _) => {
            let until_weight = keys.activation_until_weight.as_ref().unwrap_or(activation);
            (
                by_chunk("activation", activation)?,
                by_chunk("activation-until-weight", until_weight)?,
            )
        }
        (None, Some(hidden)) => {
            let [until_backward, until_weight] = model_footprint(keys, hidden)?;
            (by_chunk("hidden", &[until_backward])?, by_chunk("hidden", &[until_weight])?)
        }
        (None, None) => return Ok(None),
    };
    let pair = |(until_backward, until_weight)| Footprint { until_backward, until_weight };
    Ok(Some(Footprints::new(until_backward.into_iter().zip(until_weight).map(pair).collect())))
}

/// M_B and M_W of one stage and microbatch, or of one layer and token if neither layers nor
/// microbatch size are given.
fn model_footprint(keys: &Keys, hidden: u64) -> Result<[Bytes; 2], Fault> {
    let (hidden, heads) = (u128::from(hidden), u128::from(keys.heads.unwrap_or(0)));
    let seq = u128::from(keys.seq.unwrap_or(0));
    let tokens = match (keys.layers_per_stage, keys.microbatch_size) {
        (Some(layers), Some(size)) => {
            u128::from(layers).saturating_mul(u128::from(size)).saturating_mul(seq)
        }
        _ => 1,
    };
    let attention = heads.saturating_mul(seq).saturating_mul(5);
    let per_token = [(34 * hidden).saturating_add(attention), 32 * hidden];
    let bytes = per_token.map(|bytes| u64::try_from(bytes.saturating_mul(tokens)));
    match bytes {
        [Ok(until_backward), Ok(until_weight)] => Ok([Bytes(until_backward), Bytes(until_weight)]),
        _ => Err(Fault::Overflow { what: "the activations" }),
    }
}

/// Turns a fault into an error at the key that is to blame.
fn explain(scenario: &Scenario, setting: &Setting, rule: &Rule, fault: &Fault) -> Error {
    let key = match fault {
        Fault::Zero { what: "chunks per stage" } => Some("chunks"),
        Fault::Zero { what } | Fault::ValueCount { what, .. } => Some(*what),
        Fault::TooManyChunks { .. } => Some("stages"),
        Fault::TooManyPasses { .. } | Fault::Needs { .. } => Some("microbatches"),
        Fault::BelowOneMicrobatch { .. } | Fault::Infeasible { .. } => Some("memory-limit"),
        _ => None,
    };
    let amount = |bytes: &Bytes| match has_footprints(&setting.keys) {
        true => bytes.to_string(),
        false => format!("{} chunk activations", bytes.0),
    };
    let name = rule.name();
    let message = match fault {
        Fault::BelowOneMicrobatch { stage, needs, limit } => format!(
            "{name}: the memory limit is {}, but one microbatch alone takes {} on stage {stage}",
            amount(limit),
            amount(needs)
        ),
        Fault::Infeasible { stage, pass, needs, limit, .. } => format!(
            "{name} finds no order under the memory limit: stage {stage} would need {} to run \
             {pass}, but the limit is {}",
            amount(needs),
            amount(limit)
        ),
        Fault::Needs { .. } | Fault::Zero { .. } => fault.to_string(),
        _ => format!("{name}: {fault}"),
    };
    let error = scenario.error(setting, key, message);
    match fault {
        Fault::BelowOneMicrobatch { needs, .. } => {
            error.with_help(format!("the limit must be at least {}", amount(needs)))
        }
        _ => error,
    }
}

fn has_footprints(keys: &Keys) -> bool {
    keys.activation.is_some() || keys.hidden.is_some()
}

/// Whether the order that `family` makes depends on how long passes take.
pub fn depends_on_times(family: Family) -> bool {
    family.depends_on_times()
}

/// Lets `setting` do without times if no order it asks for depends on them.
pub fn allow_without_times(setting: &mut Setting) {
    let names = setting.keys.schedule.iter().flatten();
    let fixed = |name: &String| match Family::named(name) {
        Some(family) => !depends_on_times(family),
        None => true,
    };
    if names.clone().all(fixed) {
        let keys = &mut setting.keys;
        for times in [&mut keys.forward, &mut keys.backward_input, &mut keys.backward_weight] {
            times.get_or_insert_with(|| vec![Nanos(1)]);
        }
    }
}

/// What of `setting` has no influence on `rule`, or is settled by it, in words.
pub fn ignored(setting: &Setting, rule: &Rule) -> Vec<String> {
    let Rule::Family(family) = rule else { return Vec::new() };
    let (about, keys) = (family.about(), &setting.keys);
    let mut notes = Vec::new();
    match (about.chunks, keys.chunks) {
        (Chunks::Exactly(own), Some(told)) if told != u64::from(own) => {
            let s = if own == 1 { "" } else { "s" };
            notes.push(format!("always {own} chunk{s} per stage, chunks = {told} is ignored"));
        }
        (Chunks::Any { default }, None) => {
            notes.push(format!("{default} chunks per stage, since chunks are not given"));
        }
        _ => {}
    }
    if let (LimitUse::Own(own), Some(told)) = (about.limit, keys.memory_limit)
        && own != told
    {
        notes.push(format!("made for a memory limit of {own}, {told} is only checked"));
    }
    notes
}

/// What is taken for granted where the keys of `setting` leave it open, in words.
pub fn assumed(setting: &Setting) -> Vec<String> {
    let keys = &setting.keys;
    if !has_footprints(keys) {
        let note = "no activation sizes are given (--hidden --heads --seq, or --activation): \
                    memory is counted in chunk activations, each held whole until its W";
        return vec![note.to_owned()];
    }
    let bytes_limit = matches!(keys.memory_limit, Some(Limit::Bytes(_)));
    if bytes_limit && keys.activation.is_none() && keys.layers_per_stage.is_none() {
        let note = "activations are bytes per layer and token, and so is the memory limit: give \
                    --layers-per-stage and --microbatch-size to count whole stages";
        return vec![note.to_owned()];
    }
    Vec::new()
}
