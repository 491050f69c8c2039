//! Tests of engines, rollouts and steps.

use pipeline::Nanos;
use proptest::prelude::*;

use super::*;
use crate::{Communication, CostModel, FsdpError, Lengths, Machine, Method, Way};

const TIMES: Times = Times {
    weights: 1_000,
    context: 3,
    compute: 40,
    sequence: 2,
    step: 100,
    prefill: 5,
    prefill_pair: 1,
};

fn engine(capacity: u64, sequences: u64) -> Engine {
    Engine { times: TIMES, capacity, sequences }
}

fn request(prompt: u64, prompt_tokens: u32, until: u32) -> Request {
    Request { prompt, prompt_tokens, before: 0, until }
}

/// The same step by step, by the rules as they are told.
fn by_steps(engine: &Engine, requests: &[Request]) -> EngineRun {
    let Times { weights, context, compute, sequence, step, prefill, prefill_pair } = engine.times;
    let mut run = EngineRun { ends: vec![0; requests.len()], ..EngineRun::default() };
    let mut waiting: Vec<(usize, u64)> =
        requests.iter().enumerate().map(|(at, one)| (at, u64::from(one.before))).collect();
    let mut running: Vec<(usize, u64)> = Vec::new();
    let mut now = 0;
    let prompt = |at: usize| u64::from(requests[at].prompt_tokens);
    let held = |running: &[(usize, u64)]| {
        let mut prompts: Vec<(u64, u64)> =
            running.iter().map(|&(at, _)| (requests[at].prompt, prompt(at))).collect();
        prompts.sort_unstable();
        prompts.dedup();
        prompts.iter().map(|one| one.1).sum::<u64>() + running.iter().map(|one| one.1).sum::<u64>()
    };
    let mut may_admit = true;
    while !(waiting.is_empty() && running.is_empty()) {
        while may_admit && !waiting.is_empty() {
            let (at, generated) = waiting[0];
            let is_held =
                running.iter().any(|&(other, _)| requests[other].prompt == requests[at].prompt);
            let added = generated + if is_held { 0 } else { prompt(at) };
            let room = held(&running) + added + (running.len() as u64) < engine.capacity;
            if !running.is_empty() && (running.len() as u64 >= engine.sequences || !room) {
                break;
            }
            waiting.remove(0);
            running.push((at, generated));
            let whole = prompt(at) + generated;
            let time = added * prefill + added * (2 * whole - added) / 2 * prefill_pair;
            now += time;
            run.prefill += time;
            run.peak = run.peak.max(running.len() as u64);
        }
        may_admit = false;
        if held(&running) + running.len() as u64 > engine.capacity {
            waiting.insert(0, running.pop().unwrap());
            run.preemptions += 1;
            continue;
        }
        let read: u64 = running.iter().map(|&(at, generated)| prompt(at) + generated).sum();
        let n = running.len() as u64;
        now += step + sequence * n + (weights + context * read).max(compute * n);
        run.steps += 1;
        run.tokens += n;
        running.iter_mut().for_each(|one| one.1 += 1);
        running.retain(|&(at, generated)| {
            let ended = generated >= u64::from(requests[at].until);
            if ended {
                run.ends[at] = now;
                may_admit = true;
            }
            !ended
        });
    }
    run
}

proptest! {
    #[test]
    fn an_engine_does_what_its_steps_come_to(
        lengths in prop::collection::vec((0u64..6, 1u32..60), 1..40),
        capacity in 130u64..400,
        sequences in 1u64..20,
        compute in 1u64..400,
    ) {
        let requests: Vec<Request> = lengths
            .iter()
            .map(|&(prompt, until)| request(prompt, 20 + 10 * u32::try_from(prompt).unwrap(), until))
            .collect();
        let engine = Engine { times: Times { compute, ..TIMES }, capacity, sequences };
        prop_assert_eq!(engine.run(&requests).unwrap(), by_steps(&engine, &requests));
    }
}

#[test]
fn one_response_takes_its_steps() {
    let run = engine(1_000, 8).run(&[request(0, 10, 4)]).unwrap();
    let prefill = 10 * 5 + 50;
    let steps: u64 = (10..14).map(|context| 100 + 2 + 1_000 + 3 * context).sum();
    assert_eq!((run.end(), run.prefill, run.tokens), (prefill + steps, prefill, 4));
}

#[test]
fn a_response_that_no_memory_holds_is_refused() {
    let error = engine(13, 8).run(&[request(0, 10, 4)]);
    assert_eq!(error, Err(FsdpError::Engine { tokens: 14, capacity: 13 }));
}

#[test]
fn full_memory_preempts_and_all_responses_end() {
    let requests: Vec<Request> = (0..8).map(|at| request(at, 10, 50)).collect();
    let small = engine(100, 8).run(&requests).unwrap();
    let large = engine(1_000, 8).run(&requests).unwrap();
    assert!(small.preemptions > 0 && large.preemptions == 0);
    assert!(small.end() > large.end());
    assert_eq!(small.tokens, large.tokens);
}

fn lengths() -> [Lengths; 2] {
    [Lengths::uniform(50, 100).unwrap(), Lengths::log_normal(400, 1.0, 4_000).unwrap()]
}

fn steps(budget: Option<u32>, placement: Placement) -> Steps {
    let [prompt_lengths, response_lengths] = lengths();
    let way = Way { method: Method::LbMicro, communication: Communication::Collectives };
    Steps {
        rollout: Rollout {
            engine: engine(1 << 20, 64),
            replicas: 4,
            prompts: 32,
            responses: 4,
            prompt_lengths,
            response_lengths,
            budget,
            seed: 1,
        },
        training: Training {
            trainer: Trainer::Fsdp(
                Machine::new(4, 2).unwrap(),
                CostModel::linear(Nanos(10)).unwrap(),
            ),
            model: CostModel::linear(Nanos(30)).unwrap(),
            way,
            limit: 8_000,
            forward_limit: 8_000,
            update: 64,
            epochs: 2,
            forwards: Forwards { old: true, reference: true, critic: false },
        },
        placement,
        beside: Beside { reward: Nanos(5), sync: Nanos(7), switch: Nanos(11) },
        steps: 6,
        factors: None,
    }
}

fn mean(budget: Option<u32>, placement: Placement) -> Mean {
    steps(budget, placement).run(|| (), || false).unwrap()
}

#[test]
fn phases_add_up_to_the_step() {
    let all = mean(None, Placement::Colocated);
    assert_eq!((all.steps, all.responses, all.updates), (6, 6 * 128, 6 * 4));
    assert_eq!((all.old, all.values, all.critic), (all.reference, 0, 0));
    assert!(all.old > 0 && all.old < all.update);
    let sum = all.rollout + all.reward + all.old + all.reference + all.update + all.sync;
    assert_eq!((sum, all.sync), (all.time, 6 * 18));
    // Everything that is generated is trained on.
    assert!(all.generated < all.tokens && all.generated > all.tokens / 2);
    assert!(all.tail > 0 && all.tail < all.rollout);
}

#[test]
fn factors_bring_phases_to_measured_times() {
    let own = mean(None, Placement::Colocated);
    let factors =
        Factors { rollout: 2.0, old: 0.0, update: 0.5, rest: Nanos(100), ..Factors::default() };
    let of = Steps { factors: Some(factors), ..steps(None, Placement::Colocated) };
    let measured = of.run(|| (), || false).unwrap();
    let near = |one: u128, other: u128| one.abs_diff(other) <= 6;
    assert!(near(measured.rollout, 2 * own.rollout) && near(measured.update, own.update / 2));
    assert_eq!((measured.old, measured.reference, measured.rest), (0, own.reference, 600));
    let less = own.old + own.update - measured.update;
    assert!(near(measured.time, own.time + measured.rollout - own.rollout + 600 - less));
    // What waits does so in the same part of a phase.
    let share = |part: u128, of: u128| (1_000 * part).checked_div(of);
    assert_eq!(share(measured.tail, measured.rollout), share(own.tail, own.rollout));
    assert_eq!(share(measured.update_busy, measured.update), share(own.update_busy, own.update));
    // Factors of one change nothing.
    let ones = Steps { factors: Some(Factors::default()), ..steps(None, Placement::Colocated) };
    assert_eq!(ones.run(|| (), || false).unwrap(), own);
}

#[test]
fn on_devices_of_their_own_the_longer_of_both_counts() {
    let [together, apart] = [Placement::Colocated, Placement::Separate].map(|how| mean(None, how));
    assert_eq!(together.rollout, apart.rollout);
    assert!(apart.time < together.time && apart.time >= apart.rollout.max(apart.update));
    assert_eq!(apart.sync, 6 * 7);
}

#[test]
fn partial_rollouts_cut_the_tail_and_lose_no_token() {
    let [whole, cut] = [None, Some(500)].map(|budget| mean(budget, Placement::Colocated));
    assert!(cut.rollout < whole.rollout && cut.tail < whole.tail);
    // Long responses end in later steps, so that fewer end in each.
    assert!(cut.responses <= whole.responses && cut.responses > whole.responses / 2);
    let per = |mean: &Mean| mean.tokens as f64 / mean.responses as f64;
    assert!((per(&cut) / per(&whole) - 1.0).abs() < 0.1, "{} {}", per(&cut), per(&whole));
}

#[test]
fn a_budget_of_the_longest_response_changes_nothing() {
    let longest = lengths()[1].longest();
    for placement in [Placement::Colocated, Placement::Separate] {
        let without = mean(None, placement);
        for budget in [longest, longest + 1, u32::MAX] {
            assert_eq!(mean(Some(budget), placement), without);
        }
    }
}

#[test]
fn updates_must_divide_the_responses() {
    let mut odd = steps(None, Placement::Colocated);
    odd.training.update = 60;
    let error = odd.run(|| (), || false);
    assert_eq!(error, Err(FsdpError::Updates { responses: 128, update: 60 }));
}

#[test]
fn a_stop_leaves_the_steps_so_far() {
    let all = steps(None, Placement::Colocated).run(|| (), || true).unwrap();
    assert_eq!(all.steps, 1);
}
