//! How often the bounds of a search are the optimum, on random small pipelines; every one of them checked from its
//! certificate.

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
    /// Cases in which the search found an order that costs no more than the optimum.
    found: usize,
    /// Cases in which it proved that.
    proved: usize,
    /// Cases in which windows or prefixes say most.
    windows: usize,
}

impl Tally {
    fn add(&mut self, asked: &Instance, looks: u32) {
        let found = search(asked, Effort::default(), |_| (), &|| false).unwrap();
        if std::env::var("CERT").is_ok() {
            let verdict = verify(&certificate(asked, &found)).unwrap();
            assert_eq!((verdict.cost, verdict.bound), (found.cost, found.bound.cost));
        }
        let looked = Cell::new(0);
        let stop = || {
            looked.set(looked.get() + 1);
            looked.get() > looks
        };
        let answer = solve(asked, found.schedule.clone(), Nanos(0), |_, _, _| (), &stop).unwrap();
        assert!(found.bound.cost <= answer.cost, "{found:?} {} {asked:?}", answer.cost);
        if found.cost > found.bound.cost && std::env::var("SHOW").is_ok() {
            println!(
                "{} {} {:?} {:?} {} {:?}",
                found.cost,
                found.bound.cost,
                found.bound.argument,
                answer.end,
                answer.cost,
                asked.shape
            );
        }
        self.cases += 1;
        self.solved += usize::from(answer.end == End::Proved);
        self.found += usize::from(found.cost == answer.cost);
        self.proved += usize::from(found.is_optimal());
        self.windows += usize::from(found.bound.argument.stages().is_empty());
    }
}

/// The certificate of what was found, as text.
fn certificate(asked: &Instance, found: &Found) -> String {
    let argument = found.bound.argument;
    let stages = asked.shape.stages();
    let raised = found.raised.iter().map(|one| (one.pass, one.start.0));
    let heads = certificate::Heads::new(raised);
    let proof = (!found.raised.is_empty()).then_some(certificate::Proof::Heads(heads));
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

/// Searches `count` pipelines of one kind.
fn tally(placement: Placement, alike: bool, count: u64) -> Tally {
    let mut tally = Tally::default();
    for seed in 0..count {
        let most = if placement == Placement::Vee { 3 } else { 4 };
        let size = [2 + seed % (most - 1), 2 + seed / 3 % 5];
        tally.add(&instance(placement, size, 7_000 + seed, alike), 20_000);
    }
    tally
}

#[test]
fn most() {
    let all = [
        (Placement::Looped, true),
        (Placement::Looped, false),
        (Placement::Vee, true),
        (Placement::Vee, false),
    ];
    for (placement, alike) in all {
        println!("{placement:?} {alike} {:?}", tally(placement, alike, 75));
    }
}
