//! V-ZB: a building block without a bubble in the memory of 1F1B.
//!
//! Source: Controllable Memory (Qi et al. 2024, arXiv 2405.15362), table 1: neighbouring stages are
//! 4 cells apart in the first chunk and 2 in the second, on the way forward and back. Each pass
//! follows the one before it at once where the way turns, so the passes of one microbatch start on
//! stage i at
//!
//! | forward down | forward up | backward up | backward down |
//! |---|---|---|---|
//! | 4i | 6(p-1) - 2i + 1 | 6(p-1) + 4i + 2 | 12(p-1) - 2i + 3 |
//!
//! Modulo six these are 4i, 4i+1, 4i+2 and 4i+3: no two meet, whatever p, and both W find a cell.

use super::About;
use super::controllable::greedy;
use crate::fault::Fault;
use crate::problem::Problem;
use crate::schedule::Schedule;

pub(super) const ABOUT: About = About {
    name: "v-zb",
    source: "Controllable Memory (Qi et al. 2024, arXiv 2405.15362), offsets of table 1",
    bubble: "0 where m >= 2p and F = B = W",
    memory: "p M_B",
    note: "bubble and memory equal the published ones; the order is that of the authors' generator on this \
           block",
    ..greedy::ABOUT_MIN
};

pub(super) fn schedule(problem: &Problem) -> Result<Schedule, Fault> {
    greedy::schedule(problem, ABOUT.name, block)
}

fn block(p: usize, i: usize) -> [usize; 4] {
    let turn = 6 * (p - 1);
    [4 * i, turn - 2 * i + 1, turn + 4 * i + 2, 2 * turn - 2 * i + 3]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::costs::{Costs, PassTimes};
    use crate::memory::peak_in_flight;
    use crate::shape::Shape;
    use crate::units::Nanos;

    #[test]
    fn no_pass_of_the_block_meets_another() {
        for p in 1..=64 {
            for i in 0..p {
                let cells = block(p, i);
                assert!(cells.is_sorted());
                let mut residues = cells.map(|cell| cell % 6);
                residues.sort_unstable();
                assert!(residues.windows(2).all(|two| two[0] != two[1]), "p = {p}, stage {i}");
            }
        }
    }

    #[test]
    fn the_memory_is_that_of_1f1b() {
        let one = PassTimes::new(Nanos(1), Nanos(1), Nanos(1));
        for (p, more) in (1..=24u32).zip((0..5).cycle()) {
            let shape = Shape::new(p.into(), 2, (2 * p + more).into()).unwrap();
            let problem = Problem::new(shape, Costs::uniform(shape, one, Nanos(0))).unwrap();
            let peak = peak_in_flight(&schedule(&problem).unwrap());
            assert_eq!(peak.into_iter().max(), Some(2 * p), "p = {p}");
        }
    }
}
