//! Background load: threads that load neighbouring cores during a measurement, as the other stages of a
//! run do. A core shares its caches, memory bandwidth and clock with its neighbours.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;

use executor::{BuildError, DeviceError, Ops};
use profile::ModelShape;

use crate::kernels::{LAYERS, Parts, SERIES};
use crate::machine;
use crate::sample::Source;

/// Threads that load neighbouring cores during a measurement; they stop when this is dropped.
pub struct BackgroundLoad {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl BackgroundLoad {
    /// Starts `neighbours` threads that compute passes of `shape` again and again, each on the device
    /// that `ops` gives for its number, from 0; with `pinned`, from the second core on. Returns when
    /// all of them compute.
    pub fn new<O: Ops, F>(
        neighbours: usize,
        ops: F,
        shape: ModelShape,
        pinned: bool,
    ) -> Result<Self, BuildError>
    where
        F: Fn(usize) -> Result<O, DeviceError> + Clone + Send + 'static,
    {
        let stop = Arc::new(AtomicBool::new(false));
        let mut all = Self { stop, threads: Vec::new() };
        let model = shape.with_layers(LAYERS)?;
        let mut first_rounds: Vec<Receiver<Result<(), DeviceError>>> = Vec::new();
        for neighbour in 0..neighbours {
            let (ready, first_round) = channel();
            let (stop, ops) = (Arc::clone(&all.stop), ops.clone());
            let work = move || {
                if pinned {
                    let _ = machine::pin(neighbour + 1);
                }
                let round = || -> Result<Parts<O>, DeviceError> {
                    let mut parts = Parts::new(ops(neighbour)?, model)?;
                    parts.round(&mut vec![Vec::new(); SERIES])?;
                    Ok(parts)
                };
                let first = round();
                let _ = ready.send(first.as_ref().map(|_| ()).map_err(Clone::clone));
                let Ok(mut parts) = first else { return };
                while !stop.load(Ordering::Relaxed)
                    && parts.round(&mut vec![Vec::new(); SERIES]).is_ok()
                {}
            };
            all.threads.push(std::thread::spawn(work));
            first_rounds.push(first_round);
        }
        for first_round in first_rounds {
            let gone = || DeviceError::NotAtHand { what: "a neighbour".to_owned() };
            first_round.recv().map_err(|_| gone())??;
        }
        Ok(all)
    }
}

impl Drop for BackgroundLoad {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use executor::{Cpu, Model};

    use super::*;
    use profile::Element;

    #[test]
    fn neighbours_come_and_go() {
        let model = Model::new(8, 2, 1, 11, 5, 1).unwrap();
        let shape = ModelShape::new(model, Element::F32).unwrap();
        let load = BackgroundLoad::new(2, |_| Ok(Cpu::<f32>::new()), shape, false).unwrap();
        assert!(load.threads.iter().all(|thread| !thread.is_finished()));
        let watched = Arc::downgrade(&load.stop);
        drop(load);
        assert!(watched.upgrade().is_none(), "all have let go");
    }

    #[test]
    fn a_neighbour_without_a_device_is_an_error() {
        let model = Model::new(8, 2, 1, 11, 5, 1).unwrap();
        let shape = ModelShape::new(model, Element::F32).unwrap();
        let none = |_| Err::<Cpu<f32>, _>(DeviceError::NotAtHand { what: "a device".to_owned() });
        assert!(BackgroundLoad::new(1, none, shape, false).is_err());
    }
}
