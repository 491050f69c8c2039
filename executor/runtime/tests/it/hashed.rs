//! A worker that hashes all inputs of a pass, so that one wrong value, order of steps or update
//! shows at the end; and the same computed pass by pass.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use pipeline::{Kind, Pass, Schedule};
use runtime::{Boundary, DeviceError, Norm, Trainer, Wire, Worker};

/// Mixes numbers into one.
pub(crate) fn mix(parts: &[u64]) -> u64 {
    parts.iter().fold(0x9E37_79B9_7F4A_7C15, |hash, &part| {
        let x = (hash ^ part).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x ^ (x >> 29)
    })
}

/// The result of a run: weights by stage and chunk.
pub(crate) type Weights = Arc<Mutex<BTreeMap<(usize, u16), u64>>>;

/// A fault to be injected, and its place.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) enum Mishap {
    #[default]
    None,
    /// The gradients of a stage are NaN in a step.
    Nan { stage: usize, step: u32 },
    /// A pass fails.
    Error { stage: usize, pass: Pass },
    /// A pass panics.
    Panic { stage: usize, pass: Pass },
    /// None, but a stage prints when it begins a step.
    Say { stage: usize, step: u32 },
    /// A pass takes this many milliseconds.
    Slow { stage: usize, pass: Pass, millis: u64 },
    /// The norm of a stage takes this many milliseconds.
    SlowNorm { stage: usize, millis: u64 },
}

/// The worker of one stage.
pub(crate) struct Hashed {
    stage: usize,
    chunks: u16,
    step: u32,
    mishap: Mishap,
    weights: BTreeMap<u16, u64>,
    gradients: BTreeMap<u16, u64>,
    updates: Vec<(BTreeMap<u16, u64>, f64)>,
    /// By chunk and microbatch: results of F for B, and of B for W.
    forwards: HashMap<(u16, u32), u64>,
    backwards: HashMap<(u16, u32), u64>,
    loss: Option<f64>,
    left: Weights,
}

impl Hashed {
    pub(crate) fn new(schedule: &Schedule, stage: usize, mishap: Mishap, left: &Weights) -> Self {
        let shape = schedule.shape();
        let own = schedule.placement().chunks_of(shape, stage);
        let weights: BTreeMap<u16, u64> =
            own.map(|chunk| (chunk, mix(&[u64::from(chunk)]))).collect();
        Self {
            stage,
            chunks: shape.chunks(),
            step: 0,
            mishap,
            gradients: weights.keys().map(|&chunk| (chunk, 0)).collect(),
            weights,
            updates: Vec::new(),
            forwards: HashMap::new(),
            backwards: HashMap::new(),
            loss: None,
            left: Arc::clone(left),
        }
    }

    fn backward(&mut self, pass: Pass, input: Option<u64>) -> u64 {
        let Pass { chunk, microbatch, .. } = pass;
        assert_eq!(input.is_none(), chunk + 1 == self.chunks, "{pass}");
        let kept = self.forwards.remove(&(chunk, microbatch)).expect("F before B");
        let gradient = mix(&[2, self.weights[&chunk], kept, input.unwrap_or(7)]);
        self.backwards.insert((chunk, microbatch), mix(&[kept, gradient]));
        gradient
    }

    fn weight(&mut self, pass: Pass) {
        let kept = self.backwards.remove(&(pass.chunk, pass.microbatch)).expect("B before W");
        let sum = self.gradients.get_mut(&pass.chunk).expect("own chunk");
        *sum = sum.wrapping_add(kept);
    }

    fn mishap(&self, pass: Pass) -> Result<(), DeviceError> {
        match self.mishap {
            Mishap::Error { stage, pass: bad } if (stage, bad) == (self.stage, pass) => {
                Err(DeviceError::Call { call: "test", message: "it was told to fail".to_owned() })
            }
            Mishap::Panic { stage, pass: bad } if (stage, bad) == (self.stage, pass) => {
                panic!("it was told to panic")
            }
            Mishap::Slow { stage, pass: bad, millis } if (stage, bad) == (self.stage, pass) => {
                std::thread::sleep(std::time::Duration::from_millis(millis));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn publish(&self) {
        let mut left = self.left.lock().unwrap();
        for (&chunk, &weight) in &self.weights {
            left.insert((self.stage, chunk), weight);
        }
    }
}

impl Worker for Hashed {
    type Value = u64;

    fn run(&mut self, pass: Pass, input: Option<u64>) -> Result<Option<u64>, DeviceError> {
        self.mishap(pass)?;
        let Pass { kind, chunk, microbatch } = pass;
        match kind {
            Kind::F => {
                assert_eq!(input.is_none(), chunk == 0, "{pass}");
                let data = mix(&[u64::from(self.step), u64::from(microbatch)]);
                let output = mix(&[1, self.weights[&chunk], input.unwrap_or(data)]);
                self.forwards.insert((chunk, microbatch), output);
                if chunk + 1 < self.chunks {
                    return Ok(Some(output));
                }
                let loss = self.loss.get_or_insert(0.0);
                *loss += f64::from((output >> 40) as u32);
                Ok(None)
            }
            Kind::R => {
                assert_eq!(input, None);
                assert!(self.forwards.contains_key(&(chunk, microbatch)), "{pass}");
                Ok(None)
            }
            Kind::S | Kind::T => panic!("{pass}: a plan has none"),
            Kind::W => {
                assert_eq!(input, None);
                self.weight(pass);
                Ok(None)
            }
            Kind::B | Kind::BW => {
                let gradient = self.backward(pass, input);
                if kind == Kind::BW {
                    self.weight(pass);
                }
                Ok((chunk > 0).then_some(gradient))
            }
        }
    }

    fn synchronize(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn forget(&mut self) -> Result<(), DeviceError> {
        assert!(self.backwards.is_empty(), "no gradient before the step before is settled");
        self.forwards.clear();
        Ok(())
    }
}

impl Wire for Hashed {
    fn value_bytes(&self) -> usize {
        8
    }

    fn pack(&mut self, value: u64) -> Result<Vec<u8>, DeviceError> {
        Ok(value.to_le_bytes().to_vec())
    }

    fn unpack(&mut self, bytes: &[u8]) -> Result<u64, DeviceError> {
        Ok(u64::from_le_bytes(bytes.try_into().expect("checked before")))
    }
}

impl Trainer for Hashed {
    fn norm(&mut self) -> Result<Norm, DeviceError> {
        assert!(self.forwards.is_empty() && self.backwards.is_empty(), "all passes are done");
        if let Mishap::SlowNorm { stage, millis } = self.mishap
            && stage == self.stage
        {
            std::thread::sleep(std::time::Duration::from_millis(millis));
        }
        let squares = self.gradients.values().map(|&sum| f64::from((sum >> 44) as u32) * 0.1).sum();
        let is_bad = self.mishap == Mishap::Nan { stage: self.stage, step: self.step };
        Ok(Norm { squares, is_bad })
    }

    fn update(&mut self, scale: f64) -> Result<(), DeviceError> {
        self.updates.push((self.weights.clone(), scale));
        for (chunk, weight) in &mut self.weights {
            *weight = mix(&[*weight, self.gradients[chunk], scale.to_bits()]);
        }
        self.publish();
        Ok(())
    }

    fn undo(&mut self, scale: f64) -> Result<(), DeviceError> {
        let (before, made_with) = self.updates.pop().expect("an update");
        assert_eq!(made_with.to_bits(), scale.to_bits());
        self.weights = before;
        self.publish();
        Ok(())
    }

    fn begin_step(&mut self, step: u32) -> Result<(), DeviceError> {
        assert!(self.forwards.is_empty() && self.backwards.is_empty());
        (self.step, self.loss) = (step, None);
        if self.mishap == (Mishap::Say { stage: self.stage, step }) {
            println!("running");
        }
        Ok(())
    }

    fn clear(&mut self) -> Result<(), DeviceError> {
        self.gradients.values_mut().for_each(|sum| *sum = 0);
        Ok(())
    }

    fn loss(&mut self) -> Result<Option<f64>, DeviceError> {
        Ok(self.loss)
    }
}

/// Runs `steps` steps microbatch by microbatch and chunk by chunk. Returns the loss of each step,
/// and the weights.
pub(crate) fn serial(
    schedule: &Schedule,
    steps: u32,
    boundary: Boundary,
    mishap: Mishap,
) -> (Vec<f64>, BTreeMap<(usize, u16), u64>) {
    let left = Weights::default();
    let shape = schedule.shape();
    let mut workers: Vec<Hashed> =
        (0..shape.stages()).map(|stage| Hashed::new(schedule, stage, mishap, &left)).collect();
    let mut losses = Vec::new();
    for step in 0..steps {
        for worker in &mut workers {
            worker.begin_step(step).unwrap();
            worker.clear().unwrap();
        }
        for microbatch in 0..shape.microbatches() {
            let home = |chunk| schedule.placement().stage(shape, chunk, microbatch);
            let mut value = None;
            for chunk in 0..shape.chunks() {
                value = workers[home(chunk)].run(Pass::f(chunk, microbatch), value).unwrap();
            }
            for chunk in (0..shape.chunks()).rev() {
                value = workers[home(chunk)].run(Pass::bw(chunk, microbatch), value).unwrap();
            }
        }
        losses.push(workers.iter().filter_map(|worker| worker.loss).sum());
        let norms = workers.iter_mut().map(|worker| worker.norm().unwrap());
        let norm = norms.reduce(Norm::and).unwrap();
        for worker in &mut workers {
            match boundary {
                Boundary::Asynchronous => worker.update(1.0).unwrap(),
                _ if norm.is_bad => {}
                Boundary::Barrier { max_norm } | Boundary::PostValidation { max_norm } => {
                    worker.update(norm.clip(max_norm)).unwrap();
                }
            }
        }
    }
    workers.iter().for_each(Hashed::publish);
    let weights = left.lock().unwrap().clone();
    (losses, weights)
}
