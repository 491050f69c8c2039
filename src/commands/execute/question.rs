//! The cases of a scenario to be run, and how long each takes.

use calibrate::machine;
use executor::{Devices, ModelError};
use pipeline::{Bytes, Footprint, Nanos, Step};
use profile::{AnyProfile, Profile};

use super::busy_stages::{Alone, measured_on};
use super::costs::{replace_costs, scaled};
use super::flags::Execute;
use super::job::{Job, Published, makespan};
use super::recompute;
use super::sizes::Sizes;
use crate::error::Error;
use cases::{Case, ScheduleSource};
use question::keys::{HardwareKeys, Keys};
use question::profiles;
use question::scenario::{Scenario, Setting};
use question::values::hardware::BoundaryKey;
use question::values::passes::Recomputed;
use question::{Context, Warnings};

/// Default number of measured steps.
const STEPS: u32 = 3;

/// The settings that all jobs of a scenario share.
struct Common {
    taken: HardwareKeys,
    rules: Vec<ScheduleSource>,
    has_times: bool,
    sizes: Option<Sizes>,
    neighbours: Option<u64>,
    alone: Option<Alone>,
    /// Bytes of an element of a tensor.
    element_bytes: usize,
}

/// The jobs of `scenario`, in order.
pub fn jobs(
    context: &Context<'_>,
    scenario: &mut Scenario,
    execute: &Execute,
    devices: &dyn Devices,
    notes: &mut Warnings,
) -> Result<Vec<Job>, Error> {
    let mut settings = Vec::new();
    for at in 0..scenario.settings.len() {
        settings.push(common(context, scenario, at, execute, devices)?);
    }
    // Without a key for layers, all models of a command are the same.
    let mut most_chunks = 1;
    for (setting, common) in scenario.settings.iter().zip(&settings) {
        for rule in &common.rules {
            let (shape, _) = cases::shape(scenario, setting, rule)?;
            most_chunks = most_chunks.max(usize::from(shape.chunks()));
        }
    }
    let mut jobs = Vec::new();
    for (setting, common) in scenario.settings.iter().zip(settings) {
        let mut of_setting = Vec::new();
        for rule in &common.rules {
            notes.add_ignored(setting, rule);
            of_setting.push(job(context, scenario, setting, &common, rule, most_chunks)?);
        }
        if !execute.backend().trains() {
            scale(execute, &mut of_setting)?;
        }
        jobs.extend(of_setting);
    }
    Ok(jobs)
}

/// The settings that all jobs of setting `at` of `scenario` share; keys that only they need are
/// taken out of it.
fn common(
    context: &Context<'_>,
    scenario: &mut Scenario,
    at: usize,
    execute: &Execute,
    devices: &dyn Devices,
) -> Result<Common, Error> {
    let trains = execute.backend().trains();
    let taken = take(&mut scenario.settings[at], trains)?;
    let setting = &scenario.settings[at];
    let rules = cases::rules(context, scenario, setting)?;
    let has_times = !trains || setting.keys.forward.is_some() || setting.keys.profile.is_some();
    let (mut sizes, mut neighbours, mut alone) = (None, None, None);
    if trains {
        let profile = profiles::of_machine(context, scenario, setting)?;
        let profile = profile.as_deref().and_then(AnyProfile::machine);
        if let Some(profile) = profile {
            let mut own = setting.clone();
            own.keys.hardware.vocabulary = taken.vocabulary;
            profiles::agree(scenario, &own, profile)?;
            check_machine(profile, execute, devices)?;
            neighbours = Some(profile.machine.neighbours);
        }
        alone = Alone::of(context, execute, profile)?;
        let keys = &mut scenario.settings[at].keys;
        sizes = Some(Sizes::take(keys, taken.vocabulary, profile));
        if profile.is_none() {
            fill_times(keys);
        }
    }
    let element_bytes = usize::try_from(execute.element().bytes()).unwrap_or(usize::MAX);
    Ok(Common { taken, rules, has_times, sizes, neighbours, alone, element_bytes })
}

/// Checks that `profile` was measured on this machine, with the devices of this run: a core, or GPUs or
/// parts of them. Times of another machine say nothing about a run here.
fn check_machine(profile: &Profile, execute: &Execute, devices: &dyn Devices) -> Result<(), Error> {
    let there = &profile.machine;
    let device = match devices.is_named(&there.device) {
        true => there.device.clone(),
        false => devices.name().to_owned(),
    };
    let (cpu, cores) = (machine::cpu(), machine::cores().to_string());
    let element = execute.element().name().to_owned();
    let mut pairs = measured_on(profile).into_iter().zip([cpu, cores, device, element]);
    let Some(((what, there), here)) = pairs.find(|((_, there), here)| there != here) else {
        return Ok(());
    };
    let message = format!(
        "the profile is of another machine: its {what} is {there}, that of this run {here}"
    );
    let cure =
        "measure this machine with `debubble calibrate --pin --out FILE`, and name that file";
    Err(Error::question(message).with_help(cure))
}

fn job(
    context: &Context<'_>,
    scenario: &Scenario,
    setting: &Setting,
    common: &Common,
    rule: &ScheduleSource,
    most_chunks: usize,
) -> Result<Job, Error> {
    let mut own = setting.clone();
    let recomputed = cases::recomputed(scenario, setting, rule)?;
    let model = match common.sizes {
        Some(sizes) => {
            let asked = (scenario, setting, rule);
            Some(fill_sizes(&mut own, asked, common, sizes, &recomputed, most_chunks)?)
        }
        None => None,
    };
    let mut case = cases::case(context, scenario, &own, rule)?;
    let boundary = match (case.steady, common.taken.boundary) {
        (None, given) => given.unwrap_or(BoundaryKey::Barrier),
        (Some(_), None | Some(BoundaryKey::Asynchronous)) => BoundaryKey::Asynchronous,
        (Some(_), Some(_)) => return Err(no_boundary(scenario, setting, rule)),
    };
    if let Some(sizes) = common.sizes {
        case.layers_per_stage = sizes.layers_per_stage;
    }
    let by_busy_stages = match &common.alone {
        Some(alone) => Some(alone.predict(context, scenario, &own, rule, &case)?),
        None => None,
    };
    Ok(Job {
        case,
        by_busy_stages,
        has_times: common.has_times,
        steps: common.taken.steps.unwrap_or(STEPS),
        boundary,
        model,
        recompute: recompute::parts(&recomputed)
            .into_iter()
            .map(Option::unwrap_or_default)
            .collect(),
        published: setting.published.get(rule.name()).map(|rate| Published {
            rate: rate.clone(),
            convention: scenario.convention.get(rule.name()).copied(),
        }),
        seed: setting.keys.seed.unwrap_or(0),
        neighbours: common.neighbours,
    })
}

/// Fills sizes and times into `own`, a copy of the setting that was asked, by the GPT of `sizes`.
fn fill_sizes(
    own: &mut Setting,
    (scenario, setting, rule): (&Scenario, &Setting, &ScheduleSource),
    common: &Common,
    sizes: Sizes,
    recomputed: &[Recomputed],
    most_chunks: usize,
) -> Result<executor::Model, Error> {
    let (shape, placement) = cases::shape(scenario, setting, rule)?;
    let fail = |error: ModelError| {
        let message = format!("{}: {error}", rule.name());
        scenario.error(setting, None, message)
    };
    let trained = sizes.model(shape, most_chunks).map_err(fail)?;
    let held = executor::footprints(trained, shape, common.element_bytes).map_err(fail)?;
    let of = |bytes: fn(Footprint) -> Bytes| {
        Some((0..shape.chunks()).map(|chunk| bytes(held.of(chunk))).collect::<Vec<_>>())
    };
    own.keys.activation = of(|one| one.until_backward);
    own.keys.activation_until_weight = of(|one| one.until_weight);
    if shape.has_shards() {
        fill_shards(&mut own.keys, held.shards(), common.has_times);
    }
    recompute::keep(&mut own.keys, recomputed, trained, common.element_bytes, shape)
        .map_err(fail)?;
    recompute::time(&mut own.keys, recomputed, trained, shape, placement)
        .map_err(|fault| scenario.error(setting, Some("forward"), fault.to_string()))?;
    if own.keys.profile.is_some() {
        own.keys.layers = Some(trained.layers() as u64);
    }
    Ok(trained)
}

/// Takes the keys out of `setting` that ask the simulator for a cluster, but mean something by
/// themselves to a run, on a device that `trains` or not; refuses the others.
fn take(setting: &mut Setting, trains: bool) -> Result<HardwareKeys, Error> {
    let given = std::mem::take(&mut setting.keys.hardware);
    let HardwareKeys { steps, boundary, vocabulary, .. } = given.clone();
    let taken = HardwareKeys { steps, boundary, vocabulary, ..HardwareKeys::default() };
    let known: Vec<&str> = taken.given().collect();
    let keys = &setting.keys;
    let noise = [
        ("slowdown", keys.slowdown.is_some()),
        ("slowdown-profile", keys.slowdown_profile.is_some()),
        ("jitter", keys.jitter.is_some()),
        ("stall", keys.stall.is_some()),
        ("replicas", keys.replicas.is_some()),
    ];
    let noise = noise.into_iter().filter(|(_, given)| *given).map(|(key, _)| key);
    if let (Some(key), true) = (keys.of_unequal_microbatches().next(), trains) {
        let message = format!("--{key}: all microbatches of a run that trains have as many tokens");
        let cure =
            "run it on --device timed or cuda-timed, whose passes take the times of the question";
        return Err(Error::question(message).with_help(cure));
    }
    if let Some(key) = keys.given().find(|key| key.starts_with("chain")) {
        let message =
            format!("--{key} is for `debubble simulate`: a run has one stream per device");
        return Err(Error::question(message));
    }
    if keys.sharding.is_some() {
        let message = "--sharding is for `debubble simulate`: a run of a pipeline has one replica";
        let cure =
            "leave it out of the run, or ask `debubble simulate` what its collectives would add";
        return Err(Error::question(message).with_help(cure));
    }
    if let Some(key) = given.given().filter(|key| !known.contains(key)).chain(noise).next() {
        let message = format!("--{key} is for `debubble simulate`: a run has what it runs on");
        return Err(Error::question(message));
    }
    if matches!(boundary, Some(BoundaryKey::PostValidation(p)) if p > 0.0) {
        let message =
            "post-validation of a run fails where the norm says so, not with a probability";
        return Err(Error::question(message).with_help("write --boundary post-validation"));
    }
    if steps == Some(0) {
        return Err(Error::question("steps must be at least 1"));
    }
    Ok(taken)
}

/// The error of a boundary between steps for a schedule that never flushes.
fn no_boundary(scenario: &Scenario, setting: &Setting, rule: &ScheduleSource) -> Error {
    let message = format!("{}: its stages update while others run", rule.name());
    let cure = "leave --boundary out: there is nothing at which they meet";
    scenario.error(setting, Some("boundary"), message).with_help(cure).into()
}

/// Lets orders be made for equal F, B and W where no times are given.
fn fill_times(keys: &mut Keys) {
    let times = [&mut keys.forward, &mut keys.backward_input, &mut keys.backward_weight];
    if times.iter().all(|times| times.is_none()) {
        times.into_iter().for_each(|times| *times = Some(vec![Nanos(1_000_000)]));
    }
}

/// Sets the memory of the shards of an output layer, and default times where none are given.
fn fill_shards(keys: &mut Keys, held: &[Bytes], has_times: bool) {
    if !has_times && keys.of_vocabulary().next().is_none() {
        // With F, B and W equal, an output layer over all stages is a small part of each.
        let times = Some(vec![Nanos(200_000)]);
        (keys.vocab_s, keys.vocab_t) = (times.clone(), times);
    }
    if keys.of_vocabulary().next().is_some() {
        keys.vocab_activation = Some(held.to_vec());
    }
}

/// Makes the passes of `jobs` as long as they are to take.
fn scale(execute: &Execute, jobs: &mut [Job]) -> Result<(), Error> {
    let scale = match (execute.duration, execute.time_scale) {
        (Some(duration), _) => {
            let mut longest = 1;
            for job in &*jobs {
                longest = longest.max(makespan(&job.case)?.0);
            }
            (u128::from(duration.0), u128::from(longest))
        }
        (None, Some(factor)) => {
            let millionths = (factor * 1e6).round();
            if !(1.0..=1e12).contains(&millionths) {
                let message = format!("--time-scale {factor}: from 0.000001 to 1000000");
                return Err(Error::question(message));
            }
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // In range.
            (millionths as u128, 1_000_000)
        }
        (None, None) => return Ok(()),
    };
    for job in jobs {
        let costs = scaled(job.case.problem.costs(), scale);
        replace_costs(&mut job.case, costs)?;
    }
    Ok(())
}

/// How much longer than asked the passes took, as a share: all of them together.
#[allow(clippy::cast_precision_loss)]
pub fn excess(case: &Case, steps: &[Step]) -> f64 {
    let spans = steps.iter().flat_map(|step| step.stages.iter().flatten());
    let (mut asked, mut took) = (0.0, 0.0);
    for one in spans {
        asked += case.problem.costs().of_slot(one.slot).0 as f64;
        took += (one.end - one.start).0 as f64;
    }
    if asked > 0.0 { took / asked - 1.0 } else { 0.0 }
}
