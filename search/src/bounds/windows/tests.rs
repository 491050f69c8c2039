//! Any order is a witness: windows must never say that it costs more than it does.

use std::cell::Cell;

use pipeline::{
    Bytes, Costs, Footprint, Footprints, Hops, Kind, Limits, Memory, Nanos, Order, Pass, PassTimes,
    Placement, Schedule, Shape,
};
use proptest::prelude::*;
use sim::Replay;

use super::*;
use crate::Objective;

/// An order in which passes run as `choices` pick them from those that can, at most `ahead` microbatches at once, with R
/// of the chunks that recompute.
fn order(instance: &Instance, choices: &[u16], ahead: u32) -> Schedule {
    let Instance { shape, placement, costs, .. } = instance;
    let chunks = usize::from(shape.chunks());
    // F, B, W and R that have run, by chunk; where there is no R, all that there could be.
    let again = |chunk| costs.recompute(chunk).map_or(shape.microbatches(), |_| 0);
    let mut done: Vec<[u32; 4]> =
        (0..shape.chunks()).map(|chunk| [0, 0, 0, again(chunk)]).collect();
    let mut orders = vec![Vec::new(); shape.stages()];
    let mut choices = choices.iter().cycle();
    loop {
        let mut ready = Vec::new();
        for chunk in 0..chunks {
            let [f, b, w, r] = done[chunk];
            let given = if chunk == 0 { done[0][2] + ahead } else { done[chunk - 1][0] };
            if f < given.min(shape.microbatches()) {
                ready.push((chunk, 0));
            }
            let given = done.get(chunk + 1).map_or(f, |above| above[1]);
            if b < given.min(f).min(r) {
                ready.push((chunk, 1));
            }
            if w < b {
                ready.push((chunk, 2));
            }
            if r < f {
                ready.push((chunk, 3));
            }
        }
        let choice = usize::from(*choices.next().unwrap());
        let Some(&(chunk, kind)) = ready.get(choice % ready.len().max(1)) else { break };
        let pass = Pass {
            kind: [Kind::F, Kind::B, Kind::W, Kind::R][kind],
            chunk: u16::try_from(chunk).unwrap(),
            microbatch: done[chunk][kind],
        };
        done[chunk][kind] += 1;
        orders[placement.stage_of(*shape, pass)].push(pass);
    }
    let orders = orders.into_iter().map(|passes| passes.into_iter().collect::<Order>());
    Schedule::new(*shape, *placement, orders.collect()).unwrap()
}

/// Parameters of a random small pipeline.
#[derive(Clone, Debug)]
struct Drawn {
    layout: (Placement, [u64; 2]),
    microbatches: u64,
    choices: Vec<u16>,
    ahead: u32,
    times: Vec<[u64; 3]>,
    held: Vec<[u64; 2]>,
    /// By chunk that recomputes, the time of R and what F keeps.
    again: Vec<Option<[u64; 2]>>,
    /// All alike, or by link.
    hops: Vec<u64>,
    alike: bool,
    makespan: bool,
}

impl Drawn {
    /// An order, and the question to which it is an answer: it has no memory to spare.
    fn witness(&self) -> (Schedule, Instance) {
        let (placement, [p, v]) = self.layout;
        let shape = Shape::new(p, v, self.microbatches).unwrap();
        let chunks = usize::from(shape.chunks());
        let of = |chunk: usize| if self.alike { 0 } else { chunk };
        let times = (0..chunks).map(|chunk| {
            let [forward, backward_input, backward_weight] = self.times[of(chunk)].map(Nanos);
            PassTimes::new(forward, backward_input, backward_weight)
        });
        let held = (0..chunks).map(|chunk| {
            let [until_backward, until_weight] = self.held[of(chunk)].map(Bytes);
            Footprint { until_backward, until_weight }
        });
        let links = match (&self.hops[..], shape.stages()) {
            ([all], _) => vec![*all],
            (each, ..=2) => each[..1].to_vec(),
            (each, stages) => each.iter().copied().cycle().take(stages).collect(),
        };
        let links: Vec<Nanos> = links.into_iter().map(Nanos).collect();
        let hops = Hops::placed(shape, placement, &links).unwrap();
        let again = |part: usize| (0..chunks).map(move |chunk| Some(self.again[of(chunk)]?[part]));
        let costs = Costs::new(times.collect(), Nanos(0)).with_hops(hops);
        let costs = costs.with_recompute(again(0).map(|time| time.map(Nanos)).collect());
        let kept = again(1).map(|kept| kept.map(Bytes)).collect();
        let footprints = Footprints::new(held.collect()).with_kept(kept);
        let objective = if self.makespan { Objective::Makespan } else { Objective::Span };
        let free = Instance::new(shape, placement, costs, footprints, None, objective).unwrap();
        let schedule = order(&free, &self.choices, self.ahead);
        let limits = Memory::of(&schedule, &free.footprints).unwrap().peak;
        let limits = Some(Limits::new(shape, &limits).unwrap());
        (schedule, Instance { limits, ..free })
    }
}

fn drawn() -> impl Strategy<Value = Drawn> {
    use Placement::{Looped, Vee};
    let layouts = vec![
        (Looped, [1, 1]),
        (Looped, [2, 1]),
        (Looped, [3, 1]),
        (Looped, [4, 1]),
        (Looped, [2, 2]),
        (Looped, [3, 3]),
        (Looped, [1, 4]),
        (Vee, [1, 2]),
        (Vee, [2, 2]),
        (Vee, [3, 2]),
        (Vee, [4, 2]),
        (Vee, [2, 4]),
    ];
    let times = prop::collection::vec([0..9u64, 0..9u64, 0..7u64], 9);
    let held = prop::collection::vec([0..7u64, 0..6u64], 9);
    let order = (prop::collection::vec(any::<u16>(), 1..60), 1..8u32, 1..15u64);
    let hops = prop_oneof![prop::collection::vec(0..5u64, 1), prop::collection::vec(0..9u64, 3)];
    let one = prop::option::of([0..9u64, 0..6u64]);
    let again = prop_oneof![Just(vec![None; 9]), prop::collection::vec(one, 9)];
    let rest = (hops, again, any::<bool>(), prop::bool::weighted(0.3));
    (prop::sample::select(layouts), order, times, held, rest).prop_map(
        |(layout, (choices, ahead, microbatches), times, held, (hops, again, alike, makespan))| {
            Drawn {
                layout,
                microbatches,
                choices,
                ahead,
                times,
                held,
                again,
                hops,
                alike,
                makespan,
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, ..ProptestConfig::default() })]

    #[test]
    fn no_order_is_cheaper_than_windows_say(drawn in drawn()) {
        let (schedule, instance) = drawn.witness();
        let metrics = Replay::new().metrics(&schedule, &instance.costs).unwrap();
        let cost = instance.objective.of(&metrics);
        let (little, more) = (cost.0 + 1, cost.0 + cost.0 / 8 + 2);
        // To the end, and cut short somewhere.
        let cut = u32::from(drawn.choices[0]) % 200;
        for (asked, looks) in [(little, u32::MAX), (more, u32::MAX), (more, cut)] {
            let mut prover = Prover::of(&instance, Nanos(0)).unwrap();
            let looked = Cell::new(0);
            let stop = || {
                looked.set(looked.get() + 1);
                looked.get() > looks
            };
            prover.prove(Nanos(asked), 1 << 21, &stop);
            prop_assert!(looked.get() <= looks.saturating_add(4), "it went on");
            let bound = prover.bound();
            let wrong = bound.filter(|bound| bound.cost > cost);
            prop_assert!(wrong.is_none(), "{wrong:?} above {cost}: {:?}", prover.proof());
        }
    }
}
