//! What is to be run: the cases of a scenario, as long as they are to take.

use std::time::Duration;

use executor::Step;
use pipeline::{Costs, Fault, Kind, Nanos, PassTimes, Problem, Schedule};
use sim::Replay;

use super::Execute;
use super::kinds::{DeviceKind, Links};
use crate::commands::Notes;
use crate::error::Error;
use crate::hardware::keys::{BoundaryKey, HardwareKeys};
use crate::keys::Keys;
use crate::outcome::named;
use crate::question::{self, Case};
use crate::scenario::{Scenario, Setting};

/// A case, and what keys mean for a run that mean something else, or nothing, to a simulation.
pub struct Job {
    /// What is run.
    pub case: Case,
    /// Whether the times of passes are given; else what is measured is simulated.
    pub has_times: bool,
    /// How many steps are measured.
    pub steps: u32,
    /// How steps are divided.
    pub boundary: BoundaryKey,
    /// What the model is made of, where one is trained.
    pub keys: Keys,
}

/// Steps measured where nobody says how many.
const STEPS: u32 = 3;

/// How long a stage waits for another where nobody says, in nanoseconds.
const PATIENCE: u64 = 60_000_000_000;

/// What stands in for the keys of a model.
const DEFAULTS: [u64; 4] = [64, 4, 32, 1];

/// The jobs of `scenario`, in order.
pub fn jobs(
    scenario: &mut Scenario,
    execute: &Execute,
    notes: &mut Notes,
) -> Result<Vec<Job>, Error> {
    let mut jobs = Vec::new();
    for at in 0..scenario.settings.len() {
        let setting = &mut scenario.settings[at];
        let taken = take(setting)?;
        let trains = execute.device != DeviceKind::Timed;
        let has_times = setting.keys.forward.is_some();
        let (layers, layers_per_stage) = (setting.keys.layers, setting.keys.layers_per_stage);
        if trains {
            // A question takes layers with a profile only.
            setting.keys.layers = layers.filter(|_| setting.keys.profile.is_some());
            fill_model(&mut setting.keys, layers);
            fill_times(&mut setting.keys);
        }
        let setting = &scenario.settings[at];
        let mut of_setting = Vec::new();
        for rule in question::rules(scenario, setting)? {
            notes.add_ignored(setting, &rule);
            let case = question::case(scenario, setting, &rule)?;
            of_setting.push(Job {
                case,
                has_times: has_times || !trains,
                steps: taken.steps.unwrap_or(STEPS),
                boundary: taken.boundary.unwrap_or(BoundaryKey::Barrier),
                keys: Keys {
                    hardware: taken.clone(),
                    layers,
                    layers_per_stage,
                    ..setting.keys.clone()
                },
            });
        }
        if execute.device == DeviceKind::Timed {
            execute.scale(&mut of_setting)?;
        }
        jobs.extend(of_setting);
    }
    Ok(jobs)
}

/// Takes the keys out of `setting` that ask the simulator for a cluster, but mean something by
/// themselves to a run; refuses the others.
fn take(setting: &mut Setting) -> Result<HardwareKeys, Error> {
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

/// Lets orders be made for equal F, B and W where no times are given.
fn fill_times(keys: &mut Keys) {
    let times = [&mut keys.forward, &mut keys.backward_input, &mut keys.backward_weight];
    if times.iter().all(|times| times.is_none()) {
        times.into_iter().for_each(|times| *times = Some(vec![Nanos(1_000_000)]));
    }
}

/// Gives a model the sizes that nobody gave; memory is counted in whole stages.
fn fill_model(keys: &mut Keys, layers: Option<u64>) {
    let [hidden, heads, seq, size] = DEFAULTS;
    keys.activation = None;
    keys.hidden.get_or_insert(hidden);
    keys.heads.get_or_insert(heads);
    keys.seq.get_or_insert(seq);
    keys.microbatch_size.get_or_insert(size);
    let stages = keys.stages.unwrap_or(1).max(1);
    keys.layers_per_stage.get_or_insert(layers.map_or(1, |layers| layers.div_ceil(stages)));
}

impl Execute {
    /// Refuses what contradicts itself before anything is run.
    pub(super) fn check_flags(&self) -> Result<(), Error> {
        let timed = self.device == DeviceKind::Timed;
        let of_model = [
            ("--data", self.data.is_some()),
            ("--learning-rate", self.learning_rate.is_some()),
            ("--check", self.check.is_some()),
        ];
        let of_clock =
            [("--duration", self.duration.is_some()), ("--time-scale", self.time_scale.is_some())];
        let given = |all: &[(&'static str, bool)]| all.iter().find(|one| one.1).map(|one| one.0);
        if let Some(flag) = given(&of_model).filter(|_| timed) {
            let message = format!("{flag}: the timed device computes nothing");
            return Err(Error::question(message).with_help("add --device cpu"));
        }
        if let Some(flag) = given(&of_clock).filter(|_| !timed) {
            let message = format!("{flag} is for the timed device: passes take what they take");
            return Err(Error::question(message));
        }
        if self.duration == Some(Nanos(0)) {
            return Err(Error::question("--duration must be more than 0"));
        }
        let bad = |value: Option<f64>| value.filter(|one| one.is_nan() || *one < 0.0);
        if let Some(value) = bad(self.fail_above) {
            return Err(Error::question(format!("--fail-above {value}: it must be 0 or more")));
        }
        let of_gpus = [("--element", self.element.is_some()), ("--gpus", !self.gpus.is_empty())];
        if let Some(flag) = given(&of_gpus).filter(|_| self.device != DeviceKind::Cuda) {
            let message = format!("{flag} is for --device cuda: the CPU computes in f32");
            return Err(Error::question(message));
        }
        self.check_links()
    }

    fn check_links(&self) -> Result<(), Error> {
        if self.links != Some(Links::Nccl) {
            return Ok(());
        }
        if self.device != DeviceKind::Cuda {
            let message = "--links nccl: NCCL joins GPUs";
            return Err(Error::question(message).with_help("add --device cuda"));
        }
        if !cfg!(feature = "nccl") {
            let cure = "build it with `cargo build --release --features nccl`, or use --links tcp";
            let message = "--links nccl: this debubble was built without NCCL";
            return Err(Error::question(message).with_help(cure));
        }
        Ok(())
    }

    /// How long a stage of `case` waits for another.
    pub(super) fn patience(&self, case: &Case) -> Result<Duration, Error> {
        let step = match self.device {
            DeviceKind::Timed => makespan(case)?.0.saturating_mul(2),
            DeviceKind::Cpu | DeviceKind::Cuda => 0,
        };
        let told = self.patience.map(|told| told.0);
        Ok(Duration::from_nanos(told.unwrap_or_else(|| step.max(PATIENCE))))
    }

    /// Makes the passes of `jobs` as long as they are to take.
    fn scale(&self, jobs: &mut [Job]) -> Result<(), Error> {
        let scale = match (self.duration, self.time_scale) {
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
}

/// How long a lone step of `case` takes.
pub fn makespan(case: &Case) -> Result<Nanos, Error> {
    let metrics = Replay::new().metrics(&case.schedule, case.problem.costs());
    Ok(metrics.map_err(|fault| named(case, &fault))?.makespan())
}

/// Times that are `by` times as long, a fraction, rounded.
fn scaled(costs: &Costs, by: (u128, u128)) -> Costs {
    let time = |time: Nanos| {
        let scaled = (u128::from(time.0) * by.0 + by.1 / 2) / by.1;
        Nanos(u64::try_from(scaled).unwrap_or(u64::MAX))
    };
    let chunk = |times: &PassTimes| PassTimes {
        forward: time(times.forward),
        backward_input: time(times.backward_input),
        backward_weight: time(times.backward_weight),
    };
    Costs::new(costs.chunks().iter().map(chunk).collect(), time(costs.hop()))
}

/// Gives `case` other costs and leaves its order as it is.
pub fn replace_costs(case: &mut Case, costs: Costs) -> Result<(), Error> {
    let footprints = case.problem.footprints().clone();
    let problem = || -> Result<Problem, Fault> {
        Problem::new(case.schedule.shape(), costs)?.with_footprints(footprints)
    };
    case.problem = problem().map_err(|fault| named(case, &fault))?;
    Ok(())
}

/// What passes take by the medians over `steps`; a BW without any B and W of its chunk is B alone.
/// Values that cross need no time of their own.
pub fn measured_costs(schedule: &Schedule, steps: &[Step]) -> Costs {
    let shape = schedule.shape();
    let mut times: Vec<Vec<u64>> = vec![Vec::new(); Kind::ALL.len() * usize::from(shape.chunks())];
    let slot =
        |kind: Kind, chunk: u16| kind as usize * usize::from(shape.chunks()) + usize::from(chunk);
    for one in steps.iter().flat_map(|step| step.stages.iter().flatten()) {
        let length = (one.end - one.start).0;
        let passes: Vec<_> = one.slot.passes().collect();
        for pass in &passes {
            times[slot(pass.kind, pass.chunk)].push(length / passes.len() as u64);
        }
    }
    let median = |kind, chunk| {
        let mut all = times[slot(kind, chunk)].clone();
        all.sort_unstable();
        all.get(all.len().saturating_sub(1) / 2).copied()
    };
    let chunk = |chunk: u16| {
        let of = |kind| median(kind, chunk).map(Nanos);
        let split = of(Kind::B).zip(of(Kind::W));
        let (backward_input, backward_weight) =
            split.unwrap_or((of(Kind::BW).unwrap_or_default(), Nanos(0)));
        PassTimes { forward: of(Kind::F).unwrap_or_default(), backward_input, backward_weight }
    };
    Costs::new((0..shape.chunks()).map(chunk).collect(), Nanos(0))
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

/// The most chunks of any job.
pub fn most_chunks(jobs: &[Job]) -> usize {
    jobs.iter().map(|job| usize::from(job.case.schedule.shape().chunks())).max().unwrap_or(1)
}
