//! Steps one after the other where no stage waits for all others: the staggered optimizer.
//!
//! Each stage begins its next step when its own optimizer is done, on all of its workers. The ends of the
//! optimizers of all stages in a step follow from those of the step before by a matrix of longest paths in the
//! algebra of maximum and plus. What a step takes in the long run is the largest mean weight of a cycle of that
//! matrix (Karp 1978, *A characterization of the minimum cycle mean in a digraph*).

use sim::graph::{Graph, Link, NONE, Orders, Times};

/// Longer than any path: what has no path.
const NO_PATH: i128 = i128::MIN / 4;

/// The time per step of `orders` in the long run, in whole nanoseconds, rounded up; `optimizer` follows the last
/// operation of each flush.
pub(crate) fn period(graph: &Graph, times: &Times, orders: &Orders, optimizer: i64) -> u64 {
    let flushes = graph.machines().iter().map(|machine| machine.flush + 1).max().unwrap_or(0);
    let rows: Vec<Vec<i128>> = (0..flushes)
        .map(|from| ends(graph, times, orders, (from, flushes as usize)))
        .map(|ends| ends.into_iter().map(|end| end + i128::from(optimizer)).collect())
        .collect();
    cycle_mean(&rows)
}

/// The last ends of all flushes, where the operations of flush `from` may begin at 0 and the rest when their inputs are
/// there.
fn ends(graph: &Graph, times: &Times, orders: &Orders, (from, count): (u32, usize)) -> Vec<i128> {
    let mut ends = vec![NO_PATH; graph.operations().len()];
    for &number in &times.walk {
        let machine = orders.machine(graph, number);
        let released = if graph.machines()[machine as usize].flush == from { 0 } else { NO_PATH };
        let before = match times.before[number as usize] {
            NONE => NO_PATH,
            before => ends[before as usize],
        };
        let arrival = |link: &Link| {
            let lag = graph.lag(link, orders.machine(graph, link.operation), machine);
            ends[link.operation as usize] + i128::from(lag)
        };
        let start = graph.inputs(number).iter().map(arrival).fold(released.max(before), i128::max);
        ends[number as usize] = (start + i128::from(graph.operation(number).time)).max(NO_PATH);
    }
    let mut last = vec![NO_PATH; count];
    for (machine, order) in graph.machines().iter().zip(&orders.operations) {
        let end = order.last().map_or(NO_PATH, |&number| ends[number as usize]);
        let last = &mut last[machine.flush as usize];
        *last = (*last).max(end);
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
