//! Orders that repeat: with more microbatches they have the same warm-up and drain, and more of the same between them.

use super::{Family, zb_v};
use crate::problem::Problem;
use crate::shape::Vocabulary;

/// After how many microbatches the order of a family repeats. That it is so is tested, pass by pass, where steps are
/// timed by it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Repeats {
    /// Nothing is known of that, or it does not.
    Unknown,
    /// After each microbatch.
    Microbatch,
    /// After one for each stage.
    Stages,
    /// The same, where the stages divide the microbatches.
    WholeStages,
    /// After those of a group, one for each stage by default ([`Problem::group`]).
    Group,
    /// After half as many as stages, rounded up.
    HalfStages,
    /// After the segments of a microbatch ([`Problem::segments`]).
    Segments,
    /// After as many as the building of an order of few shows, if that does not hang on how many there are.
    AsBuilt,
}

/// An order that stands for one of more microbatches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Period {
    /// Microbatches after which the order repeats.
    pub microbatches: u32,
    /// So many microbatches are enough to see warm-up, drain and several periods between them, and differ from those asked
    /// for by a whole number of periods.
    pub shown_by: u32,
}

impl Family {
    /// The period of its order for `problem`, and the few microbatches whose order shows it. Nothing if the order is not
    /// known to repeat, or if so few are not fewer than those of the problem.
    #[must_use]
    pub fn period(self, problem: &Problem) -> Option<Period> {
        let (about, shape) = (self.about(), problem.shape());
        if about.repeats == Repeats::AsBuilt {
            return self.as_built(problem);
        }
        if self.depends_on_times() || about.vocabulary != Vocabulary::Whole {
            return None;
        }
        let (stages, asked) = (u32::try_from(shape.stages()).ok()?, shape.microbatches());
        let microbatches = match about.repeats {
            Repeats::Unknown | Repeats::AsBuilt => return None,
            Repeats::WholeStages if asked % stages != 0 => return None,
            Repeats::Microbatch => 1,
            Repeats::Stages | Repeats::WholeStages => stages,
            Repeats::Group => match problem.group() {
                Some(group) => u32::try_from(group).ok().filter(|&group| group > 0)?,
                None => stages,
            },
            Repeats::HalfStages => stages.div_ceil(2),
            Repeats::Segments => problem.segments(),
        };
        let enough = stages.max(microbatches).checked_mul(8)?.checked_add(16)?;
        let whole = enough.checked_next_multiple_of(microbatches)?;
        let shown_by = whole.checked_add(asked % microbatches)?;
        (shown_by < asked).then_some(Period { microbatches, shown_by })
    }

    /// The same where building an order shows it.
    fn as_built(self, problem: &Problem) -> Option<Period> {
        let (shape, costs) = (problem.shape(), problem.costs());
        let is_plain = costs.microbatch_work().is_none() && !costs.has_recompute();
        let has_own = shape.chunks_per_stage() == 2 && !problem.footprints().has_buffers();
        if !(is_plain && has_own) {
            return None;
        }
        let mut shown_by = 12 * u32::try_from(shape.stages()).ok()? + 16;
        // The second time, the microbatches that are left are whole periods of the first.
        for _ in 0..2 {
            let left = shape.microbatches().checked_sub(shown_by).filter(|&left| left > 0)?;
            let few = problem.clone().with_microbatches(shown_by).ok()?;
            let microbatches = zb_v::period(&self.limited(&few))?;
            if left % microbatches == 0 {
                return Some(Period { microbatches, shown_by });
            }
            shown_by += left % microbatches;
        }
        None
    }
}
