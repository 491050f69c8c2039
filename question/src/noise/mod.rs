//! Noise as a question asks for it: from keys to stragglers.

pub mod tables;

use pipeline::{Nanos, Schedule, Shape};
use sim::monte_carlo;
use sim::straggler::{Jitter, Stragglers, Target};

use crate::diagnostic::Diagnostic;
use crate::host::Context;
use crate::keys::Keys;
use crate::scenario::{Scenario, Setting};
use crate::source::SEARCHED;
use crate::values::noise::{Jittered, Law};
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

    /// How durations differ from the costs.
    pub const fn stragglers(&self) -> &Stragglers {
        &self.stragglers
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

/// Whether `keys` ask for noise.
pub fn is_given(keys: &Keys) -> bool {
    // A seed may be that of lengths alone.
    let of_noise =
        |key: &&str| KEYS.contains(key) && (*key != "seed" || keys.microbatch_lengths.is_none());
    keys.given().any(|key| of_noise(&key))
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

/// The noise keys of `setting` that have no influence, in words.
pub fn ignored(setting: &Setting) -> Vec<String> {
    let keys = &setting.keys;
    let mut notes = Vec::new();
    if keys.jitter.is_none() && keys.stall.is_none() {
        let searched = |names: &Vec<String>| names.iter().any(|name| name == SEARCHED);
        let drawn = keys.microbatch_lengths.is_some();
        if keys.seed.is_some() && !drawn && !keys.schedule.as_ref().is_some_and(searched) {
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
    let takes_none = keys.hop.iter().flatten().all(|&hop| hop == Nanos(0));
    let no_hop = takes_none && keys.profile.is_none();
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
