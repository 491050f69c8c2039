//! From keys to problems and schedules: what a setting asks, made whole and checked.

use std::path::Path;

use pipeline::{
    Bytes, Choice, Chunks, Costs, Family, Fault, Footprint, Footprints, LeftOut, Limit, LimitUse,
    Limits, Nanos, PassTimes, Placement, Problem, Schedule, Shape, spread,
};

use crate::error::Error;
use crate::files;
use crate::hardware::{self, Hardware};
use crate::keys::Keys;
use crate::noise::Noise;
use crate::profiles;
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
    if let Some(LeftOut { name, why, .. }) = LeftOut::named(name) {
        return Error::question(format!("{name} is not offered: {why}"));
    }
    let distance = |family: &Family| strsim::damerau_levenshtein(family.name(), name);
    let nearest = Family::ALL.into_iter().min_by_key(distance).map_or("", Family::name);
    Error::question(format!("there is no schedule `{name}`: did you mean `{nearest}`?"))
        .with_help("`debubble schedules` lists all names; a file name needs a `.` or a `/`")
}

/// What stands for every family among the names of schedules.
pub const ALL: &str = "all";

/// A schedule that a setting asks for.
pub struct Selected {
    /// What orders the passes.
    pub rule: Rule,
    /// Whether it is only meant by [`ALL`], and need not be able to do the question.
    pub by_all: bool,
}

/// The schedules a setting names, one by one.
///
/// # Errors
/// If one is unknown or cannot be read, or [`ALL`] is among the names.
pub fn rules(scenario: &Scenario, setting: &Setting) -> Result<Vec<Rule>, Error> {
    let selected = selected(scenario, setting)?;
    if selected.iter().any(|one| one.by_all) {
        let message = "`all` stands for every schedule side by side: name the schedules here";
        let cure = "`debubble simulate` and `debubble sweep` take `all`";
        return Err(scenario.error(setting, Some("schedule"), message.to_owned()).with_help(cure));
    }
    Ok(selected.into_iter().map(|one| one.rule).collect())
}

/// The schedules a setting asks for. Where [`ALL`] stands, every family that is not named by itself
/// follows, in the order of [`Family::ALL`], and no family comes twice.
pub fn selected(scenario: &Scenario, setting: &Setting) -> Result<Vec<Selected>, Error> {
    let names = setting.keys.schedule.as_deref().unwrap_or_default();
    if names.is_empty() {
        let message = "no schedule is named: give --schedule, for example 1f1b,zb-h1,zb-2p, or all";
        return Err(Error::question(message).with_help("`debubble schedules` lists all names"));
    }
    let all = names.iter().any(|name| name == ALL);
    let told: Vec<Family> = names.iter().filter_map(|name| Family::named(name)).collect();
    let mut selected: Vec<Selected> = Vec::new();
    for name in names {
        let rules = match name == ALL {
            true => Family::ALL
                .into_iter()
                .filter(|one| !told.contains(one))
                .map(Rule::Family)
                .collect(),
            false => vec![rule(scenario, setting, name)?],
        };
        for rule in rules {
            let twice =
                |one: &Selected| one.rule.family().is_some() && one.rule.family() == rule.family();
            if !(all && selected.iter().any(twice)) {
                selected.push(Selected { rule, by_all: name == ALL });
            }
        }
    }
    Ok(selected)
}

/// The rule called `name`; what is wrong with it is said where `setting` names it.
fn rule(scenario: &Scenario, setting: &Setting, name: &str) -> Result<Rule, Error> {
    match Rule::named(name) {
        Err(Error::Question { message, help }) => {
            let error = scenario.error(setting, Some("schedule"), message);
            Err(match help {
                Some(help) => error.with_help(help),
                None => error,
            })
        }
        other => other,
    }
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
    /// The memory limits in bytes, if there are any.
    pub limits: Option<Limits>,
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
        let segments = u64::from(self.problem.segments());
        by_stage.into_iter().max().unwrap_or_default() * segments
    }

    /// Microbatches of a step, whole ones.
    pub fn microbatches(&self) -> u32 {
        self.schedule.shape().microbatches() / self.problem.segments()
    }
}

/// All of a case but the order and the noise: what is cheap, whatever the shape.
struct Ground {
    shape: Shape,
    hardware: Option<Hardware>,
    problem: Problem,
    has_footprints: bool,
    limits: Option<Limits>,
    layers_per_stage: Option<u64>,
}

fn ground(scenario: &Scenario, setting: &Setting, rule: &Rule) -> Result<Ground, Error> {
    complete(scenario, setting, rule)?;
    let segments = segments(&setting.keys, rule);
    let (shape, placement) = shape(&setting.keys, rule, segments)
        .map_err(|fault| explain(scenario, setting, rule, &fault))?;
    agree(scenario, setting, rule, shape, segments)?;
    let filled = profiles::fill(scenario, setting, shape)?;
    let setting = filled.as_ref().unwrap_or(setting);
    let keys = &setting.keys;
    let fault = |fault| explain(scenario, setting, rule, &fault);
    let hardware = Hardware::of(scenario, setting, shape, placement, segments)?;
    let hop = keys.hop.or_else(|| hardware.as_ref().map(|one| one.longest_hop(shape, placement)));
    let costs = costs(keys, hop, shape, placement, segments).map_err(fault)?;
    let problem = Problem::new(shape, costs).map_err(fault)?;
    let mut problem = problem.with_segments(segments).map_err(fault)?;
    if let Some(group) = keys.group {
        problem = problem.with_group(group);
    }
    let footprints = footprints(keys, shape, placement, segments).map_err(fault)?;
    let has_footprints = footprints.is_some();
    if let Some(footprints) = footprints {
        problem = problem.with_footprints(footprints).map_err(fault)?;
    }
    if let Some(limits) = &keys.memory_limit {
        problem = problem.with_limits(limits).map_err(fault)?;
    }
    let limits = problem.limits(placement).map_err(fault)?;
    let layers_per_stage = keys.layers_per_stage;
    Ok(Ground { shape, hardware, problem, has_footprints, limits, layers_per_stage })
}

/// How many forwards `rule` has in `setting`; none if it cannot do its shape.
pub fn forwards(setting: &Setting, rule: &Rule) -> u64 {
    let shape = shape(&setting.keys, rule, segments(&setting.keys, rule));
    shape.map_or(0, |(shape, _)| shape.cells() as u64)
}

/// Builds the schedule of `rule` for `setting`.
pub fn case(scenario: &Scenario, setting: &Setting, rule: &Rule) -> Result<Case, Error> {
    let keys = &setting.keys;
    let Ground { shape, hardware, problem, has_footprints, limits, layers_per_stage } =
        ground(scenario, setting, rule)?;
    let schedule = match rule {
        Rule::Family(family) => {
            let schedule = family.schedule(&problem);
            schedule.map_err(|fault| explain(scenario, setting, rule, &fault))?
        }
        Rule::Written(_, schedule) => (**schedule).clone(),
    };
    let noise = Noise::of(scenario, setting, shape, seats(hardware.as_ref(), shape))?;
    Ok(Case {
        setting: setting.name.clone(),
        name: rule.name().to_owned(),
        family: rule.family(),
        layers_per_stage,
        has_whole_bytes: hardware::measures_bytes(keys),
        problem,
        has_footprints,
        schedule,
        limits,
        noise,
        hardware,
    })
}

/// The device of each stage: its own without hardware.
fn seats(hardware: Option<&Hardware>, shape: Shape) -> Vec<usize> {
    let devices = hardware.map(|hardware| hardware.seats.devices().to_vec());
    devices.unwrap_or_else(|| (0..shape.stages()).collect())
}

/// Checks that `rule` has an answer for `setting` as far as can be said at once; orders are only
/// made where they have few passes.
pub fn try_out(scenario: &Scenario, setting: &Setting, rule: &Rule) -> Result<(), Error> {
    const FEW: u64 = 20_000;
    let ground = ground(scenario, setting, rule)?;
    if 3 * ground.shape.cells() as u64 <= FEW {
        return case(scenario, setting, rule).map(drop);
    }
    let devices = seats(ground.hardware.as_ref(), ground.shape);
    Noise::of(scenario, setting, ground.shape, devices).map(drop)
}

/// Checks that `setting` lacks no key that `rule` needs.
pub fn check(scenario: &Scenario, setting: &Setting, rule: &Rule) -> Result<(), Error> {
    complete(scenario, setting, rule)
}

/// Checks that no key is missing, and says all that are at once.
fn complete(scenario: &Scenario, setting: &Setting, rule: &Rule) -> Result<(), Error> {
    let keys = &setting.keys;
    if some_size(keys) && keys.activation.is_some() {
        let message = "activation and hidden, heads, seq exclude each other".to_owned();
        return Err(scenario.error(setting, Some("activation"), message));
    }
    if let (Some(limit), false) = (limit_in_bytes(keys), has_footprints(keys)) {
        let message = format!("a memory limit in bytes, {limit}, needs the sizes of activations");
        let cure = "give --hidden, --heads and --seq, or --activation; or a limit such as 1.5p";
        return Err(scenario.error(setting, Some("memory-limit"), message).with_help(cure));
    }
    let missing = missing(keys, matches!(rule, Rule::Family(_)));
    if missing.is_empty() {
        return Ok(());
    }
    let flags: Vec<String> = missing.iter().map(|key| format!("--{key}")).collect();
    let message = format!("the question is incomplete: {} missing", flags.join(", "));
    let cure = "times carry units, as in --forward 29.718ms; every flag is also a scenario key";
    Err(scenario.error(setting, None, message).with_help(cure))
}

/// The first memory limit that is a number of bytes.
fn limit_in_bytes(keys: &Keys) -> Option<Bytes> {
    keys.memory_limit.iter().flatten().find_map(|limit| match limit {
        Limit::Bytes(bytes) => Some(*bytes),
        Limit::TimesP { .. } => None,
    })
}

fn some_size(keys: &Keys) -> bool {
    [keys.hidden, keys.heads, keys.seq].iter().any(Option::is_some)
}

/// The keys without which the question makes no sense; a written schedule brings its own shape.
fn missing(keys: &Keys, needs_shape: bool) -> Vec<&'static str> {
    let measured = keys.profile.is_some();
    let scale = keys.layers_per_stage.is_some() || keys.microbatch_size.is_some();
    let (sizes, scale) = (!measured && (some_size(keys) || scale), !measured && scale);
    let required = [
        ("stages", needs_shape && keys.stages.is_none()),
        ("microbatches", needs_shape && keys.microbatches.is_none()),
        ("layers", measured && keys.layers.or(keys.layers_per_stage).is_none()),
        ("forward", !measured && keys.forward.is_none()),
        ("backward-input", !measured && keys.backward_input.is_none()),
        ("backward-weight", !measured && keys.backward_weight.is_none()),
        ("hidden", sizes && keys.hidden.is_none()),
        ("heads", sizes && keys.heads.is_none()),
        ("seq", sizes && keys.seq.is_none()),
        ("layers-per-stage", scale && keys.layers_per_stage.is_none()),
        ("microbatch-size", scale && keys.microbatch_size.is_none()),
        ("activation", keys.activation_until_weight.is_some() && keys.activation.is_none()),
    ];
    required.into_iter().filter(|(_, lacks)| *lacks).map(|(key, _)| key).collect()
}

/// How many segments each microbatch is cut into: 1 where the schedule does not cut.
fn segments(keys: &Keys, rule: &Rule) -> u32 {
    let told = keys.segments.map(|told| u32::try_from(told).unwrap_or(u32::MAX));
    match rule.family().map(|family| family.about().choice) {
        Some(Choice::Segments { default }) => told.unwrap_or(default),
        Some(Choice::Nothing | Choice::Group) => 1,
        None => told.unwrap_or(1),
    }
}

/// The shape asked for, with `segments` for each microbatch, and where its chunks lie.
fn shape(keys: &Keys, rule: &Rule, segments: u32) -> Result<(Shape, Placement), Fault> {
    if segments == 0 {
        return Err(Fault::Zero { what: "segments" });
    }
    match rule {
        Rule::Written(_, schedule) => Ok((schedule.shape(), schedule.placement())),
        Rule::Family(family) => {
            let about = family.about();
            let chunks = match about.chunks {
                Chunks::Exactly(chunks) => u64::from(chunks),
                Chunks::Any { default } => keys.chunks.unwrap_or(u64::from(default)),
            };
            let passes = keys.microbatches.unwrap_or(0).saturating_mul(u64::from(segments));
            let shape = Shape::new(keys.stages.unwrap_or(0), chunks, passes)?;
            Ok((shape, about.placement))
        }
    }
}

/// Checks that a written schedule is for the pipeline the keys speak of.
fn agree(
    scenario: &Scenario,
    setting: &Setting,
    rule: &Rule,
    shape: Shape,
    segments: u32,
) -> Result<(), Error> {
    let Rule::Written(name, _) = rule else { return Ok(()) };
    let keys = &setting.keys;
    let passes = shape.microbatches();
    if !passes.is_multiple_of(segments) {
        let message =
            format!("{name} has {passes} microbatches: no multiple of {segments} segments");
        return Err(scenario.error(setting, Some("segments"), message));
    }
    let told = [
        ("stages", keys.stages, shape.stages() as u64),
        ("microbatches", keys.microbatches, u64::from(passes / segments)),
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

/// Times by chunk and segment, from F, B and W; a segment takes its share to the nearest nanosecond.
fn costs(
    keys: &Keys,
    hop: Option<Nanos>,
    shape: Shape,
    placement: Placement,
    segments: u32,
) -> Result<Costs, Fault> {
    let segments = u64::from(segments);
    let nearest = |time: &mut Nanos| *time = Nanos(time.0.saturating_add(segments / 2) / segments);
    let by_chunk = |what, values: &Option<Vec<Nanos>>| {
        let values = values.as_deref().unwrap_or_default();
        let mut times = spread(what, values, shape, |chunk| placement.stage(shape, chunk, 0))?;
        times.iter_mut().for_each(nearest);
        Ok::<_, Fault>(times)
    };
    let f = by_chunk("forward", &keys.forward)?.into_iter();
    let b = by_chunk("backward-input", &keys.backward_input)?;
    let w = by_chunk("backward-weight", &keys.backward_weight)?;
    let times = f.zip(b).zip(w).map(|((forward, backward_input), backward_weight)| PassTimes {
        forward,
        backward_input,
        backward_weight,
    });
    Ok(Costs::new(times.collect(), hop.unwrap_or_default()))
}

/// Footprints by chunk, from the sizes of the model (Zero Bubble, section 2: 34h+5as and 32h per
/// layer and token) or from bytes, each segment its share; `None` if the keys say nothing.
fn footprints(
    keys: &Keys,
    shape: Shape,
    placement: Placement,
    segments: u32,
) -> Result<Option<Footprints>, Fault> {
    let by_chunk = |what, values: &[Bytes]| {
        let mut held = spread(what, values, shape, |chunk| placement.stage(shape, chunk, 0))?;
        held.iter_mut().for_each(|held| *held = Bytes(held.0.div_ceil(u64::from(segments))));
        Ok::<_, Fault>(held)
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
        Fault::TooManyPasses { .. } => Some("microbatches"),
        Fault::Needs { key, .. } => Some(*key),
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
    keys.activation.is_some() || keys.hidden.is_some() || keys.profile.is_some()
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
    if about.placement == Placement::Mirrored && keys.hardware.resident.is_some() {
        notes.push("every stage holds two copies: resident must count both".to_owned());
    }
    match (about.choice, keys.segments) {
        (Choice::Segments { .. }, Some(1)) => {}
        (Choice::Segments { default }, told) => notes.push(format!(
            "microbatches are cut into {} segments, which its passes count as microbatches",
            told.unwrap_or(u64::from(default))
        )),
        (_, Some(told)) => {
            notes.push(format!("microbatches are not cut, segments = {told} is ignored"));
        }
        _ => {}
    }
    if let (false, Some(told)) = (about.choice == Choice::Group, keys.group) {
        notes.push(format!("has no groups to choose, group = {told} is ignored"));
    }
    if let (LimitUse::Own(own), Some(told)) = (about.limit, &keys.memory_limit)
        && told.iter().any(|told| *told != own)
    {
        let told: Vec<String> = told.iter().map(Limit::to_string).collect();
        let told = told.join(",");
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
    if limit_in_bytes(keys).is_some() && !hardware::measures_bytes(keys) {
        let note = "activations are bytes per layer and token, and so is the memory limit: give \
                    --layers-per-stage and --microbatch-size to count whole stages";
        return vec![note.to_owned()];
    }
    Vec::new()
}
