//! The checks that a timeline from a file must pass.

use pipeline::{
    Collectives, Costs, Measurement, MicrobatchWork, Nanos, PassTimes, Schedule, ShardTimes, Slot,
    Step, Work,
};

use super::Recorded;
use super::raw::{Raw, RawArrival, RawCosts, RawShards, RawSlot, RawStage, RawStep};

/// The latest time of a step, 1,000,000 s: no sum of times overflows.
const LATEST: u64 = 1_000_000_000_000_000;

/// The timeline that `raw` says.
pub(super) fn whole(raw: Raw) -> Result<Recorded, String> {
    let Raw { source, device, schedule: order, costs, steps, recording, .. } = raw;
    let text = order.order.join("\n");
    let schedule: Schedule = text.parse().map_err(|fault| format!("its order: {fault}"))?;
    let headers = usize::from(schedule.shape().has_shards());
    if schedule.shape().stages() + headers != order.order.len() {
        return Err("its order has a stage that is not a single line".to_owned());
    }
    drop(text);
    let costs = costs.map(|costs| whole_costs(costs, &schedule)).transpose()?;
    if steps.is_empty() {
        return Err("it has no steps".to_owned());
    }
    let step = |(at, step): (usize, RawStep)| {
        whole_step(step, &schedule).map_err(|fault| format!("step {at}: {fault}"))
    };
    let steps = steps.into_iter().enumerate().map(step).collect::<Result<_, _>>()?;
    let facts = recording.map(|one| one.facts(&order.name, &device)).transpose()?;
    Ok(Recorded { source, name: order.name, schedule, device, costs, steps, facts })
}

fn whole_costs(raw: RawCosts, schedule: &Schedule) -> Result<Costs, String> {
    let RawCosts {
        forward_ns,
        backward_input_ns,
        backward_weight_ns,
        backward_ns,
        hop_ns,
        recompute_ns,
        shards,
        microbatch_work,
    } = raw;
    let chunks = forward_ns.len();
    if backward_input_ns.len() != chunks || backward_weight_ns.len() != chunks {
        return Err("its costs of F, B and W are not for the same number of chunks".to_owned());
    }
    if !backward_ns.is_empty() && backward_ns.len() != chunks {
        return Err("its costs of F and BW are not for the same number of chunks".to_owned());
    }
    let times = forward_ns.into_iter().zip(backward_input_ns).zip(backward_weight_ns);
    let times = times.enumerate().map(|(chunk, ((f, b), w))| PassTimes {
        forward: Nanos(f),
        backward_input: Nanos(b),
        backward_weight: Nanos(w),
        backward: backward_ns.get(chunk).copied().map(Nanos),
    });
    let recompute = recompute_ns.into_iter().map(|time| time.map(Nanos)).collect();
    let hops = hop_ns.whole(schedule).map_err(|fault| format!("its costs: {fault}"))?;
    let costs = Costs::new(times.collect(), Nanos(0)).with_hops(hops);
    let mut costs = costs.with_recompute(recompute);
    if let Some(RawShards {
        before_ns,
        after_ns,
        broadcast_ns,
        statistics_ns,
        hidden_gradient_ns,
    }) = shards
    {
        if before_ns.len() != after_ns.len() {
            return Err("its costs of S and T are not for the same number of shards".to_owned());
        }
        let times = before_ns.into_iter().zip(after_ns);
        let shards = times.map(|(s, t)| ShardTimes { before: Nanos(s), after: Nanos(t) });
        let collectives = Collectives {
            broadcast: Nanos(broadcast_ns),
            statistics: Nanos(statistics_ns),
            hidden_gradient: Nanos(hidden_gradient_ns),
        };
        costs = costs.with_shards(shards.collect(), collectives);
    }
    if !microbatch_work.is_empty() {
        let one = |[forward, input, weight]: [f64; 3]| Work::new(forward, input, weight);
        let each: Option<Vec<Work>> = microbatch_work.into_iter().map(one).collect();
        let each = each.ok_or("its work of a microbatch is not a factor")?;
        costs = costs.with_microbatch_work(MicrobatchWork::new(each));
    }
    costs.check(schedule.shape()).map_err(|fault| format!("its costs: {fault}"))?;
    Ok(costs)
}

fn whole_step(raw: RawStep, schedule: &Schedule) -> Result<Step, String> {
    let (has, stages) = (raw.stages.len(), schedule.shape().stages());
    if has != stages {
        return Err(format!("it has {has} stages, but the order has {stages}"));
    }
    if raw.began_ns > LATEST {
        return Err(format!("it began at {} ns: at most {LATEST}", raw.began_ns));
    }
    let mut step = Step { loss: raw.loss, began: Nanos(raw.began_ns), ..Step::default() };
    for (stage, RawStage { end_ns, slots }) in raw.stages.into_iter().enumerate() {
        let slots = whole_stage(&slots, stage, schedule)
            .map_err(|fault| format!("stage {stage}, {fault}"))?;
        let last = slots.last().map_or(0, |slot| slot.end.0);
        if !(last..=LATEST).contains(&end_ns) {
            let fault = format!("it is done at {end_ns} ns: not between its last pass, {last} ns");
            return Err(format!("stage {stage}, {fault}, and {LATEST} ns"));
        }
        step.stages.push(slots);
        step.ends.push(Nanos(end_ns));
    }
    Ok(step)
}

fn whole_stage(
    raw: &[RawSlot],
    stage: usize,
    schedule: &Schedule,
) -> Result<Vec<Measurement>, String> {
    let mut slots = Vec::with_capacity(raw.len());
    let mut order = schedule.orders()[stage].slots();
    let mut free = 0;
    for (at, one) in raw.iter().enumerate() {
        let fault = |text: String| format!("slot {at}, {}: {text}", short(&one.slot));
        let slot = order.next().ok_or_else(|| fault("the order has no more slots".to_owned()))?;
        if slot.to_string() != one.slot {
            return Err(fault(format!("the order has {slot} there")));
        }
        let RawSlot { start_ns: start, end_ns: end, .. } = *one;
        if start > end {
            return Err(fault(format!("it ends at {end} ns, before it starts at {start} ns")));
        }
        if start < free {
            return Err(fault(format!("it starts at {start} ns, in the one before, until {free}")));
        }
        if end > LATEST {
            return Err(fault(format!("it ends at {end} ns: at most {LATEST}")));
        }
        let arrived = one.arrived.as_ref();
        check_arrival(schedule, stage, slot, arrived, end).map_err(fault)?;
        let arrived = arrived.map(|arrived| (arrived.value(), Nanos(arrived.at_ns)));
        slots.push(Measurement { slot, arrived, start: Nanos(start), end: Nanos(end) });
        free = end;
    }
    match order.next() {
        None => Ok(slots),
        Some(slot) => Err(format!("{slot} is missing: it has {} slots", raw.len())),
    }
}

/// Checks that the value that arrived is an input of the slot. Clocks of two devices never agree fully,
/// so it may arrive after the slot began, but not after its end.
fn check_arrival(
    schedule: &Schedule,
    stage: usize,
    slot: Slot,
    arrived: Option<&RawArrival>,
    end: u64,
) -> Result<(), String> {
    let place = (schedule.shape(), schedule.placement());
    let needs = || slot.received(place, stage);
    match arrived {
        None if needs().next().is_none() => Ok(()),
        None => Err("it does not say when what it needs arrived".to_owned()),
        Some(arrived) if !needs().any(|value| value == arrived.value()) => {
            Err(format!("it needs no {:?} from another stage", arrived.value()))
        }
        Some(arrived) if arrived.at_ns > end => {
            Err(format!("what it needs arrived at {} ns, after its end", arrived.at_ns))
        }
        Some(_) => Ok(()),
    }
}

/// A word from a stranger's file, shortened.
fn short(word: &str) -> String {
    word.chars().filter(|c| !c.is_control()).take(40).collect()
}
