//! How often a search, with and without a warm-started solve of the integer program, finds the optimum and proves it, on
//! random small pipelines: against the optimum of the program, checked from its certificate. Made-up claims are refused.

use std::cell::Cell;
use std::ops::Range;

use certificate::{BoundArgument, Certificate, Heads, Log, Proof, Refusal, verify};
use pipeline::{Kind, Nanos, Pass, Placement};
use search::{Effort, Found, Instance, Objective, search};
use sim::Replay;

use crate::tests::{instance_of, one_by_one, recomputing};
use crate::{BRIEF_STEPS, End, is_small, solve, warm_start};

/// Outcomes of the searches of one kind.
#[derive(Default, PartialEq, Eq, Debug)]
struct Tally {
    cases: usize,
    /// Cases whose optimum is known.
    solved: usize,
    /// Cases in which the search found an order that costs no more than the optimum, or the best known.
    found: usize,
    /// Cases in which the bound is the optimum, or the cost of the best order known.
    tight: usize,
    /// The same for a search followed by a brief warm-started solve of the program.
    then_found: usize,
    then_tight: usize,
    /// Cases in which windows give a higher bound than all other arguments.
    windows: usize,
    /// False claims that were made and refused.
    refused: usize,
}

impl Tally {
    /// Searches `asked`, and asks for the optimum, looking at most `looks` times whether to end.
    fn add(&mut self, asked: &Instance, looks: u32) {
        let found = search(asked, Effort::default(), |_| (), &|| false).unwrap();
        assert_verified(asked, &found);
        let mut then = found.clone();
        if !found.is_optimal() {
            assert!(is_small(asked, BRIEF_STEPS));
            warm_start(asked, &mut then, BRIEF_STEPS, |_, _, _| (), &|| false).unwrap();
            assert!(then.cost <= found.cost && then.bound.cost >= found.bound.cost);
            assert_verified(asked, &then);
        }
        let looked = Cell::new(0);
        let stop = || {
            looked.set(looked.get() + 1);
            looked.get() > looks
        };
        let (known, proved) = (then.schedule.clone(), then.bound.cost);
        let answer = solve(asked, known, proved, u64::MAX, |_, _, _| (), &stop).unwrap();
        assert!(found.bound.cost <= answer.cost, "{:?} {} {asked:?}", found.bound, answer.cost);
        self.cases += 1;
        self.solved += usize::from(answer.end == End::Proved);
        self.found += usize::from(found.cost == answer.cost);
        self.tight += usize::from(found.bound.cost == answer.cost);
        self.then_found += usize::from(then.cost == answer.cost);
        self.then_tight += usize::from(then.bound.cost == answer.cost);
        self.windows += usize::from(found.bound.argument.stages().is_empty());
        // An order that costs `answer.cost` is known: that every order costs more is false.
        for claim in claims(asked, &found, answer.cost + Nanos(1)) {
            let refusal = verify(&claim.to_string());
            assert!(matches!(refusal, Err(Refusal::Bound { .. })), "{refusal:?}\n{claim}");
            self.refused += 1;
        }
    }
}

impl Tally {
    fn add_all(&mut self, other: &Self) {
        self.cases += other.cases;
        self.solved += other.solved;
        self.found += other.found;
        self.tight += other.tight;
        self.then_found += other.then_found;
        self.then_tight += other.then_tight;
    }
}

/// Asserts that the certificate of what was found holds.
fn assert_verified(asked: &Instance, found: &Found) {
    let verdict = verify(&certificate(asked, found).to_string());
    let verdict = verdict.unwrap_or_else(|refusal| panic!("{refusal}: {asked:?}"));
    assert_eq!((verdict.cost, verdict.bound), (found.cost, found.bound.cost));
}

/// Claims that every order costs `bound`, by one that does: with nothing but windows, with what `found` rests on, and
/// with that falsified.
fn claims(asked: &Instance, found: &Found, bound: Nanos) -> Vec<Certificate> {
    let schedule = one_by_one(asked);
    let cost = asked.objective.of(&Replay::new().metrics(&schedule, &asked.costs).unwrap());
    if cost < bound {
        return Vec::new();
    }
    let question = Certificate { schedule, cost, bound, ..certificate(asked, found) };
    let log_of = |pairs: Vec<[Pass; 2]>| {
        let nodes = pairs.into_iter().flat_map(|pair| [Some(pair), None]);
        Log::new(nodes.chain([None]).collect()).unwrap()
    };
    let claim = |name, raised: Vec<(Pass, u64)>, pairs: Option<Vec<[Pass; 2]>>| Certificate {
        argument: BoundArgument::new(name, &[], asked.shape.stages()).unwrap(),
        proof: Proof { heads: Heads::new(raised), log: pairs.map(log_of) },
        ..question.clone()
    };
    let raised: Vec<_> = found.proof.raised.iter().map(|one| (one.pass, one.start.0)).collect();
    let later = raised.iter().map(|&(pass, start)| (pass, 2 * start + 9)).collect();
    let pairs: Vec<[Pass; 2]> = found.proof.log.iter().copied().flatten().collect();
    let turned = pairs.iter().map(|&[one, other]| [other, one]).collect();
    // The last B of the first chunk starts late, but in no order after everything else.
    let last = Pass { kind: Kind::B, chunk: 0, microbatch: asked.shape.microbatches() - 1 };
    let mut claims = vec![
        claim("windows", Vec::new(), None),
        claim("prefixes", vec![(last, bound.0)], None),
        claim("branching", raised.clone(), Some(pairs.clone())),
        claim("branching", raised.clone(), Some(turned)),
        claim("branching", raised.clone(), Some(pairs.iter().rev().copied().collect())),
    ];
    if !raised.is_empty() {
        claims.extend([claim("prefixes", raised, None), claim("prefixes", later, None)]);
    }
    claims
}

/// The certificate of what was found.
fn certificate(asked: &Instance, found: &Found) -> Certificate {
    let argument = found.bound.argument;
    let stages = asked.shape.stages();
    let raised = found.proof.raised.iter().map(|one| (one.pass, one.start.0));
    let branching = argument == search::bounds::Argument::Branching;
    let log = branching.then(|| Log::new(found.proof.log.clone()).unwrap());
    Certificate {
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
        argument: BoundArgument::new(argument.name(), &argument.stages(), stages).unwrap(),
        proof: Proof { heads: Heads::new(raised), log },
        backwards: certificate::Backwards::SplitOrWhole,
    }
}

/// A pipeline of up to 4 stages, in a V 3, and 6 microbatches.
fn drawn((placement, chunks): (Placement, u64), alike: bool, seed: u64) -> Instance {
    let most = if placement == Placement::Vee { 2 } else { 3 };
    let size = [2 + seed % most, chunks, 2 + seed / 3 % 5];
    instance_of(placement, size, seed, alike)
}

/// Searches such pipelines.
fn tally(layout: (Placement, u64), alike: bool, seeds: Range<u64>, looks: u32) -> Tally {
    let mut tally = Tally::default();
    seeds.for_each(|seed| tally.add(&drawn(layout, alike, seed), looks));
    tally
}

/// The same where chunks recompute.
fn tally_again(layout: (Placement, u64), alike: bool, seeds: Range<u64>, looks: u32) -> Tally {
    let mut tally = Tally::default();
    seeds.for_each(|seed| tally.add(&recomputing(&drawn(layout, alike, seed), seed, alike), looks));
    tally
}

#[test]
fn the_bounds_of_a_search_are_mostly_the_optimum() {
    let one = tally((Placement::Looped, 1), false, 0..20, 200);
    assert!(one.tight == 20 && one.found == 20 && one.refused > 60, "{one:?}");
    let two = tally((Placement::Looped, 2), false, 0..8, 200);
    assert!(two.tight >= 7 && two.refused > 20, "{two:?}");
    let vee = tally((Placement::Vee, 2), true, 0..12, 200);
    assert!(vee.tight >= 10 && vee.windows >= 6 && vee.refused > 20, "{vee:?}");
}

#[test]
fn the_bounds_of_a_search_with_recomputation_are_mostly_the_optimum() {
    let one = tally_again((Placement::Looped, 1), false, 0..24, 2_000);
    let two = tally_again((Placement::Looped, 2), false, 0..8, 2_000);
    let vee = tally_again((Placement::Vee, 2), true, 0..12, 2_000);
    assert!(one.tight == 24 && one.found == 24 && one.refused > 90, "{one:?}");
    assert!(two.tight >= 7 && two.windows >= 5 && two.refused > 30, "{two:?}");
    assert!(vee.tight >= 10 && vee.windows >= 6 && vee.refused > 50, "{vee:?}");
    for tally in [one, two, vee] {
        assert_eq!([tally.then_found, tally.then_tight], [tally.cases; 2], "{tally:?}");
    }
}

/// Of these seeds a search alone has the best order, and its proof, in few.
#[test]
fn a_search_that_goes_on_has_the_optimum_and_proves_it() {
    let mut all = Tally::default();
    for (layout, alike, seeds) in [
        ((Placement::Looped, 2), true, &[7023, 7029, 7039][..]),
        ((Placement::Looped, 2), false, &[7000, 7030]),
        ((Placement::Vee, 2), true, &[7017, 8018, 9022]),
        ((Placement::Vee, 2), false, &[7015, 7023, 7039]),
    ] {
        for &seed in seeds {
            all.add_all(&tally(layout, alike, seed..seed + 1, u32::MAX));
        }
    }
    assert!(all.solved == 11 && all.found <= 4, "{all:?}");
    assert!(all.then_found == 11 && all.then_tight == 11, "{all:?}");
}

#[test]
#[ignore = "takes minutes"]
fn the_bounds_of_200_searches_with_recomputation_are_mostly_the_optimum() {
    for (layout, alike) in [
        ((Placement::Looped, 1), false),
        ((Placement::Looped, 2), false),
        ((Placement::Vee, 2), true),
        ((Placement::Vee, 2), false),
    ] {
        let tally = tally_again(layout, alike, 7_000..7_050, u32::MAX);
        println!("{layout:?}, {}: {tally:?}", if alike { "alike" } else { "unequal" });
        assert!(tally.solved == 50 && tally.then_found.min(tally.then_tight) >= 48, "{tally:?}");
        assert!(tally.tight >= 40, "{tally:?}");
    }
}

#[test]
#[ignore = "takes minutes"]
fn the_bounds_of_300_searches_are_mostly_the_optimum() {
    for (layout, alike, least) in [
        ((Placement::Looped, 1), true, 50),
        ((Placement::Looped, 1), false, 50),
        ((Placement::Looped, 2), true, 49),
        ((Placement::Looped, 2), false, 49),
        ((Placement::Vee, 2), true, 49),
        ((Placement::Vee, 2), false, 49),
    ] {
        let tally = tally(layout, alike, 7_000..7_050, u32::MAX);
        println!("{layout:?}, {}: {tally:?}", if alike { "alike" } else { "unequal" });
        assert_eq!((tally.solved, tally.then_found), (50, 50), "{tally:?}");
        assert!(tally.then_tight >= least && tally.tight >= 40, "{tally:?}");
    }
}

/// The certificate of a V whose bound is proved by what `argument` names, from `seed` on.
fn proved_by(argument: &str, mut seed: u64) -> Certificate {
    loop {
        let asked = instance_of(Placement::Vee, [2, 2, 4], seed, seed % 4 < 2);
        let found = search(&asked, Effort::default(), |_| (), &|| false).unwrap();
        if found.bound.argument.name() == argument {
            return certificate(&asked, &found);
        }
        seed += 1;
    }
}

/// Asserts that `with`, the text of a certificate with another proof, is refused, for a reason in which `why` stands.
fn assert_refused(text: &str, proof: Option<&str>, why: &str) {
    let (head, _) = text.split_once("proof = ").unwrap_or((text, ""));
    let proof = proof.map(|proof| format!("proof = \"\"\"\n{proof}\n\"\"\"\n"));
    let refusal = verify(&format!("{head}{}", proof.unwrap_or_default())).unwrap_err();
    assert!(refusal.to_string().contains(why), "{why}: {refusal}");
}

#[test]
fn raised_starts_that_are_changed_are_refused() {
    let certificate = proved_by("prefixes", 251);
    let text = certificate.to_string();
    assert_eq!(Certificate::read(&text).as_ref(), Ok(&certificate));
    let verdict = verify(&text).unwrap();
    let starts = certificate.proof.heads.to_string();
    let words: Vec<&str> = starts.split_whitespace().collect();
    assert!(verdict.heads == words.len() && words.len() > 1);
    let refused = |proof: &str, why| assert_refused(&text, Some(proof), why);
    // The first alone is too little, and none can be much later.
    refused(words[0], "does not show");
    for (at, word) in words.iter().enumerate() {
        let mut words: Vec<String> = words.iter().map(ToString::to_string).collect();
        words[at] = format!("{word}0");
        refused(&words.join(" "), "does not show");
    }
    refused("B9.0=1", "does not show");
    refused("B0.99=1", "does not show");
    refused("B0.1", "only `branching` has a log");
    refused("B0.1 B0.2=1", "not a start");
    refused("B0.1=", "not a start");
    refused("B0.1=-5", "not a start");
    refused("B0.1=99999999999999999999999", "not a start");
    refused("\u{e9}0.1=5", "not a start");
    refused(&format!("{starts} x"), "only `branching` has a log");
    refused(&"B0.1=1 ".repeat(certificate::MAX_HEADS + 1), "65536 starts");
    assert_refused(&text, None, "need one");
    let windows = text.replace("\"prefixes\"", "\"windows\"");
    assert_refused(&windows, Some(&starts), "raised starts");
    assert_refused(&windows, None, "does not show");
    let named = text.replace("stages = []", "stages = [0]");
    assert_refused(&named, Some(&starts), "names none");
}

#[test]
fn pairs_that_are_changed_are_refused() {
    let certificate = proved_by("branching", 163);
    let text = certificate.to_string();
    let log = certificate.proof.to_string();
    let pairs: Vec<&str> = log.split_whitespace().filter(|word| word.contains('<')).collect();
    assert!(!pairs.is_empty() && verify(&text).unwrap().branches == Some(pairs.len()));
    assert_refused(&text, Some(log.split('<').next().unwrap()), "neither");
    assert_refused(&text, Some("x"), "does not show");
    assert_refused(&text, Some(&format!("{} x", pairs[0])), "does not end in a leaf");
    // Some pairs follow from others, so that their order is certain without them; not all.
    let is_refused = |at: usize| {
        let (one, other) = pairs[at].split_once('<').unwrap();
        let mut words = pairs.clone();
        let turned = format!("{other}<{one}");
        words[at] = &turned;
        let proof = format!("{} x x", words.join(" x "));
        let text = text.replace(&log, &format!("{proof}\n"));
        assert!(text.contains(&proof));
        matches!(verify(&text), Err(Refusal::Bound { .. }))
    };
    assert!((0..pairs.len()).any(is_refused));
}
