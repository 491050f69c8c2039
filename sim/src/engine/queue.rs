//! The event queue. Runs are deterministic because events are popped by time, and those of equal times in the order
//! in which they were pushed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::numbers::small;
use crate::network::FlowCheck;

/// An event of the simulation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Event {
    /// The slot that `stage` runs ends.
    SlotEnd { stage: u32 },
    /// A segment of the slot that `stage` runs may end.
    Segment { stage: u32 },
    /// A transfer may have sent its last byte.
    FlowCheck { flow: u32, generation: u32 },
    /// The value that a transfer carries has arrived.
    Arrival { transfer: u32 },
    /// A copy that shares no link is there.
    CopyEnd { copy: u32 },
    /// The parameters that the next slot of `stage` uses are there.
    Gathered { stage: u32 },
    /// `stage` may begin its next step.
    Release { stage: u32 },
    /// The value that a collective makes has arrived on all stages.
    Meet { collective: u32 },
}

/// Pending events. Pushing and popping take O(log n) of the events waiting, a few per stage.
#[derive(Default)]
pub(super) struct Queue {
    heap: BinaryHeap<Reverse<(u64, u64, Event)>>,
    pushed: u64,
}

impl Queue {
    pub(super) fn push(&mut self, time: u64, event: Event) {
        self.heap.push(Reverse((time, self.pushed, event)));
        self.pushed += 1;
    }

    pub(super) fn pop(&mut self) -> Option<(u64, Event)> {
        self.heap.pop().map(|Reverse((time, _, event))| (time, event))
    }
}

/// Lets `queue` look again at a flow when its last byte may have left.
pub(super) fn check_flow(queue: &mut Queue, FlowCheck { flow, generation, at }: FlowCheck) {
    queue.push(at, Event::FlowCheck { flow: small(flow), generation });
}
