//! The best order of passes for a pipeline under a memory limit.

#![forbid(unsafe_code)]
#![allow(dead_code, missing_docs)]
pub mod bounds;
mod chance;
mod head;
mod instance;
mod list;
mod local;
mod net;
mod timing;
mod tune;

pub use instance::{Instance, Objective};

pub mod scratch {
    use crate::chance::Chance;
    use crate::list::{Offsets, State};
    use crate::local::{Local, Plan};
    use crate::net::Net;
    use crate::timing::{Clock, Score};
    use crate::tune::Parameters;
    use crate::Instance;

    pub fn anneal(instance: &Instance, start: Option<&pipeline::Schedule>, target: i64, steps: u64, seed: u64, hot: f64, cold: f64, weight: f64) -> (i64, i64) {
        let net = Net::of(instance);
        let mut chance = Chance::new(seed, 0);
        let mut clock = Clock::default();
        let mut best = match start {
            Some(s) => { let seq = net.sequence(s).unwrap(); (clock.time(&net, &seq).expect("fits"), seq) }
            None => climb_seq(instance, target, 1000, 3000, seed),
        };
        let begin = best.0.cost;
        clock.time(&net, &best.1).unwrap();
        let mut local = Local::new(&net, &best.1, &clock);
        let unit = net.lanes.iter().map(|l| l.duration).sum::<i64>() as f64 / net.lanes.len() as f64;
        local.anneal(&mut chance, Plan { steps, goal: target, hot: hot * unit, cold: cold * unit, weight }, &mut best);
        let t = clock.time(&net, &best.1).unwrap();
        assert_eq!(t, best.0);
        (begin, best.0.cost)
    }
    pub fn climb(instance: &Instance, target: i64, draws: usize, steps: usize, _fbi: bool, seed: u64) -> (i64, usize) {
        let (s, _) = climb_seq(instance, target, draws, steps, seed);
        (s.cost, 0)
    }

    pub(crate) fn climb_seq(instance: &Instance, target: i64, draws: usize, steps: usize, seed: u64) -> (Score, Vec<u16>) {
        let net = Net::of(instance);
        let mut chance = Chance::new(seed, 0);
        let mut state = State::default();
        let mut tables = Offsets::default();
        let mut best = (Score::WORST, Parameters::plain(&net), Vec::new());
        for step in 0..draws + steps {
            let parameters = match step {
                0 => Parameters::plain(&net),
                s if s < draws => Parameters::draw(&net, &mut chance),
                _ => best.1.near(&net, &mut chance),
            };
            parameters.tables(&net, target, &mut tables);
            let Some(score) = state.run(&net, &mut &tables) else { continue };
            if score <= best.0 { best = (score, parameters, state.sequence.clone()); }
            if best.0.cost <= target { break; }
        }
        (best.0, best.2)
    }
}
