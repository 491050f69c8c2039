use super::*;
use crate::boundary::Boundary;
use crate::cluster::{Cluster, Seating, Seats};
use crate::engine::{self, Communication, Job, Messages};
use crate::{Replay, timed};
use pipeline::{Bytes, Family, Limit, Metrics, Problem, Schedule, Shape};
use proptest::prelude::*;

const MS: u64 = 1_000_000;
const TIMES: PassTimes = PassTimes::new(Nanos(10 * MS), Nanos(11 * MS), Nanos(7 * MS));
const COUNT: u32 = 100_000;

/// A question about `family` with no hops.
fn question(family: Family, stages: usize, microbatches: u64) -> (Schedule, Costs) {
    let shape =
        Shape::new(stages as u64, if family == Family::ZbV { 2 } else { 1 }, microbatches).unwrap();
    let costs = Costs::uniform(shape, TIMES, Nanos(0));
    let problem = Problem::new(shape, costs.clone()).unwrap();
    (family.schedule(&problem).unwrap(), costs)
}

fn stormy(seed: u64) -> Stragglers {
    let mut stragglers = Stragglers::new(8, seed);
    stragglers.slow(Target::Stage(3), 1.5).unwrap();
    stragglers.slow(Target::Link(4, 5), 3.0).unwrap();
    let profile = Profile::new(&[(Nanos(50 * MS), 2.0), (Nanos(120 * MS), 1.0)]).unwrap();
    stragglers.slow_over_time(Target::Stage(0), &profile).unwrap();
    stragglers.jitter_passes(Jitter::log_normal(0.1).unwrap());
    stragglers.jitter_hops(Jitter::pareto(2.5).unwrap());
    stragglers.stall(0.01, Nanos(50 * MS)).unwrap();
    stragglers
}

fn makespan(schedule: &Schedule, costs: &Costs, stragglers: &Stragglers) -> u64 {
    timed::metrics(schedule, &stragglers.sample(0, 0).timing(costs)).makespan().0
}

#[test]
fn without_noise_everything_is_nominal() {
    for family in [Family::GPipe, Family::OneFOneB, Family::ZbH1, Family::ZbH2, Family::ZbV] {
        let (schedule, costs) = question(family, 4, 8);
        let stragglers = Stragglers::new(4, 1);
        assert!(!stragglers.is_random());
        let calm = timed::timeline(&schedule, &stragglers.sample(5, 0).timing(&costs));
        assert_eq!(calm, Replay::new().timeline(&schedule, &costs).unwrap());
    }
    // Also where a nominal time has more bits than a float.
    let huge = u64::MAX / 4 - 1;
    assert_eq!(duration(huge, 1.0, &NOMINAL, 0), huge);
}

proptest! {
    /// The duration of a pass depends on the pass alone, not on the schedule, on its start (but for
    /// profiles), or on how often it is asked for.
    #[test]
    fn all_schedules_see_the_same_noise(seed: u64, replica: u64, chunk in 0..8u16, microbatch: u32) {
        let stragglers = stormy(seed);
        let (ours, theirs) = (stragglers.sample(replica, 0), stormy(seed));
        let theirs = theirs.sample(replica, 0);
        let stage = usize::from(chunk).max(1);
        let take = |sample: NoiseSample<'_>, pass| sample.pass_duration(TIMES, stage, pass, 0);
        let f = take(ours, Pass::f(chunk, microbatch));
        let b = take(ours, Pass::b(chunk, microbatch));
        let w = take(ours, Pass::w(chunk, microbatch));
        prop_assert_eq!(take(theirs, Pass::w(chunk, microbatch)), w);
        prop_assert_eq!(take(theirs, Pass::f(chunk, microbatch)), f);
        prop_assert_eq!(take(theirs, Pass::bw(chunk, microbatch)), b + w);
        prop_assert!(f > 0 && b > 0 && w > 0 && f != b);
    }

    #[test]
    fn every_pass_has_its_own_noise_in_every_schedule(seed: u64) {
        let stragglers = stormy(seed);
        let sample = stragglers.sample(3, 1);
        for family in [Family::OneFOneB, Family::ZbH1, Family::Zb2p] {
            let (schedule, costs) = question(family, 8, 24);
            let timeline = timed::timeline(&schedule, &sample.timing(&costs));
            for (stage, spans) in timeline.stages.iter().enumerate() {
                for span in spans {
                    let pass = span.slot.passes().next().unwrap();
                    let takes = sample.pass_duration(TIMES, stage, pass, span.start.0);
                    prop_assert_eq!(span.end.0 - span.start.0, takes);
                }
            }
        }
    }

    #[test]
    fn nothing_overflows(factor in 1e-6..1e6f64, nominal: u64, start: u64, spread in 0.0..10.0) {
        let mut stragglers = Stragglers::new(2, 0);
        stragglers.slow(Target::Stage(1), factor).unwrap();
        stragglers.jitter_passes(Jitter::log_normal(spread).unwrap());
        stragglers.stall(0.5, Nanos(u64::MAX)).unwrap();
        let sample = stragglers.sample(0, 0);
        let times = PassTimes { forward: Nanos(nominal), ..TIMES };
        let takes = sample.pass_duration(times, 1, Pass::f(0, 0), start);
        prop_assert_eq!(takes == 0, nominal == 0);
    }
}

#[test]
fn seeds_replicas_and_iterations_differ() {
    let take = |seed, replica, iteration| {
        let stragglers = stormy(seed);
        stragglers.sample(replica, iteration).pass_duration(TIMES, 1, Pass::f(1, 0), 0)
    };
    let all = [take(0, 0, 0), take(1, 0, 0), take(0, 1, 0), take(0, 0, 1), take(1, 1, 0)];
    let distinct: BTreeSet<u64> = all.into_iter().collect();
    assert_eq!(distinct.len(), all.len());
}

/// Seeds are promises: what was published with one must come out again.
#[test]
fn a_seed_gives_the_same_numbers_for_ever() {
    let stragglers = stormy(42);
    let sample = stragglers.sample(0, 0);
    let passes = [Pass::f(1, 0), Pass::b(1, 0), Pass::w(1, 0)];
    let durations = passes.map(|pass| sample.pass_duration(TIMES, 1, pass, 0));
    let value = Value::Gradient { chunk: 1, microbatch: 7 };
    let hop = sample.hop_duration(MS, 1, 0, value, 0);
    assert_eq!((durations, hop), ([7_918_081, 12_502_390, 8_091_653], 771_998));
}

/// Neighbouring keys must not give related numbers.
#[test]
fn neighbours_are_independent() {
    let mut stragglers = Stragglers::new(2, 9);
    stragglers.jitter_passes(Jitter::normal(0.2).unwrap());
    let even = PassTimes { forward: Nanos(10 * MS), ..TIMES };
    let even = PassTimes { backward_input: even.forward, backward_weight: even.forward, ..even };
    let under = |sample: NoiseSample<'_>, stage, pass| {
        let takes = sample.pass_duration(even, stage, pass, 0);
        (takes as f64 / (10 * MS) as f64 - 1.0) / 0.2
    };
    let z = |stage, pass| under(stragglers.sample(0, 0), stage, pass);
    let n = f64::from(COUNT);
    let correlation = |other: &dyn Fn(u32) -> f64| {
        (0..COUNT).map(|m| z(0, Pass::f(0, m)) * other(m)).sum::<f64>() / n
    };
    // The mean of n products of independent standard normals has standard error 1/sqrt(n).
    let most = 5.0 / n.sqrt();
    assert!(correlation(&|m| z(0, Pass::f(0, m + 1))).abs() < most);
    assert!(correlation(&|m| z(0, Pass::f(1, m))).abs() < most);
    assert!(correlation(&|m| z(1, Pass::f(0, m))).abs() < most);
    assert!(correlation(&|m| z(0, Pass::b(0, m))).abs() < most);
    assert!(correlation(&|m| z(0, Pass::w(0, m))).abs() < most);
    assert!(correlation(&|m| under(stragglers.sample(1, 0), 0, Pass::f(0, m))).abs() < most);
    assert!(correlation(&|m| under(stragglers.sample(0, 1), 0, Pass::f(0, m))).abs() < most);
    let reseeded = Stragglers { seed: 10, ..stragglers.clone() };
    assert!(correlation(&|m| under(reseeded.sample(0, 0), 0, Pass::f(0, m))).abs() < most);
    // Nor may what is done hang together with the replica it is done in.
    let swapped = |m: u32| under(stragglers.sample(u64::from(m), 0), 0, Pass::f(0, 0));
    assert!(correlation(&swapped).abs() < most);
}

#[test]
fn stalls_have_the_given_rate_and_length() {
    let mut stragglers = Stragglers::new(1, 3);
    stragglers.stall(0.01, Nanos(5)).unwrap();
    let sample = stragglers.sample(0, 0);
    let forward = |m| sample.pass_duration(TIMES, 0, Pass::f(0, m), 0) - 10 * MS;
    assert!((0..COUNT).all(|m| [0, 5].contains(&forward(m))));
    // n q = 1000, five standard deviations 5 sqrt(n q (1-q)) = 157.
    let stalls = (0..COUNT).filter(|&m| forward(m) == 5).count();
    assert!(stalls.abs_diff(1000) < 157, "{stalls}");
    let certain = |probability| {
        let mut stragglers = Stragglers::new(1, 3);
        stragglers.stall(probability, Nanos(5)).unwrap();
        stragglers.sample(0, 0).pass_duration(TIMES, 0, Pass::bw(0, 0), 0) - 18 * MS
    };
    assert_eq!((certain(0.0), certain(1.0)), (0, 10));
}

/// 1F1B over equal stages, no hops. The last stage runs F0 BW0 F1 BW1 .. without a pause if it is
/// the slowest: it begins after p-1 forwards on the way down, and p-1 backwards follow its last.
#[test]
fn a_slow_last_stage_in_closed_form() {
    for (p, m, k) in [(4, 8, 2u32), (8, 24, 3), (2, 5, 1)] {
        let (schedule, costs) = question(Family::OneFOneB, p, m);
        let mut stragglers = Stragglers::new(p, 0);
        stragglers.slow(Target::Stage(p - 1), f64::from(k)).unwrap();
        let (hops, k, each) = (p as u64 - 1, u64::from(k), 28 * MS);
        assert_eq!(makespan(&schedule, &costs, &stragglers), m * k * each + hops * each);
    }
}

/// A slow first stage does p forwards, then alternates; BW0 arrives at kF + (p-1)(F+BW). Its own
/// work alone takes m k (F+BW), and it waits only for BW0: for (p-1) max(0, F + BW - kF).
#[test]
fn a_slow_first_stage_in_closed_form() {
    for (p, m, k) in [(4, 8, 2u32), (8, 24, 3), (4, 8, 4)] {
        let (schedule, costs) = question(Family::OneFOneB, p, m);
        let mut stragglers = Stragglers::new(p, 0);
        stragglers.slow(Target::Stage(0), f64::from(k)).unwrap();
        let (hops, k, each) = (p as u64 - 1, u64::from(k), 28 * MS);
        let wait = hops * each.saturating_sub(k * 10 * MS);
        assert_eq!(makespan(&schedule, &costs, &stragglers), m * k * each + wait);
    }
}

/// All stages slow by k: the whole step is.
#[test]
fn a_slow_device_under_all_stages() {
    let (schedule, costs) = question(Family::ZbH1, 4, 8);
    let mut stragglers = Stragglers::on_devices(vec![6; 4], 0);
    stragglers.slow(Target::Device(6), 0.5).unwrap();
    let nominal = Replay::new().metrics(&schedule, &costs).unwrap();
    assert_eq!(2 * makespan(&schedule, &costs, &stragglers), nominal.makespan().0);
}

/// GPipe with two stages: every hop between them is waited for twice, down and up.
#[test]
fn a_slow_link() {
    let shape = Shape::new(2, 1, 4).unwrap();
    let costs = Costs::uniform(shape, TIMES, Nanos(MS));
    let schedule = Family::GPipe.schedule(&Problem::new(shape, costs.clone()).unwrap()).unwrap();
    let mut stragglers = Stragglers::new(2, 0);
    let before = makespan(&schedule, &costs, &stragglers);
    stragglers.slow(Target::Link(1, 0), 4.0).unwrap();
    assert_eq!(makespan(&schedule, &costs, &stragglers), before + 2 * 3 * MS);
}

/// One stage, one microbatch: F 10 ms, of which 4 at factor 1 and 6 at factor 2 until 16 ms; then
/// B 11 ms, of which 4 ms of time at factor 2 do 2 and the other 9 take 4.5 ms at factor 0.5; then
/// W 7 ms in 3.5 ms.
#[test]
fn a_profile_moves_every_pass_it_meets() {
    let (schedule, costs) = question(Family::ZbH1, 1, 1);
    let mut stragglers = Stragglers::new(1, 0);
    let profile = Profile::new(&[(Nanos(4 * MS), 2.0), (Nanos(20 * MS), 0.5)]).unwrap();
    stragglers.slow_over_time(Target::Stage(0), &profile).unwrap();
    let timeline = timed::timeline(&schedule, &stragglers.sample(0, 0).timing(&costs));
    let ends: Vec<u64> = timeline.stages[0].iter().map(|span| span.end.0).collect();
    assert_eq!(ends, [16 * MS, 24_500_000, 28 * MS]);
    assert_eq!(Metrics::of(&timeline).work().0, 28 * MS);
}

#[test]
fn places_that_do_not_exist() {
    let mut stragglers = Stragglers::new(4, 0);
    let mut refusal = |target, factor| stragglers.slow(target, factor).unwrap_err().to_string();
    assert!(refusal(Target::Stage(4), 2.0).contains("no stage 4: the pipeline has 4 stages"));
    assert!(refusal(Target::Link(3, 4), 2.0).contains("no link 3-4"));
    assert!(refusal(Target::Link(2, 2), 2.0).contains("two different stages"));
    assert!(refusal(Target::Device(9), 2.0).contains("no stage runs on device 9"));
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e300] {
        assert!(refusal(Target::Stage(1), bad).contains("factor must be"));
    }
    for bad in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
        assert!(Stragglers::new(1, 0).stall(bad, Nanos(1)).is_err());
    }
    stragglers.slow(Target::Link(1, 2), 2.0).unwrap();
    let twice = stragglers.slow(Target::Link(2, 1), 2.0).unwrap_err().to_string();
    assert_eq!(twice, "link 1-2 has two slowdowns");
    let profile = Profile::new(&[(Nanos(0), 2.0)]).unwrap();
    stragglers.slow_over_time(Target::Device(1), &profile).unwrap();
    let twice = stragglers.slow_over_time(Target::Stage(1), &profile).unwrap_err().to_string();
    assert_eq!(twice, "stage 1 has two profiles");
}

#[test]
fn memory_limited_schedules_see_noise_too() {
    let shape = Shape::new(4, 1, 12).unwrap();
    let costs = Costs::uniform(shape, TIMES, Nanos(MS));
    let problem = Problem::new(shape, costs.clone()).unwrap().with_limit(Limit::Bytes(Bytes(6)));
    let schedule = Family::ZbHeuristic.schedule(&problem).unwrap();
    let stragglers = stormy(1);
    assert_ne!(makespan(&schedule, &costs, &stragglers), makespan(&schedule, &costs, &stormy(2)));
}

/// Under the same sample the engine and the replay agree where nothing is contended.
#[test]
fn the_engine_sees_the_same_noise() {
    for family in [Family::OneFOneB, Family::ZbH1, Family::ZbV] {
        let (schedule, _) = question(family, 8, 24);
        let costs = Costs::uniform(schedule.shape(), TIMES, Nanos(MS));
        let cluster = Cluster::linked(8, costs.hops().clone());
        let job = Job {
            schedule: &schedule,
            costs: &costs,
            cluster: &cluster,
            seats: &Seats::new(&cluster, 8, &Seating::Contiguous).unwrap(),
            communication: Communication::default(),
            messages: Messages::default(),
            experts: None,
            room: None,
            offload: None,
            steps: 1,
            boundary: &Boundary::default(),
        };
        let stragglers = stormy(11);
        let run = engine::run(&job, &stragglers.durations(4, &costs)).unwrap();
        let replayed = timed::timeline(&schedule, &stragglers.sample(4, 0).timing(&costs));
        assert_eq!(run.timeline, replayed, "{}", family.name());
        // In a second step the sample is another.
        let twice = Job { steps: 2, ..job };
        let run = engine::run(&twice, &stragglers.durations(4, &costs)).unwrap();
        assert_ne!(run.metrics(0).stages[1].busy, run.metrics(1).stages[1].busy);
    }
}

/// Given that at least one of n is slow, k is slow with q / (1 - (1-q)^n), whoever k is.
#[test]
fn those_that_straggle_do_so_as_often_as_they_should() {
    const DRAWS: u64 = 40_000;
    for (places, probability) in [(4, 0.3), (5, 1e-9), (3, 1.0), (1, 0.5)] {
        let mut counts = vec![0u32; places];
        for replica in 0..DRAWS {
            let slow = straggling(7, replica, places, probability).unwrap();
            assert!(!slow.is_empty() && slow.windows(2).all(|two| two[0] < two[1]));
            slow.iter().for_each(|&place| counts[place] += 1);
        }
        let n = f64::from(u32::try_from(places).unwrap());
        let any = -libm::expm1(n * libm::log1p(-probability));
        for count in counts {
            let share = f64::from(count) / DRAWS as f64;
            // Five standard deviations.
            let margin = 5.0 * (share * (1.0 - share) / DRAWS as f64).sqrt();
            assert!((share - probability / any).abs() <= margin + 1e-9, "{places} {probability}");
        }
    }
    for probability in [0.0, -0.1, 1.1, f64::NAN] {
        assert!(straggling(7, 0, 4, probability).is_err());
    }
}
