//! Post-validation beside an all-reduce of all stages between two steps, with ZB-2p.

use question::Diagnostic;
use question::sheet::Sheet;

use super::super::cell::Cell;
use super::super::check::Check;
use super::super::sheets;
use super::super::sources::Sources;
use super::super::table::{Contents, Table};
use super::small::{self, PROFILE};
use super::{CONSTANTS, Ground, Quantity, positive, printed_gain, setting};
use measured::papers::zero_bubble::{PaperRun, PostValidation};

pub(in super::super) const FIGURES: &str = "zb-post-validation.csv";

const TITLE: &str =
    "Zero Bubble, post-validation: ZB-2p with it and with an all-reduce between two steps";

const POST: Quantity =
    Quantity { name: "post-validation, samples/GPU/s", check: Check::Relative(0.08), digits: 2 };
const ALL_REDUCE: Quantity = Quantity { name: "all-reduce, samples/GPU/s", ..POST };
const GAIN: Quantity = Quantity { name: "gain of post-validation", check: Check::Gain, digits: 3 };
const BY_PROFILE: Quantity = Quantity { name: "gain by the profile of table 5", ..GAIN };
const BUBBLE: Quantity = Quantity { name: "bubble, post-validation", digits: 4, ..GAIN };
/// Why the gain by the profile is not checked.
const EQUAL_STAGES: &str =
    "not checked: stages of the profile are equal, those of the runs are not";
const BARRIER: Quantity = Quantity { name: "bubble, all-reduce", ..BUBBLE };

const REMARKS: &str = "\
With an all-reduce no stage begins the next step before all have ended this one: a step takes the
makespan, and the bubble that ZB-2p avoids is back. Under post-validation stages follow each other as
staggered as they began, and a step takes the longest span (three steps in a row on the engine). What
the all-reduce itself sends takes no time here, nor does checking the norm. `gain by the profile` is
makespan over span of the order of table 5 alone, with its profiled times: equal stages, no optimizer.
There the outer stages have as much to do as the others, which real ones have not.
The mechanism is run, not only timed, by `debubble execute --boundary post-validation --max-norm ..`:
where the full norm disagrees, stages take their step back (from copies to the bit, or by AdamW's
inverse but for rounding) and restart the warm-up; `simulate --boundary post-validation:0.01
--rollback 5ms` prices that.";

/// All cells: both throughputs, the gain, and the bubbles of the prediction.
pub(in super::super) fn cells(
    table: &Table,
    sources: &Sources<'_>,
) -> Result<Contents, Diagnostic> {
    let ground = Ground::new(sources)?;
    let (path, lines) = sources.records::<PostValidation>(FIGURES)?;
    let mut cells = Vec::new();
    for line in &lines {
        let trainings = line.trainings();
        let row = setting(&trainings[0]);
        let measured =
            [line.post_validation_samples_per_gpu_per_s, line.all_reduce_samples_per_gpu_per_s];
        positive(&path, &row, &measured)?;
        let trained = ground.predict(&path, &trainings)?;
        let both = [POST, ALL_REDUCE].into_iter().zip(&trainings).zip(measured).zip(&trained);
        cells.extend(both.map(|(((quantity, training), measured), trained)| {
            quantity.cell(&row, training.is_fitted(), [measured, trained.speed()])
        }));
        let [post, all_reduce] = [&trained[0], &trained[1]];
        let (measured_gain, rounding) = printed_gain(measured);
        let ours = post.speed() / all_reduce.speed() - 1.0;
        // The step with the all-reduce was never fitted.
        cells.push(GAIN.figure(&row, false, measured_gain).rounded(rounding).beside(ours));
        cells.push(BUBBLE.alone(&row, post.bubble_rate()));
        cells.push(BARRIER.alone(&row, all_reduce.bubble_rate()));
        if let Some(gain) = by_profile(sources, &trainings[0])? {
            cells.push(BY_PROFILE.beside(&row, EQUAL_STAGES, [measured_gain, gain]));
        }
    }
    Contents::of(table, sources, TITLE, cells, sheet)
}

/// Makespan over span of ZB-2p with the profiled times of table 5, less 1.
fn by_profile(sources: &Sources<'_>, training: &PaperRun) -> Result<Option<f64>, Diagnostic> {
    let scenario = sources.scenario(PROFILE)?;
    let PaperRun { model, gpus, microbatches, .. } = training;
    let name = format!("{model} p={gpus} m={microbatches}");
    let own = scenario.settings.iter().find(|setting| setting.name.as_ref() == Some(&name));
    let Some(setting) = own else { return Ok(None) };
    let metrics = small::metrics(sources, &scenario, setting, "zb-2p")?;
    let [makespan, span] =
        [metrics.makespan(), metrics.span()].map(|time| super::super::cell::whole(time.0));
    Ok(Some(makespan / span - 1.0))
}

fn sheet(cells: &[Cell]) -> Sheet {
    sheets::compared("setting", cells.iter()).and_text(format!("\n{CONSTANTS}\n{REMARKS}\n"))
}
