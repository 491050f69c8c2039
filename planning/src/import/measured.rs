//! Measured iterations of a log.

/// Iterations at the start that are left out: kernels are compiled and memory is taken in them.
const WARM_UP: usize = 3;

/// Iterations of a log.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Measured {
    /// Their number, without those at the start.
    pub iterations: usize,
    /// The median of a step, in seconds.
    pub step: f64,
}

impl Measured {
    /// The iterations in `text`: lines of Megatron-LM with the elapsed time of one. `None` for fewer than three behind
    /// the start.
    pub(super) fn of(text: &str) -> Option<Self> {
        let mut steps: Vec<f64> = text.lines().filter_map(elapsed).skip(WARM_UP).collect();
        if steps.len() < 3 {
            return None;
        }
        steps.sort_by(f64::total_cmp);
        Some(Self { iterations: steps.len(), step: steps[steps.len() / 2] })
    }

    /// The same in words.
    pub(super) fn in_words(self) -> String {
        let Self { iterations, step } = self;
        format!(
            "the log has {iterations} iterations behind the first {WARM_UP}: {step:.3} s a step in the median"
        )
    }
}

/// The seconds of the iteration that a line tells of.
fn elapsed(line: &str) -> Option<f64> {
    let (_, rest) = line.split_once("elapsed time per iteration (ms):")?;
    let milliseconds: f64 = rest.split('|').next()?.trim().parse().ok()?;
    (milliseconds.is_finite() && milliseconds > 0.0).then_some(milliseconds / 1000.0)
}
