//! The optimum beside that of all orders, the bounds, the local search, and the program's own rows.

use std::cell::Cell;
use std::collections::HashMap;

use certificate::{Verdict, verify};
use pipeline::{
    Bytes, Costs, Footprint, Footprints, Kind, Limits, Memory, Nanos, Order, Pass, PassTimes,
    Placement, Schedule, Shape,
};
use proptest::prelude::*;
use search::{Effort, Instance, Objective, search};
use sim::Replay;

use crate::compiled_instance::KINDS;
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
    let chunks = if placement == Placement::Vee { 2 } else { 1 };
    instance_of(placement, [p, chunks, m], seed, alike)
}

/// The same with so many chunks on a stage.
pub(crate) fn instance_of(
    placement: Placement,
    [p, v, m]: [u64; 3],
    seed: u64,
    alike: bool,
) -> Instance {
    let shape = Shape::new(p, v, m).unwrap();
    let chunks = u64::from(shape.chunks());
    let of = |chunk: u64, what: u64, low, high| {
        drawn(seed, 16 * if alike { 0 } else { chunk } + what, low, high)
    };
    let times = (0..chunks).map(|chunk| {
        PassTimes::new(
            Nanos(of(chunk, 0, 1, 9)),
            Nanos(of(chunk, 1, 1, 9)),
            Nanos(of(chunk, 2, 1, 9)),
        )
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

/// The same where all chunks recompute, or each or not, as limited as `asked` is.
pub(crate) fn recomputing(asked: &Instance, seed: u64, alike: bool) -> Instance {
    let Instance { shape, placement, costs, footprints, limits, .. } = asked.clone();
    let of = |chunk: u16, what: u64, low, high| {
        drawn(seed, 3000 + 16 * if alike { 0 } else { u64::from(chunk) } + what, low, high)
    };
    let chosen =
        |chunk: u16| drawn(seed, 4000 + u64::from(chunk), 0, 2) > 0 || seed.is_multiple_of(2);
    let again = (0..shape.chunks()).map(|chunk| chosen(chunk).then(|| Nanos(of(chunk, 0, 1, 9))));
    let kept = (0..shape.chunks()).map(|chunk| {
        let whole = footprints.of(chunk).until_backward.0;
        chosen(chunk).then(|| Bytes(of(chunk, 1, 0, whole)))
    });
    let costs = costs.with_recompute(again.collect());
    let less = footprints.clone().with_kept(kept.collect());
    let least = footprints.least_peaks(shape, placement).into_iter();
    let least = least.zip(less.least_peaks(shape, placement));
    let limits = limits.as_ref().unwrap().by_stage().iter().zip(least);
    let limits: Vec<Bytes> = limits.map(|(limit, (was, is))| *limit - was + is).collect();
    let limits = Some(Limits::new(shape, &limits).unwrap());
    Instance::new(shape, placement, costs, less, limits, asked.objective).unwrap()
}

/// The certificate of an answer, as text.
fn text_of(instance: &Instance, answer: &Answer) -> String {
    let log = answer.proof.as_ref().unwrap().log.clone();
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
        argument: certificate::BoundArgument::new("branching", &[], stages).unwrap(),
        proof: certificate::Proof {
            log: Some(certificate::Log::new(log).unwrap()),
            ..certificate::Proof::default()
        },
        backwards: certificate::Backwards::Split,
    };
    certificate.to_string()
}

/// Outcomes of the cases of a test.
#[derive(Default, PartialEq, Eq, Debug)]
struct Tally {
    cases: usize,
    /// Proved optimal.
    solved: usize,
    /// With a better order than the search had.
    beaten: usize,
    /// With an optimum, or a bound, above the bounds of the search.
    above: usize,
    /// Of these, such whose log has branches.
    branched: usize,
}

impl Tally {
    /// Solves `instance`, looking at most `looks` times whether to end, and has its proof checked.
    fn add(&mut self, instance: &Instance, looks: u32) {
        let found = search(instance, Effort::default(), |_| (), &|| false).unwrap();
        let looked = Cell::new(0);
        let stop = || {
            looked.set(looked.get() + 1);
            looked.get() > looks
        };
        // The program proves on its own what the search may know.
        let known = found.schedule.clone();
        let answer = solve(instance, known, Nanos(0), u64::MAX, |_, _, _| (), &stop).unwrap();
        let simple = search::bounds::best(instance).cost;
        assert!(simple <= answer.bound && answer.bound <= answer.cost, "{instance:?}");
        assert!(found.bound.cost <= answer.cost, "{instance:?}");
        assert!(answer.cost <= found.cost);
        assert_eq!(answer.end == End::Proved, answer.bound == answer.cost, "{instance:?}");
        assert_eq!(answer.proof.is_some(), simple < answer.bound);
        self.cases += 1;
        self.solved += usize::from(answer.end == End::Proved);
        self.beaten += usize::from(answer.cost < found.cost);
        let Some(proof) = &answer.proof else { return };
        self.above += 1;
        self.branched += usize::from(proof.branches() > 0);
        let verdict = verify(&text_of(instance, &answer));
        let verdict = verdict.unwrap_or_else(|refusal| panic!("{refusal}: {instance:?}"));
        assert_eq!((verdict.cost, verdict.bound), (answer.cost, answer.bound));
        assert_eq!(verdict.branches, Some(proof.branches()));
    }
}

#[test]
fn small_pipelines_of_one_chunk_are_solved_to_the_end() {
    let mut tally = Tally::default();
    for size in [[2, 3], [2, 6], [3, 4], [3, 6], [4, 4], [4, 6]] {
        for seed in 0..24 {
            tally.add(&instance(Placement::Looped, size, seed, seed % 2 == 0), u32::MAX);
        }
    }
    println!("one chunk: {tally:?}");
    assert_eq!(tally.solved, tally.cases);
    assert!(tally.above > 0 && tally.branched > 0, "{tally:?}");
}

#[test]
fn small_pipelines_that_recompute_are_solved_to_the_end() {
    let mut tally = Tally::default();
    for seed in 0..40 {
        let (placement, size) = match seed % 4 {
            3 => (Placement::Vee, [2, 2 + seed / 4 % 3]),
            _ => (Placement::Looped, [2 + seed / 4 % 3, 3 + seed / 12 % 4]),
        };
        let alike = seed % 3 == 0;
        let asked = recomputing(&instance(placement, size, seed, alike), seed, alike);
        tally.add(&asked, u32::MAX);
    }
    println!("with R: {tally:?}");
    assert_eq!(tally.solved, tally.cases);
    assert!(tally.above > 0 && tally.branched > 0, "{tally:?}");
}

#[test]
fn small_pipelines_in_a_v_are_solved_to_the_end() {
    let mut tally = Tally::default();
    for size in [[2, 2], [2, 3], [3, 2], [2, 4], [3, 3]] {
        for seed in 0..12 {
            tally.add(&instance(Placement::Vee, size, seed, seed % 2 == 0), 10_000);
        }
    }
    println!("V: {tally:?}");
    assert_eq!(tally.solved, tally.cases, "{tally:?}");
    assert!(tally.above > 0 && tally.branched > 0, "{tally:?}");
}

/// All orders of one stage with one chunk, memory aside, where so many F, B, W and R have run.
fn words(stage: u16, m: u32, done: [u32; 4], word: &mut Vec<Pass>, found: &mut Vec<Order>) {
    if done == [m; 4] {
        found.push(word.iter().copied().collect());
    }
    for (at, kind) in KINDS.into_iter().enumerate() {
        let limit = [m, done[3].min(done[0]), done[1], done[0]][at];
        if done[at] < limit {
            let mut next = done;
            next[at] += 1;
            word.push(Pass { kind, chunk: stage, microbatch: done[at] });
            words(stage, m, next, word, found);
            word.pop();
        }
    }
}

/// The least cost of all orders of two stages with one chunk each.
fn exhaustive(instance: &Instance) -> Nanos {
    let m = instance.shape.microbatches();
    let of_stage = [0, 1].map(|stage| {
        let mut found = Vec::new();
        // A chunk that does not recompute has no R left.
        let again = instance.costs.recompute(stage).map_or(m, |_| 0);
        words(stage, m, [0, 0, 0, again], &mut Vec::new(), &mut found);
        found
    });
    let [first, second] = &of_stage;
    let pairs = first.iter().flat_map(|one| second.iter().map(move |other| (one, other)));
    let cost = |(one, other): (&Order, &Order)| {
        let orders = vec![one.clone(), other.clone()];
        let schedule = Schedule::new(instance.shape, instance.placement, orders).ok()?;
        let memory = Memory::of(&schedule, &instance.footprints).unwrap();
        let fits = memory.over(instance.limits.as_ref().unwrap()).is_none();
        let metrics = Replay::new().metrics(&schedule, &instance.costs).unwrap();
        fits.then(|| instance.objective.of(&metrics))
    };
    pairs.filter_map(cost).min().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn the_optimum_of_two_stages_is_that_of_all_orders(
        m in 1..4u64,
        times in [[0..9u64, 0..9u64, 0..9u64], [0..9u64, 0..9u64, 0..9u64]],
        held in [[0..7u64, 0..9u64], [0..7u64, 0..9u64]],
        mut again in [(); 2].map(|()| prop::option::of((0..9u64, 0..7u64))),
        (hop, room, makespan) in (0..5u64, 0..16u64, any::<bool>()),
    ) {
        let shape = Shape::new(2, 1, m).unwrap();
        let times = times.map(|one| {
            let [forward, backward_input, backward_weight] = one.map(|time| Nanos(1000 * time));
            PassTimes::new(forward, backward_input, backward_weight)
        });
        let held = held.map(|one| {
            let [until_backward, until_weight] = one.map(Bytes);
            Footprint { until_backward, until_weight }
        });
        // The orders of three microbatches with R on both stages are too many to be tried.
        again[1] = again[1].filter(|_| m < 3 || again[0].is_none());
        let kept = again.map(|again| again.map(|(_, kept)| Bytes(kept)));
        let footprints = Footprints::new(held.to_vec()).with_kept(kept.to_vec());
        let least = footprints.least_peaks(shape, Placement::Looped);
        let limits: Vec<Bytes> = least.iter().map(|one| *one + Bytes(room)).collect();
        let limits = Some(Limits::new(shape, &limits).unwrap());
        let again = again.map(|again| again.map(|(time, _)| Nanos(1000 * time)));
        let costs = Costs::new(times.to_vec(), Nanos(1000 * hop)).with_recompute(again.to_vec());
        let objective = if makespan { Objective::Makespan } else { Objective::Span };
        let asked =
            Instance::new(shape, Placement::Looped, costs, footprints, limits, objective).unwrap();
        // From a bad order on.
        let answer = solve(&asked, one_by_one(&asked), Nanos(0), u64::MAX, |_, _, _| (), &|| false).unwrap();
        prop_assert_eq!(answer.end, End::Proved);
        prop_assert_eq!(answer.cost, exhaustive(&asked));
        if answer.proof.is_some() {
            let verdict = verify(&text_of(&asked, &answer));
            prop_assert!(verdict.as_ref().is_ok_and(Verdict::is_optimal), "{:?}", verdict);
        }
    }
}

/// One microbatch after the other.
pub(crate) fn one_by_one(instance: &Instance) -> Schedule {
    let Instance { shape, placement, .. } = instance;
    let stage = |stage| {
        let chunks: Vec<u16> = placement.chunks_of(*shape, stage).collect();
        let microbatch = |microbatch| {
            let pass = move |kind, chunk| Pass { kind, chunk, microbatch };
            let down = chunks.clone().into_iter().map(move |chunk| pass(Kind::F, chunk));
            let up = chunks.clone().into_iter().rev().flat_map(move |chunk| {
                let again = instance.costs.recompute(chunk).map(|_| pass(Kind::R, chunk));
                again.into_iter().chain([pass(Kind::B, chunk), pass(Kind::W, chunk)])
            });
            down.chain(up)
        };
        (0..shape.microbatches()).flat_map(microbatch).collect::<Order>()
    };
    Schedule::new(*shape, *placement, (0..shape.stages()).map(stage).collect()).unwrap()
}

/// The values that an order gives to the variables of the program.
fn values(instance: &Instance, model: &Model, schedule: &Schedule) -> Vec<i64> {
    let unit = model.time_unit().0;
    let whole = |time: Nanos| i64::try_from(time.0 / unit).unwrap();
    let timeline = Replay::new().timeline(schedule, &instance.costs).unwrap();
    let spans = timeline.stages.iter().flatten();
    let ends: HashMap<String, i64> =
        spans.map(|span| (span.slot.to_string(), whole(span.end))).collect();
    let value = |one: &Variable| {
        if one.name == "cost" {
            let metrics = Replay::new().metrics(schedule, &instance.costs).unwrap();
            return whole(instance.objective.of(&metrics));
        }
        let parts: Vec<&str> = one.name.split('_').collect();
        let end = |at: usize| ends[&format!("{}.{}", parts[at], parts[at + 1])];
        if one.is_binary { i64::from(end(1) < end(3)) } else { end(1) }
    };
    model.variables().iter().map(value).collect()
}

/// The rows, and the ranges, that values miss.
fn missed(model: &Model, values: &[i64]) -> Vec<String> {
    let rows = model.rows().iter().filter(|row| {
        let sum: i64 = row.terms.iter().map(|&(variable, factor)| factor * values[variable]).sum();
        sum < row.least
    });
    let ranges = model.variables().iter().zip(values);
    let ranges = ranges.filter(|(one, value)| !(one.range[0]..=one.range[1]).contains(value));
    rows.map(|row| row.name.clone()).chain(ranges.map(|(one, _)| one.name.clone())).collect()
}

#[test]
fn an_order_that_fits_keeps_every_row_of_the_program_and_another_does_not() {
    let mut over = 0;
    for seed in 0..40 {
        let placement = if seed % 4 == 3 { Placement::Vee } else { Placement::Looped };
        let asked = instance(placement, [3, 4], seed, seed % 2 == 0);
        let asked = if seed % 5 == 4 { recomputing(&asked, seed, seed % 2 == 0) } else { asked };
        let serial = one_by_one(&asked);
        let cost = asked.objective.of(&Replay::new().metrics(&serial, &asked.costs).unwrap());
        let model = Model::of(&asked, cost).unwrap();
        assert_eq!(model.binaries() as u64, binaries(&asked));
        let found = search(&asked, Effort { times: Some(0), seed }, |_| (), &|| false).unwrap();
        for schedule in [&serial, &found.schedule] {
            let values = values(&asked, &model, schedule);
            assert_eq!(missed(&model, &values), Vec::<String>::new(), "{seed}");
        }
        // With more memory another order may be the best; it violates only rows of memory.
        let roomy = Instance { limits: None, ..asked.clone() };
        let found = search(&roomy, Effort { times: Some(0), seed }, |_| (), &|| false).unwrap();
        let memory = Memory::of(&found.schedule, &asked.footprints).unwrap();
        let missed = missed(&model, &values(&asked, &model, &found.schedule));
        assert_eq!(memory.over(asked.limits.as_ref().unwrap()).is_some(), !missed.is_empty());
        assert!(missed.iter().all(|row| row.starts_with("room_")), "{missed:?}");
        over += usize::from(!missed.is_empty());
    }
    assert!(over > 10, "{over}");
}

/// The same, with sizes so much finer that W of two chunks of a stage never free as much, though what fits is the
/// same.
fn without_twins(asked: &Instance) -> Instance {
    const FINER: u64 = 1_000;
    let Instance { shape, placement, footprints, limits, .. } = asked;
    let mut held: Vec<Footprint> = (0..shape.chunks()).map(|chunk| footprints.of(chunk)).collect();
    for one in &mut held {
        one.until_backward.0 *= FINER;
        one.until_weight.0 *= FINER;
    }
    for stage in 0..shape.stages() {
        for (more, chunk) in (0..).zip(placement.chunks_of(*shape, stage)) {
            held[usize::from(chunk)].until_weight.0 += more;
        }
    }
    let limits = limits.as_ref().unwrap().by_stage().iter();
    let limits: Vec<Bytes> = limits.map(|limit| Bytes(limit.0 * FINER + FINER - 1)).collect();
    let limits = Some(Limits::new(*shape, &limits).unwrap());
    Instance { footprints: Footprints::new(held), limits, ..asked.clone() }
}

#[test]
fn weights_in_the_order_of_their_backwards_lose_no_optimum() {
    let mut quicker = 0;
    for seed in 0..40 {
        let placement = if seed % 2 == 0 { Placement::Vee } else { Placement::Looped };
        let size = [2 + seed % 2, 2, 2 + seed / 2 % 3];
        let asked = instance_of(placement, size, seed, true);
        let [own, other] = [asked.clone(), without_twins(&asked)].map(|asked| {
            let known = one_by_one(&asked);
            solve(&asked, known, Nanos(0), u64::MAX, |_, _, _| (), &|| false).unwrap()
        });
        assert_eq!((own.end, other.end), (End::Proved, End::Proved));
        assert_eq!(own.cost, other.cost, "{asked:?}");
        quicker += usize::from(own.nodes < other.nodes);
    }
    assert!(quicker > 10, "{quicker}");
}

#[test]
fn a_solver_that_is_stopped_keeps_what_it_was_given() {
    let asked = instance(Placement::Vee, [3, 5], 1, false);
    let serial = one_by_one(&asked);
    let answer = solve(&asked, serial.clone(), Nanos(0), u64::MAX, |_, _, _| (), &|| true).unwrap();
    assert_eq!((answer.end, &answer.schedule, answer.proof), (End::Stopped, &serial, None));
    assert_eq!(answer.bound, search::bounds::best(&asked).cost);
}

#[test]
fn what_is_not_modelled_is_refused() {
    let asked = instance(Placement::Looped, [3, 4], 1, true);
    let mut times = asked.costs.chunks().to_vec();
    times[1].backward_weight = Nanos(0);
    let instant = Instance { costs: asked.costs.clone().with_chunks(times), ..asked };
    assert_eq!(check(&instant), Ok(()));
    assert_eq!(Model::of(&instant, Nanos(1)).unwrap_err(), Unsuitable::Instant);
    let large = instance(Placement::Looped, [8, 200], 1, true);
    let Unsuitable::TooLarge { passes, binaries } = check(&large).unwrap_err() else { panic!() };
    // F before B, F before W, B before W: of each pair of kinds those pairs of microbatches are open
    // where the later one goes first.
    assert_eq!((passes, binaries), (4800, 8 * 3 * 200 * 199 / 2));
    let larger = instance(Placement::Looped, [32, 200], 1, true);
    assert!(matches!(Model::of(&larger, Nanos(1)), Err(Unsuitable::TooManyBinaries { .. })));
}

/// The certificate of a pipeline whose log has branches, and needs them.
fn branched() -> String {
    let needed = |text: &String| {
        let (head, _) = text.split_once("proof = \"\"\"\n").unwrap();
        verify(&format!("{head}proof = \"\"\"\nx\n\"\"\"\n")).is_err()
    };
    let mut of_seeds = (0..).map(|seed| {
        let asked = instance(Placement::Looped, [4, 6], seed, seed % 2 == 0);
        let answer =
            solve(&asked, one_by_one(&asked), Nanos(0), u64::MAX, |_, _, _| (), &|| false).unwrap();
        let branches = answer.proof.as_ref().map_or(0, |proof| proof.branches());
        (branches > 0).then(|| text_of(&asked, &answer)).filter(needed)
    });
    of_seeds.find_map(|text| text).unwrap()
}

#[test]
fn a_log_that_is_changed_is_refused() {
    let text = branched();
    assert!(verify(&text).is_ok_and(|verdict| verdict.is_optimal()));
    let (head, log) = text.split_once("proof = \"\"\"\n").unwrap();
    let log = log.strip_suffix("\"\"\"\n").unwrap();
    let with = |log: &str| verify(&format!("{head}proof = \"\"\"\n{log}\"\"\"\n"));
    let refused = |log: &str, why: &str| {
        let refusal = with(log).unwrap_err();
        assert!(refusal.to_string().contains(why), "{why}: {refusal}");
    };
    assert!(with(log).is_ok());
    refused("x", "does not show");
    refused(&format!("{log} x"), "follows its last leaf");
    refused(log.trim_end().strip_suffix('x').unwrap(), "does not end in a leaf");
    refused("", "does not end in a leaf");
    refused("F0.0<B1.0 x x", "two passes of one stage");
    refused("F0.0<F0.0 x x", "two passes of one stage");
    refused("F0.0<W0.99 x x", "two passes of one stage");
    refused("F9.0<W9.0 x x", "two passes of one stage");
    refused("F0.0 x", "neither");
    refused("F+0.0<B0.0 x x", "neither");
    refused("\u{e9}0.0<B0.0 x x", "neither");
    refused(&"F0.1<B0.0 ".repeat(1 << 20), "does not end in a leaf");
    refused(&"x ".repeat(certificate::MAX_WORDS + 1), "two million words");
    let deep = "F0.1<B0.0 ".repeat(1 << 20) + &"x ".repeat((1 << 20) - 1) + "x";
    assert!(with(&deep).is_err());
    // No log, or one where none belongs.
    assert!(verify(head).is_err());
    let work =
        text.replace("argument = \"branching\"\nstages = []", "argument = \"work\"\nstages = [0]");
    assert!(matches!(verify(&work), Err(certificate::Refusal::Log { .. })));
    // A bound that is higher than the log shows.
    let cost = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        line.parse::<u64>().unwrap()
    };
    let (bound, is) = (cost("bound-ns = "), cost("cost-ns = "));
    assert_eq!(bound, is);
    let slower = text.replace(&format!("bound-ns = {bound}"), &format!("bound-ns = {}", bound + 1));
    assert!(verify(&slower).is_err());
}

#[test]
fn a_solver_makes_no_more_steps_than_it_may() {
    let asked = instance_of(Placement::Vee, [3, 2, 6], 7003, true);
    let serial = one_by_one(&asked);
    let within = |steps: u64| {
        solve(&asked, serial.clone(), Nanos(0), steps, |_, _, _| (), &|| false).unwrap()
    };
    let (none, few) = (within(0), within(1 << 23));
    assert_eq!((none.end, none.nodes, &none.schedule), (End::Spent, 0, &serial));
    assert_eq!(few.end, End::Spent);
    assert!(few.nodes > 0 && few.cost < none.cost);
    assert_eq!(few, within(1 << 23));
}

#[test]
fn a_larger_pipeline_is_solved_briefly_where_its_order_is_close_to_its_bound() {
    let briefly = |size, [cost, bound]: [u64; 2], times: u64| {
        let asked = instance(Placement::Looped, size, 1, true);
        is_solved_briefly(&asked, [Nanos(cost), Nanos(bound)], times * BRIEF_STEPS)
    };
    assert!(briefly([4, 20], [1000, 1], 1));
    assert!(briefly([8, 24], [1000, 980], 1) && !briefly([8, 24], [1000, 979], 1));
    assert!(briefly([8, 24], [1000, 979], 4));
    assert!(!briefly([16, 32], [1000, 999], 1) && briefly([16, 32], [1000, 999], 3));
    assert!(!briefly([2, 2], [1000, 999], 0));
}

#[test]
fn the_same_question_has_the_same_answer() {
    let asked = instance(Placement::Vee, [2, 4], 3, false);
    let stop_after = |looks: u32| {
        let looked = Cell::new(0);
        let stop = || {
            looked.set(looked.get() + 1);
            looked.get() > looks
        };
        solve(&asked, one_by_one(&asked), Nanos(0), u64::MAX, |_, _, _| (), &stop).unwrap()
    };
    assert_eq!(stop_after(5_000), stop_after(5_000));
}
