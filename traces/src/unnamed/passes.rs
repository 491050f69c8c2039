//! The passes of one rank: runs of operators of which autograd evaluates nodes later, and runs of
//! those nodes. Between two runs of a kind lies a run of the other, or a message.

use std::collections::{BTreeMap, BTreeSet};

use pipeline::{Kind, Nanos};

use super::messages::{self, Message};
use super::{Node, Observed, Operator, Span};
use crate::error::NotInferred;

/// A pass of a rank as the host saw it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Pass {
    pub(super) kind: Kind,
    pub(super) span: Span,
    /// Which forward pass of the rank it is, or belongs to.
    pub(super) forward: usize,
    /// Whether its value goes to another rank.
    pub(super) sends: bool,
    /// Until when the host posts messages after it without waiting for any.
    pub(super) posts_until: Nanos,
}

/// A run of operators, or of nodes.
struct Run {
    is_forward: bool,
    span: Span,
    /// Numbers of the operators in it, or of those whose nodes it has.
    sequences: Vec<i64>,
}

/// Operations in the order of time.
pub(super) enum Entry {
    Pass(Pass),
    Message(Message),
}

pub(super) fn of(observed: &mut Observed, rank: u32) -> Result<Vec<Entry>, NotInferred> {
    let nodes = outermost(std::mem::take(&mut observed.nodes));
    if nodes.is_empty() {
        return Err(NotInferred::NoAutograd { rank });
    }
    let evaluated = Cover::of(nodes.iter().map(|one| one.span));
    let mut messages = messages::merged(std::mem::take(&mut observed.messages));
    messages.retain(|one| !evaluated.has(one.span));
    let thread = most_common(messages.iter().map(|one| one.thread));
    let thread = thread.ok_or(NotInferred::NoSends { rank })?;
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
    let begins = observed.steps.iter().map(|(_, span)| span.start).collect();
    wait_for_arrivals(&mut entries, std::mem::take(&mut observed.arrivals), begins);
    Ok(entries)
}

/// The nodes in order, without those that are evaluated within another, as where a pass is recomputed.
fn outermost(mut nodes: Vec<Node>) -> Vec<Node> {
    nodes.sort_by_key(|one| (one.span.start, std::cmp::Reverse(one.span.end)));
    let mut outer: Option<Span> = None;
    nodes.retain(|one| {
        let is_inner = outer.is_some_and(|outer| outer.has(one.span));
        outer = if is_inner { outer } else { Some(one.span) };
        !is_inner
    });
    nodes
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
        // Accumulation of gradients belongs to the nodes before it.
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
) -> Result<Vec<Entry>, NotInferred> {
    let targets = targets(runs);
    let spans = forward_spans(runs, &targets, operators, rank)?;
    let numbers: BTreeMap<usize, usize> = spans.keys().copied().zip(0..).collect();
    let mut parts: BTreeMap<usize, usize> = BTreeMap::new();
    targets.iter().flatten().for_each(|target| *parts.entry(*target).or_default() += 1);
    let mut begun: BTreeSet<usize> = BTreeSet::new();
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
                let kind = match (parts[&of], begun.insert(of)) {
                    (1, _) => Kind::BW,
                    (2, true) => Kind::B,
                    (2, false) => Kind::W,
                    (parts, _) => return Err(NotInferred::Parts { rank, parts }),
                };
                (kind, of, runs[at].span)
            }
            (None, None) => continue,
        };
        let Some(&forward) = numbers.get(&of) else { continue };
        let posts_until = span.end;
        entries.push(Entry::Pass(Pass { kind, span, forward, sends: false, posts_until }));
    }
    Ok(entries)
}

/// For each run of nodes, the run of its operators. What several forward passes need is made before them, so that
/// the last run is that of the pass.
fn targets(runs: &[Run]) -> Vec<Option<usize>> {
    let forwards = runs.iter().enumerate().filter(|(_, run)| run.is_forward);
    let of_number: BTreeMap<i64, usize> =
        forwards.flat_map(|(at, run)| run.sequences.iter().map(move |one| (*one, at))).collect();
    let target =
        |run: &Run| run.sequences.iter().filter_map(|one| of_number.get(one)).max().copied();
    runs.iter().map(|run| if run.is_forward { None } else { target(run) }).collect()
}

/// When each forward pass ran: the operators of it alone.
fn forward_spans(
    runs: &[Run],
    targets: &[Option<usize>],
    operators: &BTreeMap<i64, Span>,
    rank: u32,
) -> Result<BTreeMap<usize, Span>, NotInferred> {
    // The forward passes that need the operator of a number.
    let mut users: BTreeMap<i64, BTreeSet<usize>> = BTreeMap::new();
    for (run, target) in runs.iter().zip(targets) {
        for number in target.iter().flat_map(|_| &run.sequences) {
            users.entry(*number).or_default().extend(*target);
        }
    }
    let mut spans = BTreeMap::new();
    for (at, run) in runs.iter().enumerate().filter(|(_, run)| run.is_forward) {
        let is_own = |one: &&i64| users.get(one).is_some_and(|users| users.iter().eq([&at]));
        let own = run.sequences.iter().filter(is_own).filter_map(|one| operators.get(one));
        let needed = || run.sequences.iter().filter_map(|one| users.get(one)).flatten();
        let first = needed().next();
        match own.copied().reduce(Span::hull) {
            Some(span) => drop(spans.insert(at, span)),
            // Made once for several passes, such as microbatches that are cut out of a batch.
            None if needed().any(|one| Some(one) != first) => {}
            None => return Err(NotInferred::Pieces { rank }),
        }
    }
    Ok(spans)
}

/// Lets a pass on a host begin when the last transfer ended that the host waited for after what was before it:
/// from then on, it prepares the first operator. If none did, that began at once, but for the first pass of a step:
/// `begins` are those of the steps. After a pass, the host posts messages until it waits.
fn wait_for_arrivals(entries: &mut [Entry], mut arrivals: Vec<Nanos>, mut begins: Vec<Nanos>) {
    arrivals.sort_unstable();
    begins.sort_unstable();
    let step = |at: Nanos| begins.partition_point(|begin| *begin <= at);
    // Whether the trace shows what the host waits for, and in which step.
    let is_known = !arrivals.is_empty() && !begins.is_empty();
    // Of two times, the last arrival from the first on.
    let within = |from: Nanos, to: Nanos| {
        let last = arrivals.partition_point(|at| *at <= to).checked_sub(1)?;
        Some(arrivals[last]).filter(|at| *at >= from)
    };
    let mut before = None;
    // The last pass, while the host has not waited.
    let mut posts: Option<usize> = None;
    for at in 0..entries.len() {
        let (from, end) = match &mut entries[at] {
            Entry::Pass(pass) => {
                let first = pass.span.start;
                let at_once =
                    before.filter(|at| is_known && *at <= first && step(*at) == step(first));
                let arrival = before.and_then(|before| within(before, first));
                pass.span.start = arrival.or(at_once).unwrap_or(first);
                posts = Some(at);
                before = Some(pass.span.end);
                continue;
            }
            Entry::Message(message) => (message.span.start, message.span.end),
        };
        if let Some(Entry::Pass(pass)) = posts.and_then(|at| entries.get_mut(at)) {
            match within(pass.posts_until, from) {
                None => pass.posts_until = pass.posts_until.max(end),
                Some(_) => posts = None,
            }
        }
        before = Some(end);
    }
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
