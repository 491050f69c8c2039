//! Limits of a browser: smaller than those of the library on a machine of its own.

use cases::ScheduleSource;
use question::encoder::EncoderKeys;
use question::failures::FailureKeys;
use question::fsdp::FsdpSetting;
use question::rl::RlKeys;
use question::scenario::Scenario;
use question::{Context, Diagnostic};

/// The most bytes of a file. The page, its worker and a parser each hold it once.
pub(crate) const MOST_BYTES: u64 = 64 << 20;
/// The most passes of an order that is searched or written down.
const MOST_PASSES: u64 = 300_000;
/// The most samples that are packed for each device between two looks at whether to stop: packing takes the square of
/// their number.
const MOST_SAMPLES: u64 = 2_048;
/// The most such samples of all devices, times the devices that each may go to.
const MOST_PAIRS: u64 = 4_000_000;
/// The most responses that are generated between two such looks.
const MOST_RESPONSES: u64 = 1_000_000;
/// The most layers of a minibatch that are drawn.
const MOST_LAYERS: u64 = 40_000;
/// The most passes of all data-parallel pipelines whose step is rerouted.
const MOST_REROUTED: u64 = 100_000;
/// The same times the sets of dead workers.
const MOST_IN_SETS: u64 = 10_000_000;
/// Cure for a question beyond a limit of the page.
const ELSEWHERE: &str = "ask `debubble` on the command line";

/// Refuses the file `name` of `bytes` bytes, if it is too large to be read here.
///
/// # Errors
/// If it is.
pub(crate) fn check_file(name: &str, bytes: u64) -> Result<(), Diagnostic> {
    if bytes <= MOST_BYTES {
        return Ok(());
    }
    let [size, most] = [bytes.div_ceil(1 << 20), MOST_BYTES >> 20];
    let name = question::quote::clip(name);
    let message = format!("{name} has {size} MiB: this page reads at most {most} MiB of a file");
    Err(Diagnostic::new(message).with_help("give it to `debubble` on the command line"))
}

/// Refuses `scenario` if `rule` makes more passes of one of its settings than can be searched or written here.
///
/// # Errors
/// If it does.
pub(crate) fn check_passes(scenario: &Scenario, rule: &ScheduleSource) -> Result<(), Diagnostic> {
    let passes = scenario.settings.iter().map(|one| cases::forwards(one, rule).saturating_mul(3));
    check_count(passes.max().unwrap_or(0))
}

/// The same for all schedules that `scenario` names.
///
/// # Errors
/// If there are too many passes, or a schedule cannot be had.
pub(crate) fn check_schedules(
    context: &Context<'_>,
    scenario: &Scenario,
) -> Result<(), Diagnostic> {
    for setting in &scenario.settings {
        for rule in cases::rules(context, scenario, setting)? {
            check_count(cases::forwards(setting, &rule).saturating_mul(3))?;
        }
    }
    Ok(())
}

fn check_count(passes: u64) -> Result<(), Diagnostic> {
    if passes <= MOST_PASSES {
        return Ok(());
    }
    let message = format!("{passes} passes are too many for this: at most {MOST_PASSES} on a page");
    Err(Diagnostic::new(message).with_help(ELSEWHERE))
}

/// Refuses minibatches of `settings` that take too long one by one.
///
/// # Errors
/// If there are such, or too many of them.
pub(crate) fn check_packing(settings: &[FsdpSetting], minibatches: u64) -> Result<(), Diagnostic> {
    for setting in settings {
        check_samples(setting.minibatch_size, setting.devices as u64, "minibatch-size")?;
    }
    let all = minibatches.saturating_mul(settings.len() as u64);
    if all <= MOST_RESPONSES {
        return Ok(());
    }
    let message = format!("{all} minibatches in all: at most {MOST_RESPONSES} on a page");
    Err(Diagnostic::new(message).with_help(ELSEWHERE).about("minibatches"))
}

/// Refuses steps of `keys` that take too long one by one.
///
/// # Errors
/// If they do, or the question has a fault.
pub(crate) fn check_rl(context: &Context<'_>, keys: &RlKeys) -> Result<(), Diagnostic> {
    let asked = planning::rl::asked(context, keys)?;
    let (rollout, [_, training]) = (&asked.steps.rollout, asked.devices);
    let responses = rollout.prompts.saturating_mul(rollout.responses);
    let before = responses.saturating_mul(rollout.warm_up().saturating_add(1));
    let groups = (training / asked.group.max(1)).max(1);
    check_samples(responses.div_ceil(groups), groups, "prompts")?;
    if before <= MOST_RESPONSES {
        return Ok(());
    }
    let message = format!(
        "{before} responses, with those of steps that go before: at most {MOST_RESPONSES} on a page"
    );
    Err(Diagnostic::new(message).with_help(ELSEWHERE).about("prompts"))
}

/// Refuses a picture of the layers of a minibatch of `setting` in so many ways, if it has too many.
///
/// # Errors
/// If it has.
pub(crate) fn check_layers(
    setting: &FsdpSetting,
    ways: usize,
    layers: u64,
) -> Result<(), Diagnostic> {
    let samples = setting.minibatch_size.saturating_mul(setting.devices as u64);
    let drawn = samples.saturating_mul(2 * layers).saturating_mul(ways as u64);
    if drawn <= MOST_LAYERS {
        return Ok(());
    }
    let message =
        format!("up to {drawn} layers are too many to draw: at most {MOST_LAYERS} on a page");
    Err(Diagnostic::new(message).with_help("take fewer devices, layers, samples or ways"))
}

/// Refuses `each` samples for each of so many devices, of which the question's key `key` tells, if that is too much.
fn check_samples(each: u64, devices: u64, key: &str) -> Result<(), Diagnostic> {
    let pairs = each.saturating_mul(devices).saturating_mul(devices);
    let message = if each > MOST_SAMPLES {
        format!("{each} samples for a device: at most {MOST_SAMPLES} on a page")
    } else if pairs > MOST_PAIRS {
        format!("samples times devices are {pairs}: at most {MOST_PAIRS} on a page")
    } else {
        return Ok(());
    };
    Err(Diagnostic::new(message).with_help(ELSEWHERE).about(key))
}

/// Refuses steps of `keys` with more passes and layers of the encoder than can be searched here.
///
/// # Errors
/// If they have, or the question has a fault.
pub(crate) fn check_encoder(context: &Context<'_>, keys: &EncoderKeys) -> Result<(), Diagnostic> {
    let asked = planning::encoder::asked(context, keys)?;
    let layers = 2 * u64::from(asked.encoder.layers());
    let operations = |chunks: u64| {
        let passes = asked.stages.saturating_mul(3).saturating_mul(chunks);
        passes.saturating_add(layers).saturating_mul(asked.microbatches)
    };
    let most = asked.schedules.iter().map(|one| operations(one.chunks)).max().unwrap_or(0);
    if most <= MOST_PASSES {
        return Ok(());
    }
    let message = format!(
        "passes and layers of the encoder in a step are {most}: at most {MOST_PASSES} on a page"
    );
    Err(Diagnostic::new(message).with_help(ELSEWHERE).about("microbatches"))
}

/// Refuses what `keys` ask about `scenario` if a step of all pipelines has too many passes, or there are too many sets
/// of dead workers.
///
/// # Errors
/// If so, or a schedule cannot be had.
pub(crate) fn check_failures(
    context: &Context<'_>,
    scenario: &Scenario,
    keys: &FailureKeys,
) -> Result<(), Diagnostic> {
    question::keys::file::check_ranges(keys)?;
    let pipelines = keys.data_parallel.unwrap_or(1);
    let refused =
        |message: String, key: &str| Err(Diagnostic::new(message).with_help(ELSEWHERE).about(key));
    for setting in &scenario.settings {
        for rule in cases::rules(context, scenario, setting)? {
            let forwards = cases::forwards(setting, &rule);
            let passes = forwards.saturating_mul(3).saturating_mul(pipelines);
            if passes > MOST_REROUTED {
                let message =
                    format!("{passes} passes of all pipelines: at most {MOST_REROUTED} on a page");
                return refused(message, "data-parallel");
            }
            // Each stage loses a worker in a set of its own.
            let stages = setting.keys.stages.unwrap_or(1);
            let sets = keys.draws.saturating_mul(keys.most_dead).saturating_add(stages);
            let all = passes.saturating_mul(sets);
            if all > MOST_IN_SETS {
                let message = format!(
                    "{passes} passes for each of {sets} sets of dead workers: at most {MOST_IN_SETS} passes in all on \
                     a page"
                );
                return refused(message, "draws");
            }
        }
    }
    Ok(())
}
