//! Whether the parts add up: a stage of the executor, with its own order and layers, against what
//! the profile of its parts says.

use std::sync::Arc;
use std::time::{Duration, Instant};

use executor::{BuildError, DeviceError, Gpt, Model, Ops, Random, Trainer, Training, Wire, Worker};
use pipeline::{Costs, Family, Fault, Kind, Nanos, Pass, PassTimes, Problem, Schedule, Shape};

use crate::clock::Marks;
use crate::sample::Source;

/// F, B and W of a stage, in this order: three series.
pub const SERIES: usize = 3;

/// A stage that runs the passes of its order alone, on inputs of zeros.
pub struct LoneStage<O: Ops> {
    worker: Gpt<O>,
    schedule: Schedule,
    stage: usize,
    step: u32,
    marks: Marks,
    began: Instant,
}

/// ZB-H1 over two stages, one chunk each, and 4 microbatches: 1 or 2 are in flight.
fn schedule() -> Result<Schedule, Fault> {
    let shape = Shape::new(2, 1, 4)?;
    let unit = Nanos(1);
    let times = PassTimes::new(unit, unit, unit);
    Family::ZbH1.schedule(&Problem::new(shape, Costs::uniform(shape, times, Nanos(0)))?)
}

impl<O: Ops> LoneStage<O> {
    /// Stage `stage` of 2 of `model`.
    pub fn new(ops: O, model: Model, stage: usize) -> Result<Self, BuildError> {
        let fault = |fault: Fault| DeviceError::NotAtHand { what: fault.to_string() };
        let schedule = schedule().map_err(fault)?;
        let batches = Arc::new(Random::new(model, 0));
        let worker = Gpt::new(ops, model, &schedule, stage, batches, Training::default())?;
        let (marks, began) = (Marks::new(), Instant::now());
        Ok(Self { worker, schedule, stage, step: 0, marks, began })
    }

    /// The shape of the pipeline that it is a stage of.
    #[must_use]
    pub const fn shape(&self) -> Shape {
        self.schedule.shape()
    }

    /// Runs `pass`; its start and end by the host's clock.
    fn run(&mut self, pass: Pass) -> Result<(u64, u64), DeviceError> {
        let last = self.schedule.shape().chunks() - 1;
        let needs_input = match pass.kind {
            Kind::F => pass.chunk > 0,
            Kind::B | Kind::BW => pass.chunk < last,
            Kind::W | Kind::S | Kind::T | Kind::R => false,
        };
        let zeros = needs_input.then(|| vec![0; self.worker.value_bytes()]);
        let input = zeros.map(|zeros| self.worker.unpack(&zeros)).transpose()?;
        let start = self.marks.now();
        let value = self.worker.run(pass, input)?;
        let end = self.marks.now();
        drop(value);
        Ok((start, end))
    }
}

impl<O: Ops> Source for LoneStage<O> {
    type Error = DeviceError;

    fn round(&mut self, series: &mut [Vec<u64>]) -> Result<(), DeviceError> {
        self.worker.begin_step(self.step)?;
        self.step += 1;
        let passes = self.schedule.orders()[self.stage].passes().to_vec();
        let host = passes.iter().map(|&pass| self.run(pass)).collect::<Result<Vec<_>, _>>()?;
        self.worker.synchronize()?;
        let times = self.worker.device_times(self.began)?.unwrap_or(host);
        for (pass, (start, end)) in passes.iter().zip(times) {
            let place = match pass.kind {
                Kind::F => 0,
                Kind::B | Kind::BW => 1,
                Kind::W => 2,
                Kind::S | Kind::T | Kind::R => continue,
            };
            series[place].push(end.saturating_sub(start));
        }
        Ok(())
    }

    fn elapsed(&mut self) -> Duration {
        self.began.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use executor::Cpu;

    use super::*;
    use crate::measure::{KERNEL_MEASUREMENTS, KernelTimes, kernel_times};
    use crate::sample::{Rule, sample};
    use profile::{Element, Machine, ModelShape, Profile, Summary, predict};

    const RULE: Rule = Rule {
        warm_up: 1,
        at_least: 8,
        at_most: 8,
        half_width: 0.05,
        rise: Duration::ZERO,
        time: Duration::from_secs(20),
    };

    fn profile(shape: ModelShape) -> Profile {
        let mut count = 0;
        let ops = || Ok(Cpu::<f32>::new());
        let times = kernel_times(ops, shape, 64, &RULE, || count += 1).unwrap();
        assert_eq!(count, KERNEL_MEASUREMENTS);
        let KernelTimes { layer, embedding, head, overhead, optimizer, .. } = times;
        let (machine, links) = (Machine::default(), Vec::new());
        let model = shape;
        let half_width = RULE.half_width;
        Profile { machine, model, half_width, layer, embedding, head, overhead, optimizer, links }
    }

    #[test]
    fn parts_add_up_to_stages_within_a_wide_band() {
        let model = Model::new(64, 4, 6, 256, 32, 1).unwrap();
        let shape = ModelShape::new(model, Element::F32).unwrap();
        let once = || {
            let profile = profile(shape);
            assert!(profile.layer.forward.median() > Nanos(0));
            assert_eq!(Profile::parse(&profile.to_toml()).as_ref(), Ok(&profile));
            (0..2).flat_map(|stage| pairs(&profile, model, stage)).collect::<Vec<_>>()
        };
        // Machines under test are busy: only what is off by a factor time and again is wrong.
        let is_near = |[measured, predicted]: &[u64; 2]| {
            *measured < 4 * predicted && *predicted < 4 * measured
        };
        let mut tried = Vec::new();
        while !tried.last().is_some_and(|pairs: &Vec<_>| pairs.iter().all(is_near)) {
            assert!(tried.len() < 5, "measured and predicted: {tried:?}");
            tried.push(once());
        }
    }

    /// Measured and predicted times of the passes of `stage`, in nanoseconds.
    fn pairs(profile: &Profile, model: Model, stage: usize) -> Vec<[u64; 2]> {
        let mut lone = LoneStage::new(Cpu::<f32>::new(), model, stage).unwrap();
        let predicted = predict(profile, 6, lone.shape()).unwrap();
        let times = predicted.costs.chunks()[stage];
        let series = sample(&mut lone, SERIES, 0, &RULE).unwrap();
        let predicted = [times.forward, times.backward_input, times.backward_weight];
        let measured = series.iter().map(|samples| Summary::of(samples).unwrap().median);
        measured.zip(predicted).map(|(measured, predicted)| [measured, predicted.0]).collect()
    }

    #[test]
    fn footprints_are_those_of_the_executor() {
        let shape = ModelShape::new(Model::new(8, 2, 7, 16, 4, 2).unwrap(), Element::F32).unwrap();
        let profile = profile(shape);
        let pipeline = Shape::new(2, 2, 1).unwrap();
        let model = shape.with_layers(7).unwrap();
        let own = executor::footprints(model, pipeline, 4).unwrap();
        assert_eq!(predict(&profile, 7, pipeline).unwrap().footprints, own);
    }
}
