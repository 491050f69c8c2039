//! Steps one after the other where no stage waits for all others: the staggered optimizer.
//!
//! Each stage begins its next step when its own optimizer is done, on all of its workers. The ends of the
//! optimizers of all stages in a step follow from those of the step before by a matrix of longest paths in the
//! algebra of maximum and plus. What a step takes in the long run is the largest mean weight of a cycle of that
//! matrix (Karp 1978, *A characterization of the minimum cycle mean in a digraph*).

use crate::instance::{Instance, NONE};
use crate::timing::{Orders, Timing};

/// Longer than any path: what has no path.
const NO_PATH: i128 = i128::MIN / 4;

/// The time per step in the long run, in whole nanoseconds, rounded up.
pub(crate) fn period(instance: &Instance, timing: &Timing, orders: &Orders) -> u64 {
    let stages = instance.shape.stages();
    let rows: Vec<Vec<i128>> =
        (0..stages).map(|from| ends(instance, timing, orders, from)).collect();
    cycle_mean(&rows)
}

/// The ends of the optimizers of all stages, where the passes of stage `from` may begin at 0 and those of other
/// stages when their inputs are there.
fn ends(instance: &Instance, timing: &Timing, orders: &Orders, from: usize) -> Vec<i128> {
    let mut ends = vec![NO_PATH; instance.nodes.len()];
    for &number in &timing.walk {
        let node = &instance.nodes[number as usize];
        let released = if instance.stage(node.worker) == from { 0 } else { NO_PATH };
        let of = |(input, delay): (u32, u64)| match input {
            NONE => NO_PATH,
            input => ends[input as usize] + i128::from(delay),
        };
        let before = of((timing.before[number as usize], 0));
        let start = node.inputs.into_iter().map(of).fold(released.max(before), i128::max);
        ends[number as usize] = (start + i128::from(node.time)).max(NO_PATH);
    }
    let mut last = vec![NO_PATH; instance.shape.stages()];
    for (worker, order) in (0u32..).zip(orders) {
        let end = order.last().map_or(NO_PATH, |&node| ends[node as usize]);
        let stage = instance.stage(worker);
        last[stage] = last[stage].max(end + i128::from(instance.optimizer));
    }
    last
}

/// The largest mean weight of a cycle, rounded up. `rows[i][j]` is the weight from i to j.
fn cycle_mean(rows: &[Vec<i128>]) -> u64 {
    let count = rows.len();
    let is_path = |weight: i128| weight > NO_PATH / 2;
    // The heaviest walk of each number of edges to each vertex, from any: every cycle is reached.
    let mut walks = vec![vec![0i128; count]];
    for _ in 0..count {
        let last = &walks[walks.len() - 1];
        let to = |to: usize| {
            let all =
                rows.iter().zip(last).filter(|(row, before)| is_path(row[to]) && is_path(**before));
            all.map(|(row, before)| before + row[to]).max().unwrap_or(NO_PATH)
        };
        let next = (0..count).map(to).collect();
        walks.push(next);
    }
    let mean = |vertex: usize| {
        let whole = walks[count][vertex];
        let lengths = (0..count).filter(|&length| is_path(walks[length][vertex]));
        let means = lengths.map(|length| (whole - walks[length][vertex], (count - length) as i128));
        means.min_by(|one, other| (one.0 * other.1).cmp(&(other.0 * one.1)))
    };
    let reached = (0..count).filter(|&vertex| is_path(walks[count][vertex])).filter_map(mean);
    let most = reached.max_by(|one, other| (one.0 * other.1).cmp(&(other.0 * one.1)));
    let (sum, edges) = most.unwrap_or((0, 1));
    u64::try_from((sum + edges - 1).div_euclid(edges)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_heaviest_cycle_decides() {
        let none = NO_PATH;
        assert_eq!(cycle_mean(&[vec![7]]), 7);
        // A loop of 5 at 0, and a cycle 1 -> 2 -> 1 of mean 6.
        let rows = [vec![5, 1, none], vec![none, 2, 9], vec![none, 3, none]];
        assert_eq!(cycle_mean(&rows), 6);
        // Rounded up: 11 over two edges.
        let rows = [vec![none, 9], vec![2, none]];
        assert_eq!(cycle_mean(&rows), 6);
    }
}
