//! Which queue the engine should use: each event is taken and another put back, among as many as a
//! pipeline of 32 stages has waiting; every eighth time, one that waits is put off.
//!
//! `heap` leaves the old event behind, void, as the engine would if it looked after every change;
//! `heap, later` puts off only when the old event comes up, as the engine does; `priority-queue`
//! moves the event.

#![allow(clippy::cast_possible_truncation)] // Numbers below 64.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use priority_queue::PriorityQueue;

const WAITING: u64 = 64;
const EVENTS: u64 = 100_000;

/// A spread of durations without a generator.
const fn duration(event: u64) -> u64 {
    1 + (event.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54)
}

/// Events by (time, sequence), with the generation of what they are about.
fn heap(puts_off_later: bool) -> u64 {
    let mut heap: BinaryHeap<Reverse<(u64, u64, u32, u32)>> = BinaryHeap::new();
    let mut generation = [0u32; WAITING as usize];
    let mut due = [0u64; WAITING as usize];
    for who in 0..WAITING {
        due[who as usize] = duration(who);
        heap.push(Reverse((duration(who), who, who as u32, 0)));
    }
    let (mut handled, mut pushed) = (0, WAITING);
    while handled < EVENTS {
        let Some(Reverse((now, _, who, of))) = heap.pop() else { break };
        let place = who as usize;
        if of != generation[place] {
            continue;
        }
        pushed += 1;
        if due[place] > now {
            heap.push(Reverse((due[place], pushed, who, of)));
            continue;
        }
        handled += 1;
        due[place] = now + duration(pushed);
        heap.push(Reverse((due[place], pushed, who, of)));
        if handled % 8 == 0 {
            let other = (place + 7) % WAITING as usize;
            due[other] += duration(handled);
            if !puts_off_later {
                generation[other] += 1;
                pushed += 1;
                heap.push(Reverse((due[other], pushed, other as u32, generation[other])));
            }
        }
    }
    due.iter().sum()
}

/// One entry for each of those that wait, moved when it is put off.
fn priority_queue() -> u64 {
    let mut queue: PriorityQueue<u32, Reverse<(u64, u64)>> = PriorityQueue::new();
    for who in 0..WAITING {
        queue.push(who as u32, Reverse((duration(who), who)));
    }
    let (mut handled, mut pushed) = (0, WAITING);
    while handled < EVENTS {
        let Some((who, Reverse((now, _)))) = queue.pop() else { break };
        pushed += 1;
        handled += 1;
        queue.push(who, Reverse((now + duration(pushed), pushed)));
        if handled % 8 == 0 {
            let other = (who + 7) % WAITING as u32;
            let later = |due: &mut Reverse<(u64, u64)>| due.0.0 += duration(handled);
            queue.change_priority_by(&other, later);
        }
    }
    queue.iter().map(|(_, Reverse((due, _)))| due).sum()
}

fn queues(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("take an event, put one back");
    group.throughput(Throughput::Elements(EVENTS));
    group.bench_function("heap", |bencher| bencher.iter(|| heap(black_box(false))));
    group.bench_function("heap, later", |bencher| bencher.iter(|| heap(black_box(true))));
    group.bench_function("priority-queue", |bencher| bencher.iter(priority_queue));
}

criterion_group!(benches, queues);
criterion_main!(benches);
