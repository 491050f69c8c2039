//! Published schedules of other chunks or another placement than those searched, where one fits and is shorter.

use cases::ScheduleSource;
use pipeline::{Choice, Family, Memory, Nanos, Placement, Semantics};
use question::scenario::{Scenario, Setting};
use question::{Context, format};
use serde::{Serialize, Serializer};
use sim::Replay;

use super::SearchRow;

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
    #[serde(serialize_with = "placement")]
    pub placement: Placement,
    /// Its cost, by the objective of the search.
    pub cost_ns: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // As serde calls it.
fn placement<S: Serializer>(placement: &Placement, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(match placement {
        Placement::Looped => "looped",
        Placement::Vee => "v",
        Placement::Mirrored => "mirrored",
    })
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
        Some(Self { schedule: family.name(), chunks, placement, cost_ns })
    }

    /// That it is shorter than an order of `cost`, and how to search there.
    pub(super) fn in_words(self, cost: Nanos) -> String {
        let Self { schedule, chunks, placement, cost_ns } = self;
        let chunks_in_words = match chunks {
            1 => "1 chunk per stage".to_owned(),
            more => format!("{more} chunks per stage"),
        };
        let (form, cure) = match placement {
            Placement::Mirrored => {
                (" in two directions", "no search covers that placement".to_owned())
            }
            Placement::Vee => {
                (" in a V", format!("`chunks` {chunks} and `placement` v search there"))
            }
            Placement::Looped if chunks == 1 => ("", "`chunks` 1 searches there".to_owned()),
            Placement::Looped => {
                (" in a loop", format!("`chunks` {chunks} and `placement` looped search there"))
            }
        };
        format!(
            "{schedule} with {chunks_in_words}{form} fits, too, and is {} shorter, {}: {cure}",
            format::percent(super::joint_choice::gain(Nanos(cost_ns), cost)),
            format::time(Nanos(cost_ns)).trim(),
        )
    }
}
