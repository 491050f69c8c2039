//! The passes of one rank: runs of operators of which autograd evaluates nodes later, and runs of
//! those nodes. Between two runs of a kind lies a run of the other, or a message.

use std::collections::{BTreeMap, BTreeSet};

use pipeline::{Kind, Nanos};

use super::messages::{self, Message};
use super::{Node, Observed, Operator, Span, sends};
use crate::error::Untold;

/// A pass of a rank as the host saw it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Pass {
    pub(super) kind: Kind,
    pub(super) span: Span,
    /// Which forward pass of the rank it is, or belongs to.
    pub(super) forward: usize,
    /// Whether its value goes to another rank.
    pub(super) sends: bool,
}

/// The passes of a rank by start, and the ranks that it sends to, where they are known: outputs, and
/// gradients.
pub(super) struct Passes {
    pub(super) passes: Vec<Pass>,
    pub(super) next: Option<u32>,
    pub(super) previous: Option<u32>,
}

/// A run of operators, or of nodes.
struct Run {
    is_forward: bool,
    span: Span,
    /// Numbers of the operators in it, or of those whose nodes it has.
    sequences: Vec<i64>,
}

/// What stands in the order of time.
pub(super) enum Entry {
    Pass(Pass),
    Message(Message),
}

/// The passes of `rank`.
pub(super) fn of(observed: &mut Observed, rank: u32) -> Result<Passes, Untold> {
    let nodes = std::mem::take(&mut observed.nodes);
    if nodes.is_empty() {
        return Err(Untold::NoAutograd { rank });
    }
    let evaluated = Cover::of(nodes.iter().map(|one| one.span));
    let mut messages = messages::merged(std::mem::take(&mut observed.messages));
    messages.retain(|one| !evaluated.has(one.span));
    let thread = most_common(messages.iter().map(|one| one.thread));
    let thread = thread.ok_or(Untold::NoSends { rank })?;
    messages.retain(|one| one.thread == thread);
    let home = most_common(nodes.iter().filter_map(|one| Some(one.of?.0))).unwrap_or(0);
    let number = |node: &Node| node.of.filter(|(thread, _)| *thread == home).map(|(_, at)| at);
    let linked: BTreeSet<i64> = nodes.iter().filter_map(number).collect();
    let operators = std::mem::take(&mut observed.operators).into_iter();
    let operators = operators.filter(|one| one.thread == thread && !evaluated.has(one.span));
    let operators = makers(operators.filter(|one| linked.contains(&one.sequence)));
    let computed = Cover::of(operators.values().copied());
    messages.retain(|one| !computed.has(one.span));
    let mut items: Vec<(Span, Item)> = Vec::new();
    items.extend(nodes.iter().map(|node| (node.span, Item::Node(number(node)))));
    items.extend(operators.iter().map(|(&at, &span)| (span, Item::Operator(at))));
    items.extend(messages.into_iter().map(|one| (one.span, Item::Message(one))));
    items.sort_by_key(|(span, _)| *span);
    let (runs, order) = runs(groups(items));
    let mut entries = passes(&runs, &operators, order, rank)?;
    begin_on_arrival(&mut entries, std::mem::take(&mut observed.arrivals));
    sends::resolve(entries, rank)
}

/// The operator that made the node of each number: the last that begins with it, for those that make
/// none have the number of the next.
fn makers(operators: impl Iterator<Item = Operator>) -> BTreeMap<i64, Span> {
    let mut makers: BTreeMap<i64, Span> = BTreeMap::new();
    for one in operators {
        let span = makers.entry(one.sequence).or_insert(one.span);
        *span = (*span).max(one.span);
    }
    makers
}

enum Item {
    Operator(i64),
    Node(Option<i64>),
    Message(Message),
}

/// Items of one kind, with nothing else between them.
enum Group {
    Operators(Vec<(Span, i64)>),
    Nodes(Vec<(Span, Option<i64>)>),
    Message(Message),
}

fn groups(items: Vec<(Span, Item)>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (span, item) in items {
        match (groups.last_mut(), item) {
            (Some(Group::Operators(all)), Item::Operator(number)) => all.push((span, number)),
            (_, Item::Operator(number)) => groups.push(Group::Operators(vec![(span, number)])),
            (Some(Group::Nodes(all)), Item::Node(number)) => all.push((span, number)),
            (_, Item::Node(number)) => groups.push(Group::Nodes(vec![(span, number)])),
            (_, Item::Message(message)) => groups.push(Group::Message(message)),
        }
    }
    groups
}

/// A run, by its place, or a message.
enum Placed {
    Run(usize),
    Message(Message),
}

/// The runs in `groups`, and their order among the messages.
fn runs(groups: Vec<Group>) -> (Vec<Run>, Vec<Placed>) {
    let mut runs: Vec<Run> = Vec::new();
    let mut order = Vec::new();
    // The run of the operator of each number so far.
    let mut of_number: BTreeMap<i64, usize> = BTreeMap::new();
    for group in groups {
        let first = runs.len();
        match group {
            Group::Message(message) => order.push(Placed::Message(message)),
            Group::Operators(all) => {
                of_number.extend(all.iter().map(|(_, number)| (*number, first)));
                let all = all.into_iter().map(|(span, number)| (span, Some(number)));
                runs.extend(Run::of(all.collect(), true));
            }
            Group::Nodes(all) => {
                let owner = |number: &Option<i64>| of_number.get(&(*number)?).copied();
                let owners = all.iter().map(|(_, number)| owner(number)).collect();
                let parts = apart(all, owners);
                runs.extend(parts.into_iter().filter_map(|part| Run::of(part, false)));
            }
        }
        order.extend((first..runs.len()).map(Placed::Run));
    }
    (runs, order)
}

/// A node, by when it was evaluated and the number of its operator.
type Evaluated = (Span, Option<i64>);

/// Splits nodes between two backward passes, one after the other: where no owner has nodes on both sides.
fn apart(nodes: Vec<Evaluated>, owners: Vec<Option<usize>>) -> Vec<Vec<Evaluated>> {
    let mut last: BTreeMap<usize, usize> = BTreeMap::new();
    let known = owners.iter().enumerate().filter_map(|(at, owner)| Some(((*owner)?, at)));
    last.extend(known);
    let mut parts: Vec<Vec<Evaluated>> = vec![Vec::new()];
    let mut until = None;
    for ((at, node), owner) in nodes.into_iter().enumerate().zip(owners) {
        // What accumulates gradients belongs to the nodes before it.
        if let Some(owner) = owner {
            if until.is_some_and(|until| at > until) {
                parts.push(Vec::new());
            }
            until = until.max(last.get(&owner).copied());
        }
        if let Some(part) = parts.last_mut() {
            part.push(node);
        }
    }
    parts
}

impl Run {
    fn of(members: Vec<Evaluated>, is_forward: bool) -> Option<Self> {
        let span = members.iter().map(|(span, _)| *span).reduce(Span::hull)?;
        let sequences = members.into_iter().filter_map(|(_, number)| number).collect();
        Some(Self { is_forward, span, sequences })
    }
}

/// The passes among `runs`, and the messages, in the order of time.
fn passes(
    runs: &[Run],
    operators: &BTreeMap<i64, Span>,
    order: Vec<Placed>,
    rank: u32,
) -> Result<Vec<Entry>, Untold> {
    let forwards = || runs.iter().enumerate().filter(|(_, run)| run.is_forward);
    let of_number: BTreeMap<i64, usize> =
        forwards().flat_map(|(at, run)| run.sequences.iter().map(move |one| (*one, at))).collect();
    // What several forward passes need is made before them: the last one is that of the nodes.
    let target = |run: &Run| run.sequences.iter().filter_map(|one| of_number.get(one)).max();
    let targets: Vec<Option<usize>> = runs
        .iter()
        .map(|run| if run.is_forward { None } else { target(run).copied() })
        .collect();
    let mut users: BTreeMap<i64, BTreeSet<usize>> = BTreeMap::new();
    for (run, target) in runs.iter().zip(&targets) {
        for (number, target) in run.sequences.iter().zip(target.iter().cycle()) {
            users.entry(*number).or_default().insert(*target);
        }
    }
    let mut spans: BTreeMap<usize, Span> = BTreeMap::new();
    for (at, run) in forwards() {
        let own = run.sequences.iter().filter(|one| is_of(&users, **one, at));
        let own = own.filter_map(|one| operators.get(one)).copied().reduce(Span::hull);
        match own {
            Some(span) => drop(spans.insert(at, span)),
            // Made once for several passes, such as microbatches that are cut out of a batch.
            None if users_of(&users, run).len() > 1 => {}
            None => return Err(Untold::Pieces { rank }),
        }
    }
    let numbers: BTreeMap<usize, usize> = spans.keys().copied().zip(0..).collect();
    let mut parts: BTreeMap<usize, usize> = BTreeMap::new();
    targets.iter().flatten().for_each(|target| *parts.entry(*target).or_default() += 1);
    let mut done: BTreeSet<usize> = BTreeSet::new();
    let mut entries = Vec::new();
    for placed in order {
        let at = match placed {
            Placed::Message(message) => {
                entries.push(Entry::Message(message));
                continue;
            }
            Placed::Run(at) => at,
        };
        let (kind, of, span) = match (targets[at], spans.get(&at)) {
            (_, Some(&span)) => (Kind::F, at, span),
            (Some(of), None) => {
                let kind = match (parts[&of], done.insert(of)) {
                    (1, _) => Kind::BW,
                    (2, true) => Kind::B,
                    (2, false) => Kind::W,
                    (parts, _) => return Err(Untold::Parts { rank, parts }),
                };
                (kind, of, runs[at].span)
            }
            (None, None) => continue,
        };
        let Some(&forward) = numbers.get(&of) else { continue };
        entries.push(Entry::Pass(Pass { kind, span, forward, sends: false }));
    }
    Ok(entries)
}

/// Lets a pass on a host begin when the last transfer ended that the host waited for after what was before it:
/// from then on, it prepares the first operator.
fn begin_on_arrival(entries: &mut [Entry], mut arrivals: Vec<Nanos>) {
    arrivals.sort_unstable();
    let mut before = None;
    for entry in entries {
        let span = match entry {
            Entry::Message(message) => &mut message.span,
            Entry::Pass(pass) => &mut pass.span,
        };
        let arrived = arrivals.partition_point(|at| *at <= span.start);
        let arrived = arrived.checked_sub(1).map(|at| arrivals[at]);
        let is_awaited = |at: &Nanos| before.is_some_and(|before| before <= *at);
        let end = span.end;
        if let (Some(at), Entry::Pass(pass)) = (arrived.filter(is_awaited), &mut *entry) {
            pass.span.start = at;
        }
        before = Some(end);
    }
}

/// Whether the node of `number` belongs to the forward run at `at` alone.
fn is_of(users: &BTreeMap<i64, BTreeSet<usize>>, number: i64, at: usize) -> bool {
    users.get(&number).is_some_and(|users| users.len() == 1 && users.contains(&at))
}

/// The forward runs whose backward passes have nodes of `run`.
fn users_of(users: &BTreeMap<i64, BTreeSet<usize>>, run: &Run) -> BTreeSet<usize> {
    run.sequences.iter().filter_map(|one| users.get(one)).flatten().copied().collect()
}

/// Time that is covered by spans.
struct Cover(Vec<Span>);

impl Cover {
    fn of(spans: impl Iterator<Item = Span>) -> Self {
        let mut spans: Vec<Span> = spans.collect();
        spans.sort_unstable();
        let mut cover: Vec<Span> = Vec::new();
        for span in spans {
            match cover.last_mut() {
                Some(last) if span.start <= last.end => *last = last.hull(span),
                _ => cover.push(span),
            }
        }
        Self(cover)
    }

    /// Whether `span` lies within one that is covered.
    fn has(&self, span: Span) -> bool {
        let after = self.0.partition_point(|one| one.start <= span.start);
        after.checked_sub(1).is_some_and(|at| self.0[at].has(span))
    }
}

/// The value that comes most often, the least of equals.
fn most_common(values: impl Iterator<Item = i64>) -> Option<i64> {
    let mut counts: BTreeMap<i64, usize> = BTreeMap::new();
    values.for_each(|value| *counts.entry(value).or_default() += 1);
    let most = counts.into_iter().max_by_key(|(value, count)| (*count, std::cmp::Reverse(*value)));
    most.map(|(value, _)| value)
}
