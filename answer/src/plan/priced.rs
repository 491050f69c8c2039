//! A set-up with its time, memory, money and error bar.

use measured::Overrun;
use pipeline::{Bytes, Nanos};
use plan::{Boundary, Finalist, Kind, Shortage, number};
use planning::{Framework, Question};

use super::documents::PackedSteps;

/// A set-up with all that a planner asks of it.
pub struct Plan {
    /// Its cluster, by number.
    pub cluster: usize,
    /// The run of the event engine.
    pub finalist: Finalist,
    /// Its step: that of the run, or where documents are packed into sequences the mean of those drawn.
    pub step: Nanos,
    /// Lower bound of a step over all orders of its passes, where one is known and documents leave all
    /// microbatches alike.
    pub least_step: Option<Nanos>,
    /// Steps with documents packed into sequences, where their lengths are given; `None` if a Ctrl-C
    /// came before enough steps were drawn.
    pub documents: Option<PackedSteps>,
    /// Median and 95th percentile of the step under noise, with documents; `None` if a Ctrl-C came
    /// before enough were drawn.
    pub percentiles: Option<[Nanos; 2]>,
    /// Tokens a second, by its step.
    pub tokens_per_second: f64,
    /// Model FLOPs utilisation.
    pub mfu: f64,
    /// Hardware FLOPs utilisation.
    pub hfu: f64,
    /// Share of time that failures leave.
    pub goodput: f64,
    /// Seconds between two checkpoints.
    pub checkpoint_interval: f64,
    /// Days for all tokens, with failures.
    pub days: f64,
    /// Hours of all devices together for all tokens, with failures.
    pub gpu_hours: f64,
    /// Dollars for all tokens.
    pub dollars: f64,
    /// Energy of all devices at the watts that they may draw, in kWh; nothing where one's are not known.
    pub energy: Option<f64>,
    /// The kind of its step.
    pub kind: Kind,
    /// Relative error of its step towards shorter and longer; `None` if nothing is known of its
    /// devices.
    pub error: Option<[f64; 2]>,
    /// The law of how many times its days and dollars a training takes.
    pub overrun: Overrun,
    /// How many times as long its step is as a first run of stock Megatron-LM, where that runs it and the question does
    /// not say whose software runs.
    pub stock: Option<f64>,
    /// Relative errors, towards shorter and longer, of its step by tuned recipes and of that one.
    pub errors_of_tunings: Option<[[f64; 2]; 2]>,
    /// Whether no other plan is both faster and cheaper.
    pub on_front: bool,
    /// How stages meet between steps.
    pub boundary: Boundary,
    /// Shortage of memory of a set-up that does not surely fit.
    pub shortage: Option<Shortage>,
    /// Odds that every device holds its part, by published peaks.
    pub fit_odds: f64,
}

pub fn seconds(time: Nanos) -> f64 {
    number(time.0) / 1e9
}

impl Plan {
    /// The memory that may be used of the fullest device, and the memory that is used.
    pub fn memory(&self) -> [Bytes; 2] {
        let (stage, held) = self.finalist.evaluation.fullest();
        [self.finalist.costed().capacities[stage], held.sum()]
    }

    /// The odds that it is done within the deadline of `question`, and within its budget.
    pub fn odds_of_limits(&self, question: &Question) -> [Option<f64>; 2] {
        let odds = |limit: f64, planned: f64| self.overrun.odds(limit / planned);
        [
            question.deadline_days.map(|limit| odds(limit, self.days)),
            question.budget.map(|limit| odds(limit, self.dollars)),
        ]
    }

    /// The odds of both: dollars are hours times a price, so the tighter limit decides.
    pub fn odds(&self, question: &Question) -> Option<f64> {
        self.odds_of_limits(question).into_iter().flatten().reduce(f64::min)
    }

    /// Whether `framework` runs it.
    pub fn runs_in(&self, framework: Framework, question: &Question) -> bool {
        framework.has_layers(&question.model)
            && framework.runs(&self.finalist.costed().setup, &question.recipe)
    }
}
