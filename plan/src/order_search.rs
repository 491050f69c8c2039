//! Search of orders for the best set-ups of a plan, against those with published schedules.
//!
//! A search takes thousands of times as long as a published order, so it is run for few set-ups: those
//! with the parallel degrees of the best ones whose lower bound is not slower.

use pipeline::Nanos;
use sim::Replay;

use crate::costed::{Costed, Rejected};
use crate::finalist::Finalist;
use crate::inputs::Inputs;
use crate::limits;
use crate::search::{Watch, first_that_fits};
use crate::searched;
use crate::setup::Setup;

/// Settings of the search of orders.
#[derive(Clone, Copy)]
pub struct OrderSearch<'a> {
    /// Turns a set-up whose order is to be searched into the one to run, with its software; `None`
    /// where it is not allowed.
    pub may: &'a (dyn Fn(Setup) -> Option<Setup> + Sync),
    /// Whether set-ups with published schedules may win, or only give the parallel degrees.
    pub published: bool,
    /// Set-ups to return.
    pub count: usize,
    /// Most set-ups whose orders are searched.
    pub searches: usize,
    /// Whether layers are assigned to chunks together with those orders.
    pub assigns_layers: bool,
}

/// How many set-ups had their order searched, and how many did not.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SearchCounts {
    /// Set-ups whose order was searched.
    pub searched: u64,
    /// Set-ups whose lower bound is slower than the best plan, or that were skipped.
    pub pruned: u64,
    /// Set-ups that no device holds, or that are invalid.
    pub impossible: u64,
}

/// The best of `best`, which have published schedules, and of set-ups with the same parallel degrees
/// whose orders are searched. A searched one is among them if it is faster than all published ones; the
/// fastest published one stays where there is room for two.
#[must_use]
pub fn search_orders(
    inputs: &Inputs<'_>,
    best: Vec<Finalist>,
    search: OrderSearch<'_>,
    watch: Watch<'_>,
) -> (Vec<Finalist>, SearchCounts) {
    let mut searches = SearchCounts::default();
    let candidates = candidates(inputs, &best, search, &mut searches);
    let fastest = best.iter().map(|one| one.step).min().filter(|_| search.published);
    let mut found: Vec<Finalist> = Vec::new();
    for (least, costed) in candidates {
        let is_slower = fastest.is_some_and(|known| least >= known);
        // Once there is one, another must be worth its search.
        let known = found.iter().map(|one| one.step).min().filter(|_| search.published);
        let is_enough = searches.searched >= search.searches as u64
            || known.is_some_and(|known| !limits::saves(least, known));
        if is_slower || is_enough || (watch.stop)() {
            searches.pruned += 1;
            continue;
        }
        searches.searched += 1;
        let all = inputs.evaluate_all(&costed, &mut Replay::new(), watch.orders);
        let run = all.map_err(Into::into).and_then(|all| inputs.settle(all, watch.orders));
        let Ok(run) = run else { continue };
        let run = if search.assigns_layers {
            inputs.with_layers_assigned(run, watch.orders)
        } else {
            run
        };
        if fastest.is_none_or(|known| run.step < known) {
            found.push(run);
        }
    }
    (merged(best, found, search), searches)
}

/// The set-ups to search orders for, each with the lower bound of its step: first the one with the
/// degrees of the best, which is sure to run, then the rest, ascending.
fn candidates(
    inputs: &Inputs<'_>,
    best: &[Finalist],
    search: OrderSearch<'_>,
    searches: &mut SearchCounts,
) -> Vec<(Nanos, Costed)> {
    let mut setups: Vec<Setup> = Vec::new();
    for own in best.iter().map(|one| &one.costed().setup).filter(|own| own.pipeline > 1) {
        let looped = Some(own.chunks).filter(|chunks| *chunks > 2);
        for chunks in [1, 2].into_iter().chain(looped) {
            let setup = (search.may)(own.with_order_searched(chunks));
            setups.extend(setup.filter(|setup| !setups.contains(setup)));
        }
    }
    let first = setups.first().copied();
    let mut all = Vec::new();
    for setup in &setups {
        match first_that_fits(setup, |setup| candidate(inputs, setup)) {
            Ok((least, costed)) => {
                let is_first = first.is_some_and(|first| setup.divides_as(&first));
                all.push((!is_first, least, costed));
            }
            Err(_) => searches.impossible += 1,
        }
    }
    // Ties go to the first: the better set-up.
    all.sort_by_key(|(behind, least, _)| (*behind, *least));
    // Only one chunk count of the best goes first; the rest is sorted by the bound alone.
    if let Some(rest) = all.get_mut(1..) {
        rest.sort_by_key(|(_, least, _)| *least);
    }
    all.into_iter().map(|(_, least, costed)| (least, costed)).collect()
}

/// The costs of `setup`, and the lower bound of its step under the largest limit that its devices hold.
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
    search: OrderSearch<'_>,
) -> Vec<Finalist> {
    if search.published {
        found.sort_by_key(|one| one.step);
        found.truncate(search.count.saturating_sub(1).max(1));
    } else {
        // A pipeline of one stage has no order to search.
        published.retain(|one| one.costed().setup.pipeline == 1);
    }
    let mut all = found;
    all.append(&mut published);
    all.sort_by_key(|one| one.step);
    all.truncate(search.count);
    all
}
