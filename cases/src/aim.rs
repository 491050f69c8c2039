//! The objective of a search, and its demands on a question: noise or none, replicas, hardware.

use search::{Figure, Objective, SearchError, Statistic};
use sim::SimulationError;
use sim::engine::EngineError;

use question::diagnostic::Diagnostic;
use question::hardware::COPYING;
use question::scenario::{Scenario, Setting};
use question::values::hardware::BoundaryKey;

/// The default number of replicas in which orders are evaluated.
pub const REPLICAS: u64 = 1000;
/// The most replicas in which they are evaluated: the times of a few orders in all of them are kept.
const MOST_REPLICAS: u64 = 1_000_000;

/// Keys of noise, which change what every order costs.
const CHANGING: [&str; 5] = ["slowdown", "slowdown-profile", "jitter", "stall", "replicas"];

/// The remedy for a key that a search does not take.
const LEAVE_OUT: &str = "leave it out, and simulate what is found with it: --export best.txt, then \
     `debubble simulate --schedule best.txt`";

/// The objective of a search.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Aim {
    /// A time of one step where no link is shared.
    Cost(Objective),
    /// A statistic of the step under noise, where no link is shared.
    Statistic(Statistic),
    /// A figure of a run on the hardware.
    Figure(Figure),
}

/// Checks that `setting` has no noise, which a time without noise leaves out.
pub fn check_noise_free(scenario: &Scenario, setting: &Setting) -> Result<(), Diagnostic> {
    let Some(key) = setting.keys.given().find(|key| CHANGING.contains(key)) else { return Ok(()) };
    let message =
        format!("a search for a time without noise knows none: {key} cannot be taken into account");
    let cure = format!(
        "{LEAVE_OUT}; unequal stages have a time each, as in --forward 10ms,12ms; or search under noise, by \
         --objective mean, p95 or p99"
    );
    Err(scenario.error(setting, Some(key), message).with_help(cure))
}

/// The time of a step of `setting`: by default stages do not wait for each other between steps.
#[must_use]
pub fn objective_under_noise(setting: &Setting) -> Objective {
    match setting.keys.hardware.boundary {
        Some(BoundaryKey::Barrier) => Objective::Makespan,
        _ => Objective::Span,
    }
}

/// Checks that `setting` has noise, and enough replicas for `statistic`.
pub fn check_under_noise(
    scenario: &Scenario,
    setting: &Setting,
    statistic: Statistic,
) -> Result<(), Diagnostic> {
    let keys = &setting.keys;
    let noisy = [
        keys.jitter.is_some(),
        keys.stall.is_some(),
        keys.slowdown.is_some(),
        keys.slowdown_profile.is_some(),
    ];
    if !noisy.contains(&true) {
        return Err(nothing_noisy(scenario, setting, statistic));
    }
    check_replicas(scenario, setting, statistic)
}

/// Checks that a percentile rests on replicas that lie beyond it, and that all fit into memory.
fn check_replicas(
    scenario: &Scenario,
    setting: &Setting,
    statistic: Statistic,
) -> Result<(), Diagnostic> {
    let replicas = setting.keys.replicas.unwrap_or(REPLICAS);
    let (fewest, name) = (statistic.fewest(), name(statistic));
    if replicas < fewest {
        let message =
            format!("{name} cannot be estimated from {replicas} replicas: at least {fewest}");
        let cure = format!("leave out --replicas, which gives {REPLICAS}, or ask for more");
        return Err(scenario.error(setting, Some("replicas"), message).with_help(cure));
    }
    if replicas > MOST_REPLICAS {
        let message =
            format!("{replicas} replicas are too many to judge orders in: at most {MOST_REPLICAS}");
        let cure = format!("leave out --replicas, which gives {REPLICAS}");
        return Err(scenario.error(setting, Some("replicas"), message).with_help(cure));
    }
    Ok(())
}

/// The error of a statistic of a question without noise.
pub(super) fn nothing_noisy(
    scenario: &Scenario,
    setting: &Setting,
    statistic: Statistic,
) -> Diagnostic {
    let message =
        format!("the objective {} is one under noise, but the question has none", name(statistic));
    let cure = "write jitter, as in --jitter pass=lognormal:0.05, or --stall 0.001:50ms, or \
                --slowdown stage:3=1.2; without noise ask for --objective span or makespan";
    scenario.error(setting, None, message).with_help(cure)
}

/// `statistic` as the key writes it.
const fn name(statistic: Statistic) -> &'static str {
    match statistic {
        Statistic::Mean => "mean",
        Statistic::P95 => "p95",
        Statistic::P99 => "p99",
    }
}

/// Whether `error` is that every order gets stuck.
pub(super) const fn is_stuck(error: &SearchError) -> bool {
    matches!(error, SearchError::OnHardware(SimulationError::Engine(EngineError::Stuck(_))))
}

/// Whether `setting` has a hardware key, other than those of copies to the host and of shards of the vocabulary.
#[must_use]
pub fn is_on_hardware(setting: &Setting) -> bool {
    let keys = &setting.keys;
    let of_shards = keys.vocab_tflops.is_some();
    let says_nothing = |key: &str| COPYING.contains(&key) || (of_shards && key == "vocabulary");
    keys.hardware.given().any(|key| !says_nothing(key))
}

/// The error of a figure that only a run on hardware has.
pub(super) fn needs_hardware() -> Diagnostic {
    let message =
        "the objective step is the time per step of a run on hardware, and the question has none";
    let cure =
        "give --cluster, or --steps and --boundary; or ask for --objective span, or makespan";
    Diagnostic::new(message).with_help(cure)
}

/// Checks that `setting` has hardware if `figure` is one of a run on it alone.
pub fn check_figure(setting: &Setting, figure: Option<Figure>) -> Result<(), Diagnostic> {
    match figure {
        Some(Figure::Step) if !is_on_hardware(setting) => Err(needs_hardware()),
        _ => Ok(()),
    }
}
