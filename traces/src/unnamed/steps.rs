//! Which step a pass belongs to: that of `ProfilerStep#N`, or the next as soon as the first stage has
//! no forward pass under way.

use std::collections::BTreeMap;

use pipeline::Kind;

use super::rank::Rank;
use crate::error::NotInferred;
use crate::lack::Lack;

/// The step of each forward pass of a rank; none of one that is left out.
type Steps = Vec<Option<u64>>;

/// The steps of each of `ranks`, which are the stages of a pipeline.
pub(super) fn of(ranks: &[&Rank]) -> Result<(Vec<Steps>, Option<Lack>), NotInferred> {
    let named = ranks.iter().all(|rank| !rank.steps.is_empty());
    let mut steps: Vec<Steps> = match named {
        true => ranks.iter().map(|rank| by_name(rank)).collect(),
        false => by_repetition(ranks)?,
    };
    let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
    steps.iter().flatten().flatten().for_each(|step| *counts.entry(*step).or_default() += 1);
    let most = counts.values().copied().max().unwrap_or(0);
    let ends = [counts.first_key_value(), counts.last_key_value()].into_iter().flatten();
    let mut cut: Vec<u64> =
        ends.filter(|(_, count)| **count < most).map(|(step, _)| *step).collect();
    cut.dedup();
    for step in steps.iter_mut().flatten() {
        *step = step.filter(|step| !cut.contains(step));
    }
    let lack = (!cut.is_empty()).then_some(Lack::CutSteps { steps: cut });
    Ok((steps, lack))
}

fn by_name(rank: &Rank) -> Steps {
    let forwards = rank.passes.iter().filter(|(pass, _)| pass.kind == Kind::F);
    let step = |start| {
        let after = rank.steps.partition_point(|(_, span)| span.start <= start);
        let (number, span) = rank.steps.get(after.checked_sub(1)?)?;
        (start <= span.end).then_some(*number)
    };
    forwards.map(|(pass, _)| step(pass.span.start)).collect()
}

fn by_repetition(ranks: &[&Rank]) -> Result<Vec<Steps>, NotInferred> {
    let mut under_way = 0usize;
    let mut count = 0;
    for (pass, _) in ranks.first().map_or(&[][..], |rank| &rank.passes) {
        match pass.kind {
            Kind::F => under_way += 1,
            Kind::B | Kind::BW => {
                under_way = under_way.saturating_sub(1);
                count += usize::from(under_way == 0);
            }
            _ => {}
        }
    }
    let forwards =
        |rank: &Rank| rank.passes.iter().filter(|(pass, _)| pass.kind == Kind::F).count();
    let all = ranks.first().map_or(0, |rank| forwards(rank));
    let steps = |rank: &&Rank| {
        let passes = forwards(rank);
        if count == 0 || passes != all || passes % count != 0 {
            return Err(NotInferred::Steps { rank: rank.number, passes, steps: count });
        }
        let each = passes / count;
        Ok((0..passes).map(|at| u64::try_from(at / each).ok()).collect())
    };
    ranks.iter().map(steps).collect()
}
