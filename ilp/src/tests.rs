//! The optimum beside that of all orders, the bounds, the local search, and the program's own rows.

use pipeline::{Bytes, Costs, Footprint, Footprints, Limits, Nanos, PassTimes, Placement, Shape};
use search::{Effort, Instance, Objective, search};

use crate::*;

/// A number that depends on `seed` and `place` alone, from `low` to `high`.
fn drawn(seed: u64, place: u64, low: u64, high: u64) -> u64 {
    let mut mixed =
        seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ place.wrapping_mul(0xD1B5_4A32_D192_ED03);
    for _ in 0..3 {
        mixed = (mixed ^ (mixed >> 31)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    }
    low + (mixed >> 20) % (high - low + 1)
}

/// Random times and sizes by chunk (the same for all where `alike`), and limits from the least that
/// runs to 0.6 p microbatches more.
pub(crate) fn instance(placement: Placement, [p, m]: [u64; 2], seed: u64, alike: bool) -> Instance {
    let vee = placement == Placement::Vee;
    let shape = Shape::new(p, if vee { 2 } else { 1 }, m).unwrap();
    let chunks = u64::from(shape.chunks());
    let of = |chunk: u64, what: u64, low, high| {
        drawn(seed, 16 * if alike { 0 } else { chunk } + what, low, high)
    };
    let times = (0..chunks).map(|chunk| PassTimes {
        forward: Nanos(of(chunk, 0, 1, 9)),
        backward_input: Nanos(of(chunk, 1, 1, 9)),
        backward_weight: Nanos(of(chunk, 2, 1, 9)),
    });
    let held = (0..chunks).map(|chunk| {
        let until_backward = of(chunk, 3, 3, 9);
        Footprint {
            until_backward: Bytes(until_backward),
            until_weight: Bytes(of(chunk, 4, 1, until_backward)),
        }
    });
    let footprints = Footprints::new(held.collect());
    let least = footprints.least_peaks(shape, placement);
    let per = footprints.by_stage(shape, placement);
    let limits: Vec<Bytes> = (0..)
        .zip(least.iter().zip(per))
        .map(|(stage, (least, per))| {
            let stage = if alike { 0 } else { stage };
            *least + Bytes(drawn(seed, 1000 + stage, 0, per.0 * 6 * p.min(m) / 10))
        })
        .collect();
    let limits = Some(Limits::new(shape, &limits).unwrap());
    let costs = Costs::new(times.collect(), Nanos(drawn(seed, 2000, 0, 3)));
    let objective = if seed % 3 == 2 { Objective::Makespan } else { Objective::Span };
    Instance::new(shape, placement, costs, footprints, limits, objective).unwrap()
}

/// The order found in almost no time, and what the solver makes of it within a number of nodes.
fn solved(instance: &Instance) -> (search::Found, Answer) {
    let found = search(instance, Effort { times: Some(0), seed: 0 }, |_| (), &|| false).unwrap();
    let answer = solve(instance, found.schedule.clone(), |_, _, _| (), &|| false).unwrap();
    (found, answer)
}

/// The certificate of an answer, as text.
fn certificate(instance: &Instance, answer: &Answer) -> Option<String> {
    let log = answer.proof.as_ref()?.to_string();
    let stages = instance.shape.stages();
    let certificate = certificate::Certificate {
        schedule: answer.schedule.clone(),
        costs: instance.costs.clone(),
        footprints: instance.footprints.clone(),
        limits: instance.limits.clone(),
        objective: match instance.objective {
            Objective::Span => certificate::Objective::Span,
            Objective::Makespan => certificate::Objective::Makespan,
        },
        cost: answer.cost,
        bound: answer.bound,
        argument: certificate::Argument::new("branching", &[], stages).unwrap(),
        proof: Some(certificate::Log::read(&log).unwrap()),
    };
    Some(certificate.to_string())
}

#[test]
fn one_chunk_is_solved_to_the_end_and_every_proof_is_checked() {
    let (mut cases, mut beaten, mut above, mut branched) = (0, 0, 0, 0);
    for size in [[2, 3], [2, 6], [3, 4], [3, 6], [4, 4], [4, 6]] {
        for seed in 0..24 {
            let instance = instance(Placement::Looped, size, seed, seed % 2 == 0);
            let (found, answer) = solved(&instance);
            assert_eq!(answer.end, End::Proved, "{size:?} {seed}");
            assert_eq!(answer.bound, answer.cost);
            assert!(found.bound.cost <= answer.bound, "{size:?} {seed}");
            assert_eq!(answer.proof.is_some(), found.bound.cost < answer.bound);
            let Some(text) = certificate(&instance, &answer) else { continue };
            let verdict = ::certificate::verify(&text);
            assert!(
                verdict.as_ref().is_ok_and(|verdict| verdict.is_optimal()),
                "{size:?} {seed} {verdict:?}"
            );
            branched += usize::from(answer.proof.unwrap().branches() > 0);
            beaten += usize::from(answer.cost < found.cost);
            above += 1;
            cases += 1;
        }
    }
    println!("{cases} {beaten} {above} {branched}");
}

#[test]
#[ignore]
fn look() {
    for (placement, sizes, seeds) in [
        (Placement::Looped, vec![[2u64, 4u64], [3, 5], [4, 6]], 40u64),
        (Placement::Vee, vec![[2, 2], [2, 4], [3, 3], [3, 5]], 20),
    ] {
        for size in sizes {
            for alike in [true, false] {
                let (mut proved, mut worst, mut nodes, mut beaten, mut low, mut slow) =
                    (0, 0, 0, 0, 0, 0.0f64);
                for seed in 0..seeds {
                    let instance = instance(placement, size, seed, alike);
                    let found =
                        search(&instance, Effort { times: Some(0), seed: 0 }, |_| (), &|| false)
                            .unwrap();
                    let cost = found.cost;
                    #[allow(clippy::disallowed_methods)]
                    let begin = std::time::Instant::now();
                    let answer = solve(&instance, found.schedule, |_, _, _| (), &|| {
                        begin.elapsed().as_secs() > 3
                    })
                    .unwrap();
                    slow = slow.max(begin.elapsed().as_secs_f64());
                    proved += usize::from(answer.end == End::Proved);
                    nodes += answer.nodes;
                    worst = worst.max(answer.nodes);
                    beaten += usize::from(answer.cost < cost);
                    low += usize::from(found.bound.cost < answer.bound);
                }
                println!(
                    "{placement:?} {size:?} alike {alike}: {proved}/{seeds} proved, nodes {nodes} worst {worst}, beaten {beaten}, bound low {low}, slowest {slow:.2}"
                );
            }
        }
    }
}
