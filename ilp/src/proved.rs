//! How often the bounds of a search are the optimum, on random small pipelines: each bound beside the optimum of
//! the integer program, and checked from its certificate.

use std::cell::Cell;

use certificate::verify;
use pipeline::{Nanos, Placement};
use search::{Effort, Found, Instance, Objective, search};

use crate::tests::instance;
use crate::{End, solve};

/// What became of the searches of one kind.
#[derive(Default, PartialEq, Eq, Debug)]
struct Tally {
    cases: usize,
    /// Cases whose optimum is known.
    solved: usize,
    /// Cases in which the search found an order that costs no more than the optimum, or the best known.
    found: usize,
    /// Cases in which the bound is the optimum, or the cost of the best order known.
    tight: usize,
    /// Cases in which windows say more than all other arguments.
    windows: usize,
}

impl Tally {
    /// Searches `asked`, and asks for the optimum, looking at most `looks` times whether to end.
    fn add(&mut self, asked: &Instance, looks: u32) {
        let found = search(asked, Effort::default(), |_| (), &|| false).unwrap();
        let verdict = verify(&certificate(asked, &found));
        let verdict = verdict.unwrap_or_else(|refusal| panic!("{refusal}: {asked:?}"));
        assert_eq!((verdict.cost, verdict.bound), (found.cost, found.bound.cost));
        let looked = Cell::new(0);
        let stop = || {
            looked.set(looked.get() + 1);
            looked.get() > looks
        };
        let answer = solve(asked, found.schedule.clone(), Nanos(0), |_, _, _| (), &stop).unwrap();
        assert!(found.bound.cost <= answer.cost, "{:?} {} {asked:?}", found.bound, answer.cost);
        self.cases += 1;
        self.solved += usize::from(answer.end == End::Proved);
        self.found += usize::from(found.cost == answer.cost);
        self.tight += usize::from(found.bound.cost == answer.cost);
        self.windows += usize::from(found.bound.argument.stages().is_empty());
    }
}

/// The certificate of what was found, as text.
fn certificate(asked: &Instance, found: &Found) -> String {
    let argument = found.bound.argument;
    let stages = asked.shape.stages();
    let raised = found.proof.raised.iter().map(|one| (one.pass, one.start.0));
    let branching = argument == search::bounds::Argument::Branching;
    let pairs = branching.then(|| found.proof.pairs.iter().copied());
    let proof = certificate::Proof {
        heads: certificate::Heads::new(raised),
        log: pairs.map(certificate::Log::of_pairs),
    };
    let certificate = certificate::Certificate {
        schedule: found.schedule.clone(),
        costs: asked.costs.clone(),
        footprints: asked.footprints.clone(),
        limits: asked.limits.clone(),
        objective: match asked.objective {
            Objective::Span => certificate::Objective::Span,
            Objective::Makespan => certificate::Objective::Makespan,
        },
        cost: found.cost,
        bound: found.bound.cost,
        argument: certificate::Argument::new(argument.name(), &argument.stages(), stages).unwrap(),
        proof,
    };
    certificate.to_string()
}

/// Searches pipelines of up to 4 stages, 3 in a V, and 6 microbatches.
fn tally(placement: Placement, alike: bool, seeds: std::ops::Range<u64>, looks: u32) -> Tally {
    let mut tally = Tally::default();
    for seed in seeds {
        let most = if placement == Placement::Vee { 3 } else { 4 };
        let size = [2 + seed % (most - 1), 2 + seed / 3 % 5];
        tally.add(&instance(placement, size, seed, alike), looks);
    }
    tally
}

#[test]
fn the_bounds_of_a_search_are_mostly_the_optimum() {
    let one = tally(Placement::Looped, false, 0..20, 200);
    assert!(one.tight == 20 && one.found == 20, "{one:?}");
    let vee = tally(Placement::Vee, true, 0..12, 200);
    assert!(vee.tight >= 10 && vee.windows >= 6, "{vee:?}");
}

#[test]
#[ignore = "takes a minute"]
fn the_bounds_of_300_searches_are_mostly_the_optimum() {
    for (placement, alike, least) in [
        (Placement::Looped, true, 74),
        (Placement::Looped, false, 74),
        (Placement::Vee, true, 64),
        (Placement::Vee, false, 64),
    ] {
        let tally = tally(placement, alike, 7_000..7_075, 20_000);
        println!("{placement:?}, {}: {tally:?}", if alike { "alike" } else { "unequal" });
        assert!(tally.tight >= least, "{tally:?}");
    }
}
