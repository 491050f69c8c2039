//! Published schedules of other chunks or another placement than those searched, where one fits and is shorter.

use cases::ScheduleSource;
use pipeline::{Choice, Family, Memory, Nanos, Placement, Semantics};
use question::scenario::{Scenario, Setting};
use question::search::{PlacementArg, SearchKeys};
use question::{Context, format};
use serde::Serialize;
use sim::Replay;

use super::asked::{Asked, row};
use super::{Improvements, SearchRow};
use crate::solution::against_bound_in_time;

/// The most forwards of an order for which such schedules are timed.
const MOST_FORWARDS: usize = 20_000;

/// The shortest published schedule outside the orders searched.
#[derive(Serialize, Clone, Copy, PartialEq, Eq, Debug)]
pub struct Elsewhere {
    /// Its name.
    pub schedule: &'static str,
    /// Chunks per stage.
    pub chunks: u16,
    /// Where they lie.
    pub placement: Placement,
    /// Its cost, by the objective of the search.
    pub cost_ns: u64,
    /// The order that a search finds there, where the question leaves chunks and placement open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub searched: Option<SearchedElsewhere>,
}

/// The order that a search of the same effort finds with the chunks and placement of an [`Elsewhere`].
#[derive(Serialize, Clone, Copy, PartialEq, Eq, Debug)]
pub struct SearchedElsewhere {
    /// Its cost.
    pub cost_ns: u64,
    /// The lower bound for orders of these chunks and placement.
    pub bound_ns: u64,
}

impl Elsewhere {
    /// The shortest one that fits the limits of `setting` and is shorter than the order of `row`: of searches by nominal
    /// times of passes that do not overlap.
    pub(super) fn of(
        context: &Context<'_>,
        scenario: &Scenario,
        setting: &Setting,
        row: &SearchRow,
    ) -> Option<Self> {
        let instance = &row.searched.instance;
        let is_nominal = !row.is_simulated() && row.chosen.is_none() && !row.overlaps();
        if !is_nominal || instance.shape.cells() > MOST_FORWARDS {
            return None;
        }
        let quiet = Context::new(context.host());
        let mut setting = setting.clone();
        setting.keys.chunks = None;
        let families = Family::ALL.into_iter().filter(|family| {
            let about = family.about();
            let is_alike = about.semantics == Semantics::Synchronous;
            let cuts = matches!(about.choice, Choice::Offload | Choice::Segments { .. });
            is_alike && !cuts && *family != Family::VAdaptive
        });
        let timed = families
            .take_while(|_| !context.stopped())
            .filter_map(|family| Self::timed(&quiet, (scenario, &setting), family, row));
        timed.filter(|one| one.cost_ns < row.cost.0).min_by_key(|one| one.cost_ns)
    }

    /// The same with the order that a search finds there: `asked` of these chunks and this placement, where it has neither
    /// and no limit of time.
    pub(super) fn searched(self, asked: &Asked<'_>) -> Self {
        let Asked { context: caller, setting, keys, .. } = *asked;
        let is_open = setting.keys.chunks.is_none() && keys.placement.is_none();
        let placement = PlacementArg::of(self.placement);
        if !is_open || placement.is_none() || keys.time_limit.is_some() || caller.stopped() {
            return self;
        }
        let mut setting = setting.clone();
        setting.keys.chunks = Some(self.chunks.into());
        let keys = SearchKeys { placement, ilp: false, warm_start: None, ..keys.clone() };
        let (context, seen) = (Context::new(caller.host()), Improvements::unheard());
        let (context, setting, keys, seen) = (&context, &setting, &keys, &seen);
        let asked = Asked { context, setting, keys, earlier: &[], seen, ..*asked };
        // Times that are given for the stages of the question may say nothing of chunks.
        let found = row(&asked, asked.aim()).ok();
        // The whole answer counts as cut short where this search is.
        caller.stopped();
        let searched = found
            .map(|row| SearchedElsewhere { cost_ns: row.cost.0, bound_ns: row.bound().0 })
            .filter(|found| found.cost_ns <= self.cost_ns);
        Self { searched, ..self }
    }

    /// `family`, where it is outside the orders of `row` and fits.
    fn timed(
        context: &Context<'_>,
        (scenario, setting): (&Scenario, &Setting),
        family: Family,
        row: &SearchRow,
    ) -> Option<Self> {
        let instance = &row.searched.instance;
        let rule = ScheduleSource::Family(family);
        let (shape, placement) = cases::shape(scenario, setting, &rule).ok()?;
        let chunks = shape.chunks_per_stage();
        if (chunks, placement) == (instance.shape.chunks_per_stage(), instance.placement) {
            return None;
        }
        let case = cases::case(context, scenario, setting, &rule).ok()?;
        let memory = Memory::of(&case.schedule, case.problem.footprints()).ok()?;
        if case.limits.as_ref().is_some_and(|limits| memory.over(limits).is_some()) {
            return None;
        }
        let metrics = Replay::new().metrics(&case.schedule, case.problem.costs()).ok()?;
        let cost_ns = instance.objective.of(&metrics).0;
        Some(Self { schedule: family.name(), chunks, placement, cost_ns, searched: None })
    }

    /// That it is shorter than an order of `cost`, and how to search there.
    pub(super) fn in_words(self, cost: Nanos) -> String {
        let Self { schedule, chunks, placement, cost_ns, searched } = self;
        let chunks_in_words = match chunks {
            1 => "1 chunk per stage".to_owned(),
            more => format!("{more} chunks per stage"),
        };
        let (form, keys) = match placement {
            Placement::Mirrored => (" in two directions", None),
            Placement::Vee => (" in a V", Some(format!("`chunks` {chunks} and `placement` v"))),
            Placement::Looped if chunks == 1 => ("", Some("`chunks` 1".to_owned())),
            Placement::Looped => {
                (" in a loop", Some(format!("`chunks` {chunks} and `placement` looped")))
            }
        };
        let cure = match (keys, searched) {
            (None, _) => ": no search covers that placement".to_owned(),
            (Some(keys), None) => format!(": {keys} search there"),
            (Some(keys), Some(found)) => {
                let [found, bound] = [found.cost_ns, found.bound_ns].map(Nanos);
                let time = format::time(found);
                let bound = against_bound_in_time(found, Some(bound));
                format!("; a search there finds {}, {bound}: {keys} give its order", time.trim())
            }
        };
        format!(
            "{schedule} with {chunks_in_words}{form} fits, too, and is {} shorter, {}{cure}",
            format::percent(super::joint_choice::gain(Nanos(cost_ns), cost)),
            format::time(Nanos(cost_ns)).trim(),
        )
    }
}
