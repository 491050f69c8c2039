//! The orders of families for problems that recompute.

use crate::costs::{Costs, Footprint, Footprints};
use crate::fault::Fault;
use crate::pass::Pass;
use crate::problem::{Limit, Problem};
use crate::schedule::Schedule;
use crate::shape::{Placement, Shape};
use crate::units::Bytes;

use super::{About, Choice, Family, LimitUse};

/// The order of `family` for a problem that recomputes: that for backwards which take the time of their
/// R too, with an R before each.
///
/// Under a limit of the problem, forwards count what they keep, and the limit leaves room for what R
/// makes again; a limit that is the family's own shapes the order as it does without recomputation.
pub(super) fn schedule(
    family: Family,
    problem: &Problem,
    order: impl FnOnce(&Problem) -> Result<Schedule, Fault>,
) -> Result<Schedule, Fault> {
    let about = family.about();
    let costs = problem.costs();
    let fused = problem.clone().with_costs(fused_costs(problem.shape(), costs))?;
    let is_shaped = problem.is_limited() && !matches!(about.limit, LimitUse::Own(_));
    let (fused, room) = match is_shaped {
        false => (fused.with_footprints(problem.footprints().clone().with_kept(Vec::new()))?, None),
        true => {
            let (fused, room) = within(problem, fused, about.placement, about.whole_backwards)?;
            (fused, Some(room))
        }
    };
    let schedule = order(&fused)
        .map_err(|fault| unfused(fault, (family, problem.shape()), room.as_deref()))?;
    let recomputing = schedule.recomputing(|chunk| costs.recompute(chunk).is_some());
    recomputing.map_err(|fault| match (fault, about.choice) {
        (Fault::Copies { copy, .. }, Choice::Offload) => Fault::Needs {
            family: about.name,
            key: "recompute",
            what: format!(
                "chunks that it copies to the host to keep their activations, not to recompute them \
                 as chunk {} does",
                copy.chunk
            ),
        },
        (fault, _) => fault,
    })
}

/// The costs of backwards that do their own R first.
fn fused_costs(shape: Shape, costs: &Costs) -> Costs {
    let chunks = (0..shape.chunks()).zip(costs.chunks()).map(|(chunk, times)| {
        let mut times = *times;
        let again = costs.recompute(chunk).unwrap_or_default();
        times.backward_input += again;
        times.backward = times.backward.map(|whole| whole + again);
        times
    });
    costs.clone().with_chunks(chunks.collect()).with_recompute(Vec::new())
}

/// `fused` with footprints of what forwards keep, under limits which leave the room that is returned,
/// by stage, for what one R makes again.
fn within(
    problem: &Problem,
    fused: Problem,
    placement: Placement,
    whole_backwards: bool,
) -> Result<(Problem, Vec<Bytes>), Fault> {
    let (shape, footprints) = (problem.shape(), problem.footprints());
    let held = |chunk| {
        let Footprint { until_backward, until_weight } = footprints.of(chunk);
        let Some(kept) = footprints.kept(chunk) else { return footprints.of(chunk) };
        // Families look at their limit before forwards: a B must not hold more than its F did.
        let until_weight = if whole_backwards { kept } else { until_weight };
        let kept = kept.max(until_weight).min(until_backward);
        Footprint { until_backward: kept, until_weight }
    };
    let mut room = vec![Bytes(0); shape.stages()];
    for chunk in 0..shape.chunks() {
        let again = footprints.of(chunk).until_backward - held(chunk).until_backward;
        // The first and the last microbatch stand for both directions of a mirrored placement.
        for microbatch in [0, shape.microbatches() - 1] {
            let stage = placement.stage(shape, chunk, microbatch);
            room[stage] = room[stage].max(again);
        }
    }
    let limits = problem.limits(placement)?;
    let limits = limits.iter().flat_map(|limits| limits.by_stage()).zip(&room);
    let limits = limits.map(|(limit, room)| Limit::Bytes(Bytes(limit.0.saturating_sub(room.0))));
    let limits: Vec<Limit> = limits.collect();
    let kept = Footprints::new((0..shape.chunks()).map(held).collect());
    let kept = kept.with_shards(footprints.shards().to_vec());
    Ok((fused.with_footprints(kept)?.with_limits(&limits)?, room))
}

/// `fault` with the limits of the problem rather than those that leave `room`. That `family` counts more for one
/// microbatch than it takes alone shows nothing of other orders: it lacks room for F of the last chunk of the stage.
fn unfused(fault: Fault, (family, shape): (Family, Shape), room: Option<&[Bytes]>) -> Fault {
    let Some(room) = room else { return fault };
    let About { name, placement, .. } = *family.about();
    let last = |stage| (0..shape.chunks()).rfind(|&one| placement.stage(shape, one, 0) == stage);
    let (family, stage, pass, needs, limit) = match fault {
        Fault::BelowOneMicrobatch { stage, needs, limit } => {
            (name, stage, Pass::f(last(stage).unwrap_or(0), 0), needs, limit)
        }
        Fault::Infeasible { family, stage, pass, needs, limit } => {
            (family, stage, pass, needs, limit)
        }
        other => return other,
    };
    let (needs, limit) = (needs + room[stage], limit + room[stage]);
    Fault::Infeasible { family, stage, pass, needs, limit }
}

#[cfg(test)]
mod tests {
    use crate::costs::{PassTimes, ShardTimes};
    use crate::family::Chunks;
    use crate::memory::Memory;
    use crate::order::Order;
    use crate::pass::{Kind, Slot};
    use crate::torch_csv;
    use crate::units::Nanos;

    use super::*;

    const HELD: Footprint = Footprint { until_backward: Bytes(20), until_weight: Bytes(7) };
    const KEPT: Bytes = Bytes(3);

    /// A problem of p stages and m microbatches that recomputes the chunks for which `wanted` is true.
    fn problem(family: Family, [p, m]: [u64; 2], wanted: impl Fn(u16) -> bool) -> Option<Problem> {
        let about = family.about();
        let chunks = match about.chunks {
            Chunks::Exactly(chunks) => u64::from(chunks),
            Chunks::Any { default } => u64::from(default),
        };
        let shape = Shape::new(p, chunks, m).ok()?.with_vocabulary(about.vocabulary).ok()?;
        let ms = Nanos(1_000);
        let times = PassTimes::new(ms, ms, ms);
        let of = |chunk| wanted(chunk).then_some(ms);
        let costs = Costs::uniform(shape, times, Nanos(10))
            .with_recompute((0..shape.chunks()).map(of).collect())
            .with_shards(
                vec![ShardTimes { before: ms, after: ms }; shape.stages()],
                Default::default(),
            );
        let kept = (0..shape.chunks()).map(|chunk| wanted(chunk).then_some(KEPT)).collect();
        let footprints = Footprints::uniform(shape, HELD).with_kept(kept);
        Problem::new(shape, costs).ok()?.with_footprints(footprints).ok()
    }

    /// The same where nothing is recomputed.
    fn plain(problem: &Problem) -> Problem {
        let costs = problem.costs().clone().with_recompute(Vec::new());
        let kept = problem.footprints().clone().with_kept(Vec::new());
        problem.clone().with_costs(costs).unwrap().with_footprints(kept).unwrap()
    }

    /// Chunks recompute all, none but the last, or in turn.
    const CHOICES: [fn(u16) -> bool; 3] = [|_| true, |chunk| chunk == 1, |chunk| chunk % 2 == 0];

    #[test]
    fn every_family_recomputes_what_is_asked_and_says_so_in_text() {
        let mut done = 0;
        for family in Family::ALL {
            for size in [[1, 1], [2, 2], [2, 5], [3, 6], [4, 8], [5, 11], [8, 16]] {
                for wanted in CHOICES {
                    let Some(problem) = problem(family, size, wanted) else { continue };
                    let plain = family.schedule(&plain(&problem));
                    let schedule = match (family.schedule(&problem), plain) {
                        (Ok(schedule), _) => schedule,
                        (Err(Fault::Needs { key: "recompute", .. }), Ok(plain)) => {
                            assert!(plain.copies().is_some(), "{family:?}");
                            continue;
                        }
                        (Err(_), plain) => {
                            assert!(plain.is_err(), "{family:?} {size:?}");
                            continue;
                        }
                    };
                    for chunk in 0..problem.shape().chunks() {
                        assert_eq!(schedule.recomputes(chunk), wanted(chunk), "{family:?}");
                    }
                    let text = schedule.to_string();
                    let read: Schedule = text.parse().unwrap();
                    assert_eq!(read.to_string(), text);
                    Memory::of(&schedule, problem.footprints()).unwrap();
                    done += 1;
                }
            }
        }
        assert!(done > 400, "{done}");
    }

    #[test]
    fn r_stands_before_its_backward_and_nothing_else_changes() {
        for family in [Family::GPipe, Family::ZbV, Family::DualPipe, Family::Vocab2] {
            let asked = problem(family, [4, 8], |_| true).unwrap();
            let plain = family.schedule(&plain(&asked)).unwrap();
            let with = plain.clone().recomputing(|_| true).unwrap();
            let without = |order: &Order| -> Vec<Pass> {
                order.passes().iter().copied().filter(|pass| pass.kind != Kind::R).collect()
            };
            for (order, before) in with.orders().iter().zip(plain.orders()) {
                assert_eq!(without(order), before.passes());
                let slots: Vec<Slot> = order.slots().collect();
                for (at, slot) in slots.iter().enumerate() {
                    for pass in slot.passes().filter(|pass| matches!(pass.kind, Kind::B | Kind::BW))
                    {
                        let r = Slot::One(Pass::r(pass.chunk, pass.microbatch));
                        assert_eq!(slots[at - 1], r, "{family:?}");
                    }
                }
            }
            assert_eq!(with.clone().recomputing(|_| true), Ok(with));
        }
    }

    #[test]
    fn a_microbatch_keeps_its_input_and_only_one_has_all_activations() {
        // GPipe holds all m microbatches: the inputs of all of them, and one whole.
        let asked = problem(Family::GPipe, [4, 8], |_| true).unwrap();
        let schedule = Family::GPipe.schedule(&asked).unwrap();
        let peak = Memory::of(&schedule, asked.footprints()).unwrap().peak;
        assert_eq!(peak, [8 * 3 + 20 - 3; 4].map(Bytes));
        // 1F1B as many as there are stages from here on.
        let schedule = Family::OneFOneB.schedule(&asked).unwrap();
        let peak = Memory::of(&schedule, asked.footprints()).unwrap().peak;
        assert_eq!(peak, [4, 3, 2, 1].map(|held| Bytes(held * 3 + 20 - 3)));
    }

    #[test]
    fn limits_count_what_is_kept() {
        // 1p is 80 bytes: 4 whole microbatches, or one whole and 10 more of which M_W is kept.
        let asked = problem(Family::ZbHeuristic, [4, 16], |_| true).unwrap();
        let limited = asked.clone().with_limit(Limit::times_p(1));
        let within = Family::ZbHeuristic.schedule(&limited).unwrap();
        let peak = Memory::of(&within, asked.footprints()).unwrap().peak;
        assert!(peak.iter().all(|&peak| peak <= Bytes(80)), "{peak:?}");
        let in_flight = crate::peak_in_flight(&within).into_iter().max();
        assert!(in_flight > Some(4), "{in_flight:?}");
        // One microbatch alone still needs all of its activations for its backward.
        let below = asked.with_limit(Limit::Bytes(Bytes(19)));
        let [needs, limit] = [20, 19].map(Bytes);
        let fault = Fault::BelowOneMicrobatch { stage: 0, needs, limit };
        assert_eq!(Family::ZbHeuristic.schedule(&below), Err(fault));
    }

    /// ZB-V counts M_W for what forwards keep: that is its own need, and not that of a microbatch.
    #[test]
    fn a_family_that_counts_more_than_a_microbatch_takes_speaks_for_itself() {
        let large = Footprint { until_backward: Bytes(20), until_weight: Bytes(20) };
        let asked = problem(Family::ZbV, [2, 4], |_| true).unwrap();
        let held = Footprints::uniform(asked.shape(), large).with_kept(vec![Some(KEPT); 4]);
        let asked = asked.with_footprints(held).unwrap().with_limit(Limit::Bytes(Bytes(30)));
        assert!(asked.limits(Placement::Vee).is_ok());
        let fault = Family::ZbV.schedule(&asked).unwrap_err();
        let Fault::Infeasible { family, stage, needs, limit, .. } = fault else {
            panic!("{fault}")
        };
        assert_eq!((family, stage, needs, limit), ("zb-v", 0, Bytes(40), Bytes(30)));
    }

    #[test]
    fn torch_has_no_recomputation_of_its_own() {
        let asked = problem(Family::OneFOneB, [3, 4], |_| true).unwrap();
        let with = Family::OneFOneB.schedule(&asked).unwrap();
        let plain = Family::OneFOneB.schedule(&plain(&asked)).unwrap();
        assert_eq!(torch_csv::write(&with), torch_csv::write(&plain));
        let paired: Schedule = "F0.0 F0.1&R0.0 BW0.0 R0.1 BW0.1".parse().unwrap();
        assert_eq!(torch_csv::write(&paired).unwrap(), "0F0,0F1,0B0,0B1\n");
    }
}
