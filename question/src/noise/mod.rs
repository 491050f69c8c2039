//! Noise as a question asks for it: from keys to stragglers, and what came of many replicas.

pub mod syntax;
pub mod tables;

use std::sync::{Mutex, PoisonError};

use pipeline::{Costs, Fault, Metrics, Nanos, Schedule, Shape};
use sim::monte_carlo::{self, MonteCarlo};
use sim::straggler::{Jitter, NoiseSample, NoisyDurations, Stragglers, Target};
use sim::timed;

use crate::case::{Case, SEARCHED};
use crate::diagnostic::Diagnostic;
use crate::host::Context;
use crate::keys::Keys;
use crate::scenario::{Scenario, Setting};
use syntax::{Jittered, Law};
use tables::Profiles;

/// The noise of a setting.
#[derive(Clone)]
pub struct Noise {
    stragglers: Stragglers,
    /// How many replicas were asked for.
    pub replicas: Option<u64>,
}

impl Noise {
    /// The noise that `setting` asks for over a pipeline of `shape`, if it asks for any.
    ///
    /// `devices` says which device each stage sits on.
    pub fn of(
        context: &Context<'_>,
        scenario: &Scenario,
        setting: &Setting,
        shape: Shape,
        devices: Vec<usize>,
    ) -> Result<Option<Self>, Diagnostic> {
        let keys = &setting.keys;
        if !is_given(keys) {
            return Ok(None);
        }
        let fail = |key, message| scenario.error(setting, Some(key), message);
        let mut stragglers = Stragglers::on_devices(devices, keys.seed.unwrap_or(0));
        for slowdown in keys.slowdown.iter().flatten() {
            let slowed = stragglers.slow(slowdown.target, slowdown.factor);
            slowed.map_err(|error| fail("slowdown", error.to_string()))?;
        }
        if let Some(path) = &keys.slowdown_profile {
            add_profiles(&mut stragglers, &Profiles::read(context, path)?, shape)?;
        }
        if let Some(twice) = jittered_twice(keys) {
            return Err(fail("jitter", format!("{twice} has two jitters")));
        }
        add_jitters(context, &mut stragglers, keys)?;
        if let Some(stall) = keys.stall {
            let stalled = stragglers.stall(stall.probability, stall.length);
            stalled.map_err(|error| fail("stall", error.to_string()))?;
        }
        let replicas = keys.replicas;
        if let Some(count) = replicas {
            monte_carlo::check(count).map_err(|error| fail("replicas", error.to_string()))?;
        }
        Ok(Some(Self { stragglers, replicas }))
    }

    /// The durations that the engine uses in `replica`.
    pub fn durations<'a>(&'a self, replica: u64, costs: &'a Costs) -> NoisyDurations<'a> {
        self.stragglers.durations(replica, costs)
    }

    /// The noise of `replica`.
    pub fn sample(&self, replica: u64) -> NoiseSample<'_> {
        self.stragglers.sample(replica, 0)
    }
}

/// Checks that the files that `keys` name can be read.
pub fn check_files(context: &Context<'_>, keys: &Keys) -> Result<(), Diagnostic> {
    if let Some(path) = &keys.slowdown_profile {
        Profiles::read(context, path)?;
    }
    let mut samples = keys.jitter.iter().flatten().filter_map(|jitter| jitter.law.file());
    samples.try_for_each(|path| tables::samples(context, path).map(|_| ()))
}

/// The keys that ask for noise.
pub const KEYS: [&str; 6] = ["slowdown", "slowdown-profile", "jitter", "stall", "seed", "replicas"];

fn is_given(keys: &Keys) -> bool {
    keys.given().any(|key| KEYS.contains(&key))
}

fn jittered_twice(keys: &Keys) -> Option<&'static str> {
    let jitters = || keys.jitter.iter().flatten();
    let count = |what| jitters().filter(|jitter| jitter.what == what).count();
    let both = [("pass", Jittered::Pass), ("hop", Jittered::Hop)];
    both.into_iter().find(|&(_, what)| count(what) > 1).map(|(name, _)| name)
}

/// The distribution that `law` names; reads its samples.
pub fn law(context: &Context<'_>, law: &Law) -> Result<Jitter, Diagnostic> {
    match law {
        Law::Known(law) => Ok(law.clone()),
        Law::Samples(path) => tables::samples(context, path),
    }
}

fn add_jitters(
    context: &Context<'_>,
    stragglers: &mut Stragglers,
    keys: &Keys,
) -> Result<(), Diagnostic> {
    for jitter in keys.jitter.iter().flatten() {
        let law = law(context, &jitter.law)?;
        match jitter.what {
            Jittered::Pass => stragglers.jitter_passes(law),
            Jittered::Hop => stragglers.jitter_hops(law),
        }
    }
    Ok(())
}

fn add_profiles(
    stragglers: &mut Stragglers,
    profiles: &Profiles<'_>,
    shape: Shape,
) -> Result<(), Diagnostic> {
    for series in &profiles.series {
        let all = (0..shape.stages()).map(Target::Stage);
        let targets = series.target.map_or_else(|| all.collect(), |target| vec![target]);
        for target in targets {
            let slowed = stragglers.slow_over_time(target, &series.profile);
            slowed.map_err(|error| profiles.error(series, error.to_string()))?;
        }
    }
    Ok(())
}

/// Times `case` in `replica`, where no links are shared.
///
/// # Errors
/// If the clock overflows.
pub fn metrics(case: &Case, noise: &Noise, replica: u64) -> Result<Metrics, Fault> {
    let timing = noise.sample(replica).timing(case.problem.costs());
    let Some(steady) = case.steady else {
        let metrics = timed::metrics(&case.schedule, &timing);
        within_clock(metrics.makespan())?;
        return Ok(metrics);
    };
    let timeline = timed::timeline(&case.schedule, &timing);
    within_clock(Metrics::of(&timeline).makespan())?;
    Ok(steady.metrics(case.schedule.shape(), &timeline))
}

/// Runs `count` replicas, timed by `metrics`, or as many as there are when `stop` says so; `done` is
/// called after each.
///
/// # Errors
/// That of the first replica in number that has one.
pub fn replicas(
    count: u64,
    metrics: impl Fn(u64) -> Result<Metrics, Diagnostic> + Sync,
    done: impl Fn() + Sync,
    stop: impl Fn() -> bool + Sync,
) -> Result<MonteCarlo, Diagnostic> {
    let failed: Mutex<Option<(u64, Diagnostic)>> = Mutex::new(None);
    let result = monte_carlo::run_until(count, stop, |replica| {
        let metrics = metrics(replica).unwrap_or_else(|error| {
            let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
            if failed.as_ref().is_none_or(|(first, _)| replica < *first) {
                *failed = Some((replica, error));
            }
            Metrics { stages: Vec::new() }
        });
        done();
        metrics
    });
    match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some((_, error)) => Err(error),
        None => result.map_err(|error| Diagnostic::new(error.to_string())),
    }
}

/// A clock that stands still at its end tells no time.
fn within_clock(makespan: Nanos) -> Result<(), Fault> {
    if makespan.0 == u64::MAX { Err(Fault::Overflow { what: "the times" }) } else { Ok(()) }
}

/// The noise keys of `setting` that have no influence, in words.
pub fn ignored(setting: &Setting) -> Vec<String> {
    let keys = &setting.keys;
    let mut notes = Vec::new();
    if keys.jitter.is_none() && keys.stall.is_none() {
        let searched = |names: &Vec<String>| names.iter().any(|name| name == SEARCHED);
        if keys.seed.is_some() && !keys.schedule.as_ref().is_some_and(searched) {
            notes.push("nothing is random (--jitter, --stall): the seed is ignored".to_owned());
        }
        if keys.replicas.is_some() {
            let note = "nothing is random (--jitter, --stall): all replicas are alike";
            notes.push(note.to_owned());
        }
    }
    let of_hops = keys.jitter.iter().flatten().any(|jitter| jitter.what == Jittered::Hop);
    let links = keys.slowdown.iter().flatten();
    let slow_link = links.into_iter().any(|slow| matches!(slow.target, Target::Link(..)));
    let no_hop = keys.hop.unwrap_or_default() == Nanos(0) && keys.profile.is_none();
    if no_hop && (of_hops || slow_link) {
        notes.push("hops take no time (--hop): noise on links is ignored".to_owned());
    }
    notes
}

/// The slowed links of `setting` over which `schedule` sends nothing, in words.
pub fn idle_links(setting: &Setting, schedule: &Schedule) -> Vec<String> {
    let (shape, placement) = (schedule.shape(), schedule.placement());
    let crossed = |from, to| {
        (1..shape.chunks()).any(|chunk| {
            [0, shape.microbatches() - 1].into_iter().any(|microbatch| {
                let stage = |chunk| placement.stage(shape, chunk, microbatch);
                let ends = (stage(chunk - 1), stage(chunk));
                ends == (from, to) || ends == (to, from)
            })
        })
    };
    let idle = |target| match target {
        Target::Link(from, to) if !crossed(from, to) => {
            Some(format!("sends nothing over {target}: its slowdown is ignored"))
        }
        _ => None,
    };
    setting.keys.slowdown.iter().flatten().filter_map(|slow| idle(slow.target)).collect()
}
