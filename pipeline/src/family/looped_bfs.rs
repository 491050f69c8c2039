//! Breadth-first: all microbatches go through a chunk before any goes through the next one of its stage, forward and
//! then backward.
//!
//! Sources: Lamy-Poirier 2023, arXiv 2211.05953; `ScheduleLoopedBFS` of torch; the circular pipeline of MaxText. Both
//! run the backwards of a chunk from the last microbatch to the first, which takes as long and holds as much; here they
//! run in the order of microbatches, in which every family sums up gradients. Bubble (p-1)(F+B+W)/v for m >= p. Memory:
//! all m microbatches in all chunks of every stage.

use super::{About, Chunks, LimitUse};
use crate::fault::Fault;
use crate::pass::Pass;
use crate::problem::Problem;
use crate::schedule::Schedule;
use crate::shape::Placement;

pub(super) const ABOUT: About = About {
    name: "looped-bfs",
    source: "breadth-first pipeline (Lamy-Poirier 2023, arXiv 2211.05953; torch LoopedBFS, MaxText's circular pipeline)",
    needs: "any p, any m",
    chunks: Chunks::Any { default: 2 },
    placement: Placement::Looped,
    limit: LimitUse::Checked,
    whole_backwards: true,
    torch_class: Some("LoopedBFS"),
    bubble: "(p-1)(F+B+W)/v where m >= p",
    memory: "m M_B",
    note: "torch and MaxText run the backwards of a chunk from the last microbatch on, which takes as long",
    ..About::PLAIN
};

pub(super) fn schedule(problem: &Problem) -> Result<Schedule, Fault> {
    let shape = problem.shape();
    let order = |stage| {
        let chunks: Vec<u16> = Placement::Looped.chunks_of(shape, stage).collect();
        let microbatches = || 0..shape.microbatches();
        let forwards =
            chunks.iter().flat_map(|&chunk| microbatches().map(move |at| Pass::f(chunk, at)));
        let backwards = chunks
            .iter()
            .rev()
            .flat_map(|&chunk| microbatches().map(move |at| Pass::bw(chunk, at)));
        forwards.chain(backwards).collect()
    };
    Schedule::new(shape, Placement::Looped, (0..shape.stages()).map(order).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::costs::{Costs, PassTimes};
    use crate::shape::Shape;
    use crate::units::Nanos;

    #[test]
    fn chunks_follow_each_other_and_come_back() {
        let shape = Shape::new(2, 2, 2).unwrap();
        let times = PassTimes::new(Nanos(1), Nanos(1), Nanos(1));
        let problem = Problem::new(shape, Costs::uniform(shape, times, Nanos(0))).unwrap();
        let expected = "F0.0 F0.1 F2.0 F2.1 BW2.0 BW2.1 BW0.0 BW0.1\n\
                        F1.0 F1.1 F3.0 F3.1 BW3.0 BW3.1 BW1.0 BW1.1\n";
        assert_eq!(schedule(&problem).unwrap().to_string(), expected);
    }
}
