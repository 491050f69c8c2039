//! Set-ups whose orders are searched, against the best of those that have a published schedule.
//!
//! A search takes thousands of times as long as a published order, so there is one for few set-ups: those
//! that devices are shared in as in the best, and of which a lower bound does not say that they are slower.

use pipeline::Nanos;
use sim::Replay;

use crate::costed::{Costed, Rejected};
use crate::finalist::Finalist;
use crate::inputs::Inputs;
use crate::limits;
use crate::search::Watch;
use crate::searched;
use crate::setup::Setup;

/// Which set-ups compete.
#[derive(Clone, Copy)]
pub struct Contest<'a> {
    /// A set-up whose order is searched, with its software, if it may.
    pub may: &'a (dyn Fn(Setup) -> Option<Setup> + Sync),
    /// Whether those with published schedules do, or only say how devices are shared.
    pub published: bool,
    /// How many set-ups are wanted.
    pub count: usize,
    /// For how many set-ups orders are searched at most.
    pub searches: usize,
    /// Whether layers are dealt together with those orders.
    pub deals: bool,
}

/// What became of the set-ups whose orders might have been searched.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Searches {
    /// Those that were.
    pub searched: u64,
    /// Those whose lower bound is slower than the best plan, or that were not looked at any more.
    pub pruned: u64,
    /// Those that no device holds or that cannot be.
    pub impossible: u64,
}

/// The best of `best`, which have published schedules and stand by their steps, and of set-ups that share
/// devices as they do, whose orders are searched. A searched one is among them if it is faster than all
/// published ones; the fastest of these stays where there is room for two.
#[must_use]
pub fn compete(
    inputs: &Inputs<'_>,
    best: Vec<Finalist>,
    contest: Contest<'_>,
    watch: Watch<'_>,
) -> (Vec<Finalist>, Searches) {
    let mut searches = Searches::default();
    let candidates = candidates(inputs, &best, contest, &mut searches);
    let fastest = best.iter().map(|one| one.step).min().filter(|_| contest.published);
    let mut found: Vec<Finalist> = Vec::new();
    for (least, costed) in candidates {
        let is_slower = fastest.is_some_and(|known| least >= known);
        // Once there is one, another must be worth its search.
        let known = found.iter().map(|one| one.step).min().filter(|_| contest.published);
        let is_enough = searches.searched >= contest.searches as u64
            || known.is_some_and(|known| !limits::saves(least, known));
        if is_slower || is_enough || (watch.stop)() {
            searches.pruned += 1;
            continue;
        }
        searches.searched += 1;
        let all = inputs.evaluate_all(&costed, &mut Replay::new(), watch.orders);
        let run = all.map_err(Into::into).and_then(|all| inputs.settle(all, watch.orders));
        let Ok(run) = run else { continue };
        let run = if contest.deals { inputs.with_layers_dealt(run, watch.orders) } else { run };
        if fastest.is_none_or(|known| run.step < known) {
            found.push(run);
        }
    }
    (merged(best, found, contest), searches)
}

/// The set-ups to search orders for, with the least that their steps take: first that of the best, which is
/// sure to run, then all others, ascending.
fn candidates(
    inputs: &Inputs<'_>,
    best: &[Finalist],
    contest: Contest<'_>,
    searches: &mut Searches,
) -> Vec<(Nanos, Costed)> {
    let mut setups: Vec<Setup> = Vec::new();
    for own in best.iter().map(|one| &one.costed().setup).filter(|own| own.pipeline > 1) {
        let looped = Some(own.chunks).filter(|chunks| *chunks > 2);
        for chunks in [1, 2].into_iter().chain(looped) {
            let setup = (contest.may)(own.with_order_searched(chunks));
            setups.extend(setup.filter(|setup| !setups.contains(setup)));
        }
    }
    let first = setups.first().copied();
    let mut all = Vec::new();
    for setup in &setups {
        match candidate(inputs, setup) {
            Ok((least, costed)) => {
                let is_first = first.is_some_and(|first| setup.divides_as(&first));
                all.push((!is_first, least, costed));
            }
            Err(_) => searches.impossible += 1,
        }
    }
    // Of those that take as long, the first: that of the better set-up.
    all.sort_by_key(|(behind, least, _)| (*behind, *least));
    // One number of chunks of the best; the others wait as all do.
    if let Some(rest) = all.get_mut(1..) {
        rest.sort_by_key(|(_, least, _)| *least);
    }
    all.into_iter().map(|(_, least, costed)| (least, costed)).collect()
}

/// The costs of `setup`, and the least that its step takes under the largest limit that it has room for.
fn candidate(inputs: &Inputs<'_>, setup: &Setup) -> Result<(Nanos, Costed), Rejected> {
    let costed = inputs.cost(setup)?;
    inputs.check_least(&costed)?;
    if !searched::is_small(&costed) || !searched::is_known(&costed) {
        return Err(crate::setup::Unfit::TooLarge.into());
    }
    let limit = limits::ample(&costed).last().or_else(|| limits::scarce(&costed).next());
    let least = searched::least(&costed, limit).map_err(Rejected::Schedule)?;
    Ok((least, costed))
}

/// The fastest of `published` and `found`.
fn merged(
    mut published: Vec<Finalist>,
    mut found: Vec<Finalist>,
    contest: Contest<'_>,
) -> Vec<Finalist> {
    if contest.published {
        found.sort_by_key(|one| one.step);
        found.truncate(contest.count.saturating_sub(1).max(1));
    } else {
        // A pipeline of one stage has no order to search.
        published.retain(|one| one.costed().setup.pipeline == 1);
    }
    let mut all = found;
    all.append(&mut published);
    all.sort_by_key(|one| one.step);
    all.truncate(contest.count);
    all
}
