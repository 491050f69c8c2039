//! The best order of passes for a pipeline under a memory limit.

#![forbid(unsafe_code)]
#![allow(dead_code, missing_docs)]
mod chance;
mod head;
mod instance;
mod list;
mod net;
mod timing;
mod tune;

pub use instance::{Instance, Objective};

pub mod scratch {
    use crate::chance::Chance;
    use crate::list::{Offsets, Priorities, State};
    use crate::net::Net;
    use crate::timing::{Clock, Score};
    use crate::tune::Parameters;
    use crate::Instance;

    pub fn climb(instance: &Instance, target: i64, draws: usize, steps: usize, fbi: bool, seed: u64) -> (i64, usize) {
        let net = Net::of(instance);
        let back = net.reversed();
        let mut chance = Chance::new(seed, 0);
        let mut state = State::default();
        let mut back_state = State::default();
        let mut tables = Offsets::default();
        let mut clock = Clock::default();
        let mut best = (Score::WORST, Parameters::plain(&net));
        let mut stuck = 0;
        let mut failed = 0;
        let mut overall = Score::WORST;
        for step in 0..draws + steps {
            let parameters = match step {
                0 => Parameters::plain(&net),
                s if s < draws => Parameters::draw(&net, &mut chance),
                _ => best.1.near(&net, &mut chance),
            };
            parameters.tables(&net, target, &mut tables);
            let Some(score) = state.run(&net, &mut &tables) else { failed += 1; continue };
            if step == 0 {
                let check = clock.time(&net, &state.sequence);
                eprintln!("plain {score:?} re-timed {check:?}");
            }
            let mut score = score;
            if let Some(timed) = clock.time(&net, &state.sequence) { assert!(timed <= score || timed.cost <= score.cost, "{timed:?} {score:?}"); score = timed.min(score); }
            if fbi && score.cost < best.0.cost + best.0.cost / 50 {
                let mut ends = clock.ends.clone();
                for _ in 0..3 {
                    let m = net.microbatches as usize;
                    let prio: Vec<i64> = (0..net.lanes.len()).flat_map(|lane| { let e = &ends; (0..m).map(move |k| -e[lane * m + (m - 1 - k)]) }).collect();
                    let Some(s) = back_state.run(&back, &mut Priorities { order: &prio, patience: 256 }) else { eprintln!("back deadlock"); break };
                    let _ = s;
                    let prio: Vec<i64> = (0..net.lanes.len()).flat_map(|lane| { let e = &back_state.ends; (0..m).map(move |k| -e[lane * m + (m - 1 - k)]) }).collect();
                    let Some(_) = state.run(&net, &mut Priorities { order: &prio, patience: 256 }) else { eprintln!("forth deadlock");break };
                    let Some(t) = clock.time(&net, &state.sequence) else { break };
                    ends.clone_from(&clock.ends);
                    if t < score { score = t; } else { break; }
                }
            }
            overall = overall.min(score);
            if score <= best.0 { if score < best.0 { stuck = 0; } best = (score, parameters); } else { stuck += 1; }
            if overall.cost <= target { return (overall.cost, step); }
        }
        let _ = stuck;
        eprintln!("failed {failed} {:?}", best.1);
        (overall.cost, draws + steps)
    }
}
