//! The shortest order of the segments of a slot, by an exact search without contention.
//!
//! An order grows by one segment at a time: the next of F, the next of B, or a W whose B segment is
//! behind it; of W segments that are alike, the one whose turn came first. Of two beginnings that have
//! done the same, one that is in no way later makes the other superfluous.

use std::collections::HashMap;

use super::compose::{Items, run};
use super::segment::{Part, Stream};
use crate::fault::Fault;

/// The beam width: the most prefixes that are expanded with the same number of segments done. Beyond it, those with
/// the highest bounds are dropped, and the order is the best found.
const MOST: usize = 4_000;
/// The most segments for which a search is made at all.
const MOST_ITEMS: usize = 640;

/// Ready times of streams, chains and open W, for one prefix of an order.
#[derive(Clone, PartialEq, Eq)]
struct Label {
    free: [u64; 2],
    /// The ends of the last segments of F and of B.
    chain: [u64; 2],
    /// When the open W of each kind are ready, first come first.
    open: Vec<Vec<u64>>,
    /// Its place in the tree of beginnings.
    node: usize,
}

impl Label {
    /// Whether it is nowhere later than `other`, which has done the same.
    fn dominates(&self, other: &Self) -> bool {
        let below = |one: &[u64], other: &[u64]| one.iter().zip(other).all(|(a, b)| a <= b);
        below(&self.free, &other.free)
            && below(&self.chain, &other.chain)
            && self.open.iter().zip(&other.open).all(|(a, b)| below(a, b))
    }
}

/// Numbers of segments in a prefix of an order: of F, of B, and of W by kind.
type Done = Vec<u16>;

struct Search<'a> {
    items: &'a Items<'a>,
    /// The items of F and of B, in their order.
    chains: [Vec<usize>; 2],
    /// By kind, the W items in the order of their B segments.
    weights: Vec<Vec<usize>>,
    /// By number of B segments done, how many W of each kind have become open.
    opened: Vec<Vec<u16>>,
    /// By segment of B, how many W of each kind must be done before it.
    needed: Vec<Vec<u16>>,
    /// By item, whether it is a W that a segment of B waits for.
    is_held: Vec<bool>,
    /// By chain, number of its segments done, and stream: the work left. The last is that of both.
    left: [Vec<[u64; 3]>; 2],
    /// By kind of W, and how many are done: the work left.
    weight_left: Vec<Vec<u64>>,
    /// The tree of prefixes: the parent, and the item.
    tree: Vec<(usize, usize)>,
    best: u64,
    best_node: Option<usize>,
}

/// The best order of `items`, and whether it is known that none is shorter; `start` is one to begin with.
pub(super) fn best(items: &Items<'_>, start: &[usize]) -> Result<(Vec<usize>, bool), Fault> {
    let plain = plain_duration(items, start)?;
    if plain == items.bound() || items.all.len() > MOST_ITEMS {
        return Ok((start.to_vec(), plain == items.bound()));
    }
    let mut search = Search::new(items, plain);
    let is_exhausted = search.run();
    let order = match search.best_node {
        Some(node) => search.order(node),
        None => start.to_vec(),
    };
    Ok((order, is_exhausted || search.best == items.bound()))
}

/// Duration of `order` without contention.
fn plain_duration(items: &Items<'_>, order: &[usize]) -> Result<u64, Fault> {
    let mut free = [0u64; 2];
    let mut ends = vec![0u64; items.all.len()];
    // The order must be one that does not block.
    run(&items.all, order)?;
    // A segment may come before one of the other stream that it waits for: repeat until all are done.
    let mut queues: [Vec<usize>; 2] = [Vec::new(), Vec::new()];
    order.iter().rev().for_each(|&item| queues[items.all[item].segment.stream as usize].push(item));
    let mut done = vec![false; items.all.len()];
    let mut moved = true;
    while std::mem::take(&mut moved) {
        for stream in Stream::ALL {
            while let Some(&item) = queues[stream as usize].last() {
                let needs = &items.all[item].needs;
                if !needs.iter().all(|&need| done[need]) {
                    break;
                }
                queues[stream as usize].pop();
                let ready = needs.iter().map(|&need| ends[need]).max().unwrap_or(0);
                ends[item] = free[stream as usize].max(ready) + items.all[item].segment.time.0;
                free[stream as usize] = ends[item];
                (done[item], moved) = (true, true);
            }
        }
    }
    Ok(free.into_iter().max().unwrap_or(0))
}

/// Number of W of each kind of `weights` that must be done before `item` of B.
fn weights_needed(items: &Items<'_>, weights: &[Vec<usize>], item: usize) -> Vec<u16> {
    let needs = &items.all[item].needs;
    let counts = weights.iter().map(|all| {
        let last = all.iter().rposition(|weight| needs.contains(weight));
        last.map_or(0, |last| u16::try_from(last + 1).unwrap_or(u16::MAX))
    });
    counts.collect()
}

/// By how many segments of `chain` are done, what is left of it on each stream, and on both.
fn work_left(items: &Items<'_>, chain: &[usize]) -> Vec<[u64; 3]> {
    let mut left = vec![[0; 3]];
    for &item in chain.iter().rev() {
        let segment = items.all[item].segment;
        let mut more = left[left.len() - 1];
        more[segment.stream as usize] += segment.time.0;
        more[2] += segment.time.0;
        left.push(more);
    }
    left.reverse();
    left
}

impl<'a> Search<'a> {
    fn new(items: &'a Items<'a>, best: u64) -> Self {
        let of = |part| -> Vec<usize> {
            (0..items.all.len()).filter(|&item| items.all[item].part == part).collect()
        };
        let chains = [of(Part::F), of(Part::B)];
        let mut kinds: HashMap<(&str, u64), usize> = HashMap::new();
        let mut weights: Vec<Vec<usize>> = Vec::new();
        let mut kind_of = HashMap::new();
        for item in of(Part::W) {
            let segment = items.all[item].segment;
            let kind = *kinds.entry((segment.name.as_str(), segment.time.0)).or_insert_with(|| {
                weights.push(Vec::new());
                weights.len() - 1
            });
            weights[kind].push(item);
            kind_of.insert(item, kind);
        }
        let mut opened = vec![vec![0; weights.len()]];
        for &item in &chains[1] {
            let mut counts = opened[opened.len() - 1].clone();
            for (&weight, &kind) in &kind_of {
                counts[kind] += u16::from(items.all[weight].needs.contains(&item));
            }
            opened.push(counts);
        }
        let needed = chains[1].iter().map(|&item| weights_needed(items, &weights, item)).collect();
        let mut is_held = vec![false; items.all.len()];
        for need in chains[1].iter().flat_map(|&item| &items.all[item].needs) {
            is_held[*need] = items.all[*need].part == Part::W;
        }
        let left = [0, 1].map(|chain: usize| work_left(items, &chains[chain]));
        let of_kind = |kind: &Vec<usize>| {
            let mut left = vec![0];
            for &item in kind.iter().rev() {
                left.push(left[left.len() - 1] + items.all[item].segment.time.0);
            }
            left.reverse();
            left
        };
        let weight_left = weights.iter().map(of_kind).collect();
        let (tree, best_node) = (Vec::new(), None);
        Self {
            items,
            chains,
            weights,
            opened,
            needed,
            is_held,
            left,
            weight_left,
            tree,
            best,
            best_node,
        }
    }

    /// Expands all prefixes level by level, one segment at a time; returns whether none was dropped unexpanded.
    fn run(&mut self) -> bool {
        let first = Label {
            free: [0; 2],
            chain: [0; 2],
            open: vec![Vec::new(); self.weights.len()],
            node: usize::MAX,
        };
        let mut level: Vec<(Done, Label)> = vec![(vec![0; 2 + self.weights.len()], first)];
        let mut is_exhausted = true;
        for _ in 0..self.items.all.len() {
            let mut next: HashMap<Done, Vec<Label>> = HashMap::new();
            let mut order: Vec<Done> = Vec::new();
            for (done, label) in &level {
                for choice in 0..done.len() {
                    let Some((done, label)) = self.append(done, label, choice) else { continue };
                    let labels = next.entry(done.clone()).or_insert_with(|| {
                        order.push(done);
                        Vec::new()
                    });
                    if labels.iter().any(|other| other.dominates(&label)) {
                        continue;
                    }
                    labels.retain(|other| !label.dominates(other));
                    labels.push(label);
                }
            }
            level = Vec::new();
            for done in order {
                let labels = next.remove(&done).unwrap_or_default();
                level.extend(labels.into_iter().map(|label| (done.clone(), label)));
            }
            if level.len() > MOST {
                is_exhausted = false;
                level.sort_by_cached_key(|(done, label)| (self.bound(done, label), label.node));
                level.truncate(MOST);
            }
        }
        for (_, label) in level {
            let end = label.free.into_iter().max().unwrap_or(0);
            if end < self.best {
                (self.best, self.best_node) = (end, Some(label.node));
            }
        }
        is_exhausted
    }

    /// The beginning with one segment more: the next of F, of B, or of a kind of W; none if there is no
    /// such segment, or it cannot become shorter than the best.
    fn append(&mut self, done: &Done, label: &Label, choice: usize) -> Option<(Done, Label)> {
        let at = usize::from(done[choice]);
        let item = match choice {
            0 | 1 => *self.chains[choice].get(at)?,
            _ => *self.weights[choice - 2].get(at)?,
        };
        let mut next = label.clone();
        let ready = match choice {
            0 => label.chain[0],
            1 => {
                if self.needed[at].iter().zip(&done[2..]).any(|(needed, done)| needed > done) {
                    return None;
                }
                label.chain[1]
            }
            _ if next.open[choice - 2].is_empty() => return None,
            _ => next.open[choice - 2].remove(0),
        };
        let segment = self.items.all[item].segment;
        let free = &mut next.free[segment.stream as usize];
        let end = (*free).max(ready) + segment.time.0;
        *free = end;
        match choice {
            0 => next.chain[0] = end,
            1 => {
                next.chain[1] = end;
                for (kind, open) in next.open.iter_mut().enumerate() {
                    let more = self.opened[at + 1][kind] - self.opened[at][kind];
                    open.extend(std::iter::repeat_n(end, usize::from(more)));
                }
            }
            // Where W is done with B, the chain continues after it.
            _ if self.is_held[item] => next.chain[1] = next.chain[1].max(end),
            _ => {}
        }
        // A W ready before its stream is free starts no sooner than one ready when it is.
        let compute = next.free[Stream::Compute as usize];
        next.open.iter_mut().flatten().for_each(|ready| *ready = (*ready).max(compute));
        let mut all = done.clone();
        all[choice] += 1;
        for ((ready, chain), &done) in next.chain.iter_mut().zip(&self.chains).zip(&all) {
            if let Some(&item) = chain.get(usize::from(done)) {
                let stream = self.items.all[item].segment.stream as usize;
                *ready = (*ready).max(next.free[stream]);
            }
        }
        if self.bound(&all, &next) >= self.best {
            return None;
        }
        self.tree.push((label.node, item));
        next.node = self.tree.len() - 1;
        Some((all, next))
    }

    /// Lower bound on the end of any completion of `label`.
    fn bound(&self, done: &Done, label: &Label) -> u64 {
        let [up, down] = [0, 1].map(|chain: usize| self.left[chain][usize::from(done[chain])]);
        let weights = self.weight_left.iter().zip(&done[2..]);
        let weight: u64 = weights.map(|(left, &done)| left[usize::from(done)]).sum();
        let work = [up[0] + down[0] + weight, up[1] + down[1]];
        let ends = label.free.iter().zip(work).chain(label.chain.iter().zip([up[2], down[2]]));
        ends.map(|(from, more)| from + more).max().unwrap_or(0)
    }

    /// The whole order that ends in `node`.
    fn order(&self, mut node: usize) -> Vec<usize> {
        let mut order = Vec::with_capacity(self.items.all.len());
        while let Some(&(before, item)) = self.tree.get(node) {
            order.push(item);
            node = before;
        }
        order.reverse();
        order
    }
}
