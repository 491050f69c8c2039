//! `[noise]`: how durations differ, and who is slow.

use plan::{Cluster, Noise, SlowDevice, Straggler};
use question::diagnostic::Diagnostic;
use question::values::noise as syntax;
use sim::straggler::Target;

use crate::document::NoiseDocument;
use crate::reader::Reader;

/// The most devices that are slow for good: each may need steps of its own.
const MAX_SLOW: usize = 16;
/// The largest factor.
const MAX_FACTOR: f64 = 1e6;

impl Reader<'_> {
    pub(crate) fn noise(&self, clusters: &[Cluster]) -> Result<Noise, Diagnostic> {
        let NoiseDocument { jitter, stall, replicas, seed, .. } = self.document.noise;
        let jitter = jitter.unwrap_or(0.03);
        if !(0.0..=10.0).contains(&jitter) {
            let message = format!("jitter is {jitter}: a coefficient of variation from 0 to 10");
            return Err(self.wrong("jitter", message));
        }
        let replicas = replicas.unwrap_or(200);
        if !(1..=10_000).contains(&replicas) {
            return Err(self.wrong("replicas", format!("replicas is {replicas}: 1 to 10000")));
        }
        let stall = stall.map(|stall| (stall.probability, stall.length));
        if let Some((probability, _)) = stall {
            self.check_probability("stall", probability)?;
        }
        Ok(Noise {
            jitter,
            stall,
            straggler: self.straggler()?,
            slowdown: self.slowdown(clusters)?,
            replicas,
            seed: seed.unwrap_or(0),
        })
    }

    fn straggler(&self) -> Result<Option<Straggler>, Diagnostic> {
        let Some(syntax::Straggler { probability, factor }) = self.document.noise.straggler else {
            return Ok(None);
        };
        self.check_probability("straggler", probability)?;
        self.check_factor("straggler", factor)?;
        Ok(Some(Straggler { probability, factor }))
    }

    fn slowdown(&self, clusters: &[Cluster]) -> Result<Vec<SlowDevice>, Diagnostic> {
        let key = "slowdown";
        let given = self.document.noise.slowdown.as_deref().unwrap_or_default();
        if given.len() > MAX_SLOW {
            let message = format!("{} slow devices: at most {MAX_SLOW}", given.len());
            return Err(self.wrong(key, message));
        }
        let mut all: Vec<SlowDevice> = Vec::new();
        for &syntax::Slowdown { target, factor } in given {
            let Target::Device(device) = target else {
                let message = format!(
                    "slowdown of {target}: which stage a device has is what is searched; write \
                     device:N=FACTOR, with N from 0 over all devices of a cluster"
                );
                return Err(self.wrong(key, message));
            };
            self.check_factor(key, factor)?;
            let device = device as u64;
            if let Some(small) = clusters.iter().find(|cluster| cluster.devices() <= device) {
                let message = format!(
                    "there is no device {device}: a cluster has {}, numbered from 0",
                    small.devices()
                );
                return Err(self.wrong(key, message));
            }
            if all.iter().any(|known| known.device == device) {
                return Err(self.wrong(key, format!("device {device} has two slowdowns")));
            }
            all.push(SlowDevice { device, factor });
        }
        Ok(all)
    }

    fn check_probability(&self, key: &str, probability: f64) -> Result<(), Diagnostic> {
        if (0.0..=1.0).contains(&probability) {
            return Ok(());
        }
        let message = format!("{key} has a probability of {probability}: it must be from 0 to 1");
        Err(self.wrong(key, message))
    }

    fn check_factor(&self, key: &str, factor: f64) -> Result<(), Diagnostic> {
        if (1.0..=MAX_FACTOR).contains(&factor) {
            return Ok(());
        }
        let message = format!(
            "{key} has a factor of {factor}: it must be from 1 to {MAX_FACTOR}, for all wait for \
             the slowest; 1.5 means 50 % longer"
        );
        Err(self.wrong(key, message))
    }
}
