use super::*;
use crate::{Nanos, Schedule};

/// Two stages of two chunks, two microbatches.
const FLUSHED: &str = "F0.0 F0.1 F2.0 F2.1 BW2.0 BW2.1 BW0.0 BW0.1\n\
                       F1.0 F1.1 F3.0 F3.1 BW3.0 BW3.1 BW1.0 BW1.1";

fn ops(orders: &str, sharding: Sharding) -> ParameterOps {
    let schedule: Schedule = orders.parse().unwrap();
    schedule.sharded(sharding).parameter_ops().unwrap().clone()
}

fn line(ops: &ParameterOps, stage: usize) -> String {
    let words: Vec<String> = ops.stage(stage).iter().map(ToString::to_string).collect();
    words.join(" ")
}

const fn fsdp(prefetch: u16, reshard: Reshard) -> Sharding {
    Sharding::Fsdp { prefetch, reshard }
}

#[test]
fn the_distributed_optimizer_gathers_and_reduces_once() {
    let ops = ops(FLUSHED, Sharding::Optimizer);
    assert_eq!(line(&ops, 0), "0UNSHARD@0 2UNSHARD@0 2REDUCE_GRAD@6 0REDUCE_GRAD@8");
    assert_eq!(line(&ops, 1), "1UNSHARD@0 3UNSHARD@0 3REDUCE_GRAD@6 1REDUCE_GRAD@8");
    let before: Vec<usize> = (0..8).map(|slot| ops.before(0, slot)).collect();
    assert_eq!(before, [1, 1, 2, 2, 2, 2, 1, 1]);
    assert_eq!(ops.most_gathered(0, |_| 7), 14, "no chunk is ever dropped");
}

#[test]
fn gradients_that_are_divided_are_reduced_behind_every_backward() {
    let ops = ops("F0.0 F0.1 B0.0 W0.0 BW0.1", Sharding::Gradients);
    assert_eq!(line(&ops, 0), "0UNSHARD@0 0REDUCE_GRAD@4 0REDUCE_GRAD@5");
    assert_eq!(ops.count(0, ParameterAct::Reduce), 2);
}

#[test]
fn parameters_are_gathered_again_where_they_were_dropped() {
    let ops = ops(FLUSHED, fsdp(0, Reshard::AfterUse));
    let want =
        "0UNSHARD@0 0RESHARD@2 2UNSHARD@2 2REDUCE_GRAD@6 2RESHARD@6 0UNSHARD@6 0REDUCE_GRAD@8";
    assert_eq!(line(&ops, 0), want);
    let before: Vec<usize> = (0..8).map(|slot| ops.before(0, slot)).collect();
    assert_eq!(before, [1, 1, 3, 3, 3, 3, 6, 6]);
    assert_eq!(ops.most_gathered(0, |_| 1), 1);
}

#[test]
fn the_look_ahead_holds_so_many_chunks_more() {
    let ahead = ops(FLUSHED, fsdp(1, Reshard::AfterUse));
    let want = "0UNSHARD@0 2UNSHARD@0 2REDUCE_GRAD@6 2RESHARD@6 0REDUCE_GRAD@8";
    assert_eq!(line(&ahead, 0), want);
    assert_eq!(ahead.most_gathered(0, |_| 1), 2);
    // Without dropping, a look-ahead only says when each is gathered first.
    let kept = ops(FLUSHED, fsdp(0, Reshard::Never));
    let want = "0UNSHARD@0 2UNSHARD@2 2REDUCE_GRAD@6 2RESHARD@6 0REDUCE_GRAD@8";
    assert_eq!(line(&kept, 0), want);
}

#[test]
fn both_chunks_of_a_pair_are_gathered_together() {
    let ops = ops("F0.0 F1.0 F0.1&BW1.0 F1.1 BW1.1 BW0.0 BW0.1", fsdp(0, Reshard::AfterUse));
    let want = "0UNSHARD@0 0RESHARD@1 1UNSHARD@1 0UNSHARD@2 0RESHARD@3 1REDUCE_GRAD@5 1RESHARD@5 \
                0UNSHARD@5 0REDUCE_GRAD@7";
    assert_eq!(line(&ops, 0), want);
    assert_eq!(ops.before(0, 2), 4, "chunk 1 is held, chunk 0 comes behind it");
    assert_eq!(ops.most_gathered(0, |_| 1), 2);
}

#[test]
fn recomputation_uses_parameters() {
    let ops = ops("F0.0 F1.0 R1.0 BW1.0 R0.0 BW0.0", fsdp(0, Reshard::AfterUse));
    assert!(line(&ops, 0).contains("1RESHARD@4 0UNSHARD@4"), "{}", line(&ops, 0));
}

#[test]
fn what_is_exposed_has_a_closed_form() {
    let exposed =
        |all: &[(u64, u64)]| exposed(all.iter().map(|&(t, room)| (Nanos(t), Nanos(room)))).0;
    assert_eq!(exposed(&[]), 0);
    assert_eq!(exposed(&[(3, 0)]), 3, "before the first pass nothing hides it");
    assert_eq!(exposed(&[(3, 0), (4, 10)]), 3, "the second behind passes of the first");
    assert_eq!(exposed(&[(3, 0), (12, 10)]), 5);
    assert_eq!(exposed(&[(3, 9), (3, 9)]), 0);
    assert_eq!(exposed(&[(u64::MAX, 1), (7, 0)]), u64::MAX, "no overflow");
}
