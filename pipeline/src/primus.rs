//! The order of a schedule as a table of nodes, which Primus, AMD's framework on Megatron-LM, runs: JSON with a list
//! of nodes for each rank.
//!
//! A node has `func_type` (F, B, W or BW as here; SF, RF, SB and RB are sends and receives of activations and
//! gradients; O waits until an activation is on the host and frees it, R begins its copy back), `mini_batch`, `chunk`, the
//! chunk of its rank, and `args` as `SchedulerNode` takes them. Primus has one stream for copies in both directions, on
//! which a copy out begins right behind its forward. Which tensors are copied is said by `offload_ops` of Primus, and
//! not by the part of an activation in the schedule.
//!
//! Sources, at commit fd1eeabb of github.com/AMD-AGI/Primus: `primus/core/pipeline_parallel/scheduler/` (nodes,
//! `algorithms/base.py`, `scheduler.py`), `handler/offload_handler.py` beside it, and the launcher and handlers in
//! `primus/backends/megatron/core/pipeline_parallel/primuspipe/`.

use std::fmt::Write;

use thiserror::Error;

use crate::copy_op::{CopyDirection, CopyOp};
use crate::family::times::spans_of;
use crate::offload::each_pass;
use crate::pass::{Kind, Pass, Slot};
use crate::schedule::Schedule;
use crate::shape::{Placement, Vocabulary};

/// Why Primus cannot run a schedule.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum PrimusRefusal {
    /// Two copies of the model, each in one direction.
    #[error(
        "Primus holds every chunk on one rank, and a mirrored placement has two copies of each"
    )]
    Mirrored,
    /// A wave of more than one V.
    #[error("Primus has two chunks on each rank of a V, and this one has {0}")]
    Wave(u16),
    /// Work on shards of the vocabulary.
    #[error("Primus has no passes of the output layer in shards (S and T)")]
    Shards,
    /// A recomputation.
    #[error(
        "Primus has no pass of recomputation, and {0} is one: it recomputes within the backward, as Megatron-LM's \
         recompute_granularity says"
    )]
    Recompute(Pass),
    /// Forwards of a chunk out of order.
    #[error("data come microbatch by microbatch, and {later} runs before {earlier}")]
    Data {
        /// The first forward that comes too early.
        later: Pass,
        /// One that has to come before.
        earlier: Pass,
    },
    /// A pair that is not a forward with a backward.
    #[error("Primus runs pairs of a forward and a backward alone, and no {0}")]
    Pair(Slot),
    /// Pairs without a V.
    #[error(
        "Primus runs pairs in a V alone (zbv-formatted with overlap_moe_expert_parallel_comm), and {0} is one"
    )]
    PairWithoutVee(Slot),
    /// Copies without a V.
    #[error(
        "Primus copies activations to the host in a V alone (zbv-formatted, v-half, v-min), and {0} is a copy"
    )]
    CopyWithoutVee(CopyOp),
    /// Copies beside pairs.
    #[error(
        "Primus copies no activations to the host where passes run in pairs, and {0} is a copy"
    )]
    CopyBesidePairs(CopyOp),
}

/// `schedule` as Primus runs it.
///
/// A value is sent and received in the step behind the pass that makes it, on both ranks before the passes of that
/// step and in the same order, where every slot takes one step and begins as soon as it can.
///
/// # Errors
/// If Primus cannot run it.
pub fn write(schedule: &Schedule) -> Result<String, PrimusRefusal> {
    let algorithm = check(schedule)?;
    let shape = schedule.shape();
    let table = table(schedule);
    let mut text = format!(
        "{{\n\"pp_algorithm\": \"{algorithm}\",\n\"pp_size\": {},\n\"vpp_size\": {},\n\"micro_batches\": {},\n\
         \"offload\": {},\n\"combined_forward_backward\": {},\n\"table\": [\n",
        shape.stages(),
        shape.chunks_per_stage(),
        shape.microbatches(),
        schedule.copies().is_some(),
        first_pair(schedule).is_some(),
    );
    for (rank, nodes) in table.iter().enumerate() {
        let lines: Vec<&str> = nodes.iter().map(|(_, node)| node.as_str()).collect();
        let end = if rank + 1 < table.len() { "]," } else { "]" };
        // Writing to a string cannot fail.
        let _ = write!(text, "[\n{}\n{end}\n", lines.join(",\n"));
    }
    Ok(text + "]\n}\n")
}

/// The schedule of Primus that has chunks where `schedule` has them.
fn check(schedule: &Schedule) -> Result<&'static str, PrimusRefusal> {
    let shape = schedule.shape();
    let algorithm = match (schedule.placement(), shape.chunks_per_stage()) {
        (Placement::Mirrored, _) => return Err(PrimusRefusal::Mirrored),
        (Placement::Looped | Placement::Vee, 1) => "zero-bubble",
        (Placement::Looped, _) => "1f1b-interleaved",
        (Placement::Vee, 2) => "zbv-formatted",
        (Placement::Vee, chunks) => return Err(PrimusRefusal::Wave(chunks)),
    };
    if shape.vocabulary() != Vocabulary::Whole {
        return Err(PrimusRefusal::Shards);
    }
    let passes = || schedule.orders().iter().flat_map(|order| order.passes());
    if let Some(pass) = passes().find(|pass| pass.kind == Kind::R) {
        return Err(PrimusRefusal::Recompute(*pass));
    }
    if let Some([later, earlier]) = schedule.early_forward() {
        return Err(PrimusRefusal::Data { later, earlier });
    }
    let is_vee = algorithm == "zbv-formatted";
    let mut slots = schedule.orders().iter().flat_map(|order| order.slots());
    if let Some(slot) = slots.find(|slot| !slot.is_overlap()) {
        return Err(PrimusRefusal::Pair(slot));
    }
    let pair = first_pair(schedule);
    if let Some(slot) = pair.filter(|_| !is_vee) {
        return Err(PrimusRefusal::PairWithoutVee(slot));
    }
    let copies = schedule.copies().into_iter().flat_map(|copies| copies.stages());
    match copies.flatten().flatten().next() {
        Some(copy) if !is_vee => Err(PrimusRefusal::CopyWithoutVee(*copy)),
        Some(copy) if pair.is_some() => Err(PrimusRefusal::CopyBesidePairs(*copy)),
        _ => Ok(algorithm),
    }
}

fn first_pair(schedule: &Schedule) -> Option<Slot> {
    let mut slots = schedule.orders().iter().flat_map(|order| order.slots());
    slots.find(|slot| matches!(slot, Slot::Pair(..)))
}

/// Where a node stands among those of its rank: step; transfers, passes or copies; and the order of these.
type Turn = (u64, u8, usize, usize, u16, u8);

/// The nodes of each rank in their order.
fn table(schedule: &Schedule) -> Vec<Vec<(Turn, String)>> {
    let shape = schedule.shape();
    let mut table = vec![Vec::new(); shape.stages()];
    for (stage, steps) in steps(schedule).iter().enumerate() {
        let copied = copies(schedule, stage, steps, &mut table[stage]);
        for (slot, &step) in schedule.orders()[stage].slots().zip(steps) {
            let group = match slot {
                Slot::One(_) => String::new(),
                Slot::Pair(..) => {
                    let [first, second] = both(slot).map(|pass| quoted(schedule, pass));
                    format!(", \"combined_node\": true, \"combined_group\": [{first}, {second}]")
                }
            };
            for (place, pass) in nodes_of(slot).enumerate() {
                let is_copied =
                    pass.kind == Kind::F && copied[shape.cell(pass.chunk, pass.microbatch)];
                let offload = if is_copied { ", \"should_offload\": true" } else { "" };
                let group = if pass.kind == Kind::W { "" } else { &group };
                let args = format!("\"time_step\": {step}{offload}{group}");
                let chunk = on_rank(schedule, pass.chunk);
                let node = node(kind_name(pass.kind), pass.microbatch, chunk, &args);
                table[stage].push(((step, 1, place, 0, 0, 0), node));
                transfer(schedule, stage, pass, step + 1, &mut table);
            }
        }
    }
    for nodes in &mut table {
        nodes.sort_by_key(|(turn, _)| *turn);
    }
    table
}

/// The passes of a pair as nodes of Primus, F first; a whole backward without its W.
fn both(slot: Slot) -> [Pass; 2] {
    let [first, second] = match slot {
        Slot::One(one) => [one, one],
        Slot::Pair(one, other) if other.kind == Kind::F => [other, one],
        Slot::Pair(one, other) => [one, other],
    };
    [first, Pass { kind: Kind::B, ..second }]
}

/// The passes of a slot as nodes of Primus. Its runner of pairs keeps the gradients of weights for a W, so that of a
/// whole backward in a pair stands right behind the pair.
fn nodes_of(slot: Slot) -> impl Iterator<Item = Pass> {
    let passes = match slot {
        Slot::One(one) => [Some(one), None, None],
        Slot::Pair(one, other) => {
            let [first, second] = both(slot);
            let is_whole = one.kind == Kind::BW || other.kind == Kind::BW;
            let rest = Pass { kind: Kind::W, ..second };
            [Some(first), Some(second), is_whole.then_some(rest)]
        }
    };
    passes.into_iter().flatten()
}

/// Adds the transfer of what `pass` of `stage` makes for another chunk, if it does, in step `step`.
fn transfer(
    schedule: &Schedule,
    stage: usize,
    pass: Pass,
    step: u64,
    table: &mut [Vec<(Turn, String)>],
) {
    let shape = schedule.shape();
    let (target, letter) = match pass.kind {
        Kind::F if pass.chunk + 1 < shape.chunks() => (pass.chunk + 1, 'F'),
        Kind::B | Kind::BW if pass.chunk > 0 => (pass.chunk - 1, 'B'),
        _ => return,
    };
    let to = schedule.placement().stage(shape, target, pass.microbatch);
    let [here, there] = [pass.chunk, target].map(|chunk| on_rank(schedule, chunk));
    let ends = format!("\"from_pp_rank\": {stage}, \"to_pp_rank\": {to}, \"time_step\": {step}");
    let turn = |end| (step, 0, stage.min(to), stage, target, end);
    let send = format!("{ends}, \"send_to_chunk\": {there}");
    let send = node(&format!("S{letter}"), pass.microbatch, here, &send);
    table[stage].push((turn(0), send));
    let receive = format!("{ends}, \"recv_from_chunk\": {here}");
    let receive = node(&format!("R{letter}"), pass.microbatch, there, &receive);
    table[to].push((turn(1), receive));
}

/// Adds the nodes of the copies of `stage`, whose slots run in `steps`; by cell, which activations are copied.
///
/// O stands behind the pass after that with which the copy begins, as Primus puts it, and R behind the last slot that
/// the copy back waits for; both so that R follows O. They stand directly behind a pass, so that they part no transfers.
fn copies(
    schedule: &Schedule,
    stage: usize,
    steps: &[u64],
    nodes: &mut Vec<(Turn, String)>,
) -> Vec<bool> {
    let shape = schedule.shape();
    let mut copied = vec![false; shape.cells()];
    let Some(copies) = schedule.copies() else { return copied };
    let mut forwards = vec![0; shape.cells()];
    each_pass(&schedule.orders()[stage], |at, pass| {
        if pass.kind == Kind::F {
            forwards[shape.cell(pass.chunk, pass.microbatch)] = at;
        }
    });
    let ops = || copies.stages()[stage].iter().flatten();
    let cell = |op: &CopyOp| shape.cell(op.chunk, op.microbatch);
    let mut back = vec![0; shape.cells()];
    for op in ops().filter(|op| op.way == CopyDirection::Back) {
        back[cell(op)] = op.after.saturating_sub(1).max(forwards[cell(op)]);
    }
    for (turn, op) in ops().enumerate() {
        let at = cell(op);
        copied[at] = true;
        let (name, slot, phase) = match op.way {
            CopyDirection::Out => ("O", op.after.max(forwards[at] + 1).min(back[at]), 2),
            CopyDirection::Back => ("R", back[at], 3),
        };
        let step = steps[slot as usize];
        let chunk = on_rank(schedule, op.chunk);
        let node = node(name, op.microbatch, chunk, &format!("\"time_step\": {step}"));
        nodes.push(((step, phase, turn, 0, 0, 0), node));
    }
    copied
}

/// The step in which each slot of each stage runs, where every slot takes one and begins as soon as it can.
fn steps(schedule: &Schedule) -> Vec<Vec<u64>> {
    let spans = spans_of(schedule, |_| 1, |_, _| 0);
    spans.into_iter().map(|own| own.into_iter().map(|[start, _]| start).collect()).collect()
}

/// The number of `chunk` among those of its rank.
fn on_rank(schedule: &Schedule, chunk: u16) -> u64 {
    let stages = schedule.shape().stages() as u64;
    u64::from(chunk) / stages
}

/// `pass` as Primus writes a node, in quotes.
fn quoted(schedule: &Schedule, pass: Pass) -> String {
    let chunk = on_rank(schedule, pass.chunk);
    format!("\"({}|{}|{chunk})\"", kind_name(pass.kind), pass.microbatch)
}

/// The name of a kind, which is that of Primus; S, T and R are refused before.
const fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::F => "F",
        Kind::B => "B",
        Kind::W => "W",
        Kind::BW => "BW",
        Kind::S | Kind::T | Kind::R => "",
    }
}

fn node(kind: &str, microbatch: u32, chunk: u64, args: &str) -> String {
    format!(
        "{{\"func_type\": \"{kind}\", \"mini_batch\": {microbatch}, \"chunk\": {chunk}, \"args\": {{{args}}}}}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        write(&text.parse().unwrap()).unwrap_err().to_string()
    }

    #[test]
    fn nodes_are_those_of_primus() {
        let schedule: Schedule = "F0.0 B0.0 W0.0\nF1.0 BW1.0".parse().unwrap();
        let text = write(&schedule).unwrap();
        let line = |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap();
        assert!(text.contains("\"pp_algorithm\": \"zero-bubble\""), "{text}");
        assert_eq!(
            line("{\"func_type\": \"SF\""),
            "{\"func_type\": \"SF\", \"mini_batch\": 0, \"chunk\": 0, \"args\": {\"from_pp_rank\": 0, \"to_pp_rank\": 1, \
             \"time_step\": 1, \"send_to_chunk\": 0}},"
        );
        assert_eq!(
            line("{\"func_type\": \"BW\""),
            "{\"func_type\": \"BW\", \"mini_batch\": 0, \"chunk\": 0, \"args\": {\"time_step\": 2}},"
        );
    }

    #[test]
    fn what_primus_has_no_node_for_is_refused() {
        assert!(refused("F0.1 F0.0 BW0.0 BW0.1").ends_with("F0.1 runs before F0.0"));
        assert!(refused("F0.0 R0.0 BW0.0").contains("R0.0 is one"));
        assert!(refused("F0.0 F0.1&B0.0 W0.0 BW0.1").contains("in a V alone"));
        assert!(refused("F0.0 B0.0 W0.0 | O0.0@1 R0.0@1").contains("O0.0@1 is a copy"));
    }

    /// Chunks of one rank are looped as well as in a V.
    #[test]
    fn two_chunks_on_one_rank_are_interleaved() {
        let one: Schedule = "F0.0 F1.0 B1.0 W1.0 B0.0 W0.0".parse().unwrap();
        let text = write(&one).unwrap();
        assert!(text.contains("1f1b-interleaved"));
        assert!(text.contains("\"from_pp_rank\": 0, \"to_pp_rank\": 0"), "{text}");
    }
}
