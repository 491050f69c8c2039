//! Steps where tokens are not spread evenly over the experts.

use pipeline::Nanos;
use plan::{Boundary, Finalist, Part as LayerPart, number};
use planning::Question;
use question::format;
use serde::Serialize;
use sim::streams::StreamTimes;

use super::parts;
use super::priced::{Plan, seconds};

/// Load of the fullest device of an expert group, where it is drawn from how tokens choose experts.
#[derive(Clone, Copy, Serialize)]
pub struct ExpertLoad {
    /// Rows of its experts over those with tokens spread evenly, as the mean over layers and
    /// microbatches.
    pub fullest: f64,
    /// 95th percentile of these rows over layers and microbatches.
    pub fullest_p95: f64,
    /// The share of choices that are dropped because their expert is full.
    pub dropped: f64,
    /// A step in which every layer and microbatch has the 95th percentile of rows, in nanoseconds.
    pub p95_step_ns: u64,
}

impl ExpertLoad {
    /// Of `plan`, where `question` says how experts are chosen.
    pub(super) fn of(question: &Question, plan: &Plan) -> Option<Self> {
        question.recipe.imbalance.routing()?;
        let load = plan.finalist.costed().load;
        Some(Self {
            fullest: load.mean,
            fullest_p95: load.tail,
            dropped: load.dropped,
            p95_step_ns: plan.step.0.saturating_add(beyond_mean(&plan.finalist).0),
        })
    }

    /// It in words: a line or two.
    pub(super) fn lines(self) -> Vec<String> {
        let Self { fullest, fullest_p95, dropped, p95_step_ns } = self;
        let mut lines = vec![format!(
            "experts of the fullest device have {fullest:.3} times the even share, in 95 % of microbatches \
             at most {fullest_p95:.3}: a step of such takes {}",
            format::time(Nanos(p95_step_ns)),
        )];
        if dropped > 0.0 {
            let share = format::percent(dropped);
            lines
                .push(format!("{share} of all choices of experts are dropped: the expert is full"));
        }
        lines
    }
}

/// Overlap of the all-to-alls of experts with compute, where passes of a pair share two streams.
#[derive(Clone, Copy, Serialize)]
pub struct AllToAllOverlap {
    /// The share of the time of all-to-alls, over all stages, in which compute runs beside them.
    pub hidden: f64,
    /// How long the mean stage waits for all-to-alls in a step, in nanoseconds.
    pub exposed_ns: u64,
    /// How much longer its compute takes because of all-to-alls beside it, in nanoseconds.
    pub stretched_ns: u64,
}

impl AllToAllOverlap {
    /// Of the timeline of `finalist`.
    pub(super) fn of(finalist: &Finalist) -> Option<Self> {
        let stages = finalist.costed().shape.stages();
        let all = (0..stages).map(|stage| parts::of_streams(finalist, stage));
        let sum = all.collect::<Option<Vec<StreamTimes>>>()?.into_iter();
        let sum = sum.fold(StreamTimes::default(), StreamTimes::and);
        let hidden = match sum.communicating {
            Nanos(0) => 0.0,
            all => number(sum.hidden().0) / number(all.0),
        };
        let mean = |time: Nanos| time.0 / (stages as u64).max(1);
        Some(Self { hidden, exposed_ns: mean(sum.exposed), stretched_ns: mean(sum.stretched) })
    }

    /// It in words.
    pub(super) fn line(self) -> String {
        let Self { hidden, exposed_ns, stretched_ns } = self;
        let [exposed, stretched] = [exposed_ns, stretched_ns].map(Nanos).map(format::time);
        format!(
            "{} of the all-to-alls are overlapped: the mean stage waits {exposed} for the rest, and computes {stretched} longer because of the overlap",
            format::percent(hidden),
        )
    }
}

/// How much longer a step of `finalist` takes if the experts of every layer and microbatch have as much to do
/// as those of 95 % do not exceed: routed experts of the busiest stage take as many times as long.
pub(super) fn beyond_mean(finalist: &Finalist) -> Nanos {
    let load = finalist.costed().load;
    if load.tail <= load.mean {
        return Nanos(0);
    }
    let parts = parts::of_run(finalist, Boundary::Barrier, false);
    let experts = parts.iter().filter(|(name, _)| *name == LayerPart::Experts.name());
    let experts: i64 = experts.map(|(_, nanos)| nanos).sum();
    let experts = seconds(Nanos(u64::try_from(experts).unwrap_or(0)));
    let more = parts::whole(experts * (load.tail / load.mean - 1.0));
    Nanos(u64::try_from(more).unwrap_or(0))
}
