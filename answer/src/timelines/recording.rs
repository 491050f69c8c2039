//! Fields of a recording of a trainer beside its timeline, as the file spells them:
//!
//! ```text
//! "recording": {"program": "torch 2.15.0", "date": "2026-11-30", "cpu": "...", "cores": 8, "os": "...",
//!               "message_bytes": 65536,
//!               "memory": [{"until_backward_bytes": 1024, "until_weight_bytes": 512}, ...]}
//! ```
//!
//! `memory` is by chunk: what a microbatch holds from its F until its B or whole backward pass, and
//! from then until its W. All but `program` may be missing.

use pipeline::{Bytes, Footprint, MAX_CHUNKS};
use profile::{Facts, Machine};
use serde::{Deserialize, Serialize};

use super::Recorded;
use super::bounded::bounded;

/// The longest text, in bytes.
const LONGEST: usize = 1_000;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawRecording {
    program: String,
    #[serde(default)]
    date: String,
    #[serde(default)]
    cpu: String,
    #[serde(default)]
    cores: u64,
    #[serde(default)]
    os: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    message_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "bounded")]
    memory: Vec<RawFootprint>,
    /// By chunk, times of whole backwards in steps that were run for that alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "bounded")]
    whole_backward_ns: Vec<Vec<u64>>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFootprint {
    until_backward_bytes: u64,
    until_weight_bytes: u64,
}

impl RawRecording {
    pub(super) fn of(recorded: &Recorded) -> Option<Self> {
        let facts = recorded.facts.as_ref()?;
        let Facts { machine, message, footprints, whole_backwards, .. } = facts;
        let footprint = |one: &Footprint| RawFootprint {
            until_backward_bytes: one.until_backward.0,
            until_weight_bytes: one.until_weight.0,
        };
        Some(Self {
            program: machine.program.clone(),
            date: machine.date.clone(),
            cpu: machine.cpu.clone(),
            cores: machine.cores,
            os: machine.os.clone(),
            message_bytes: message.map(|bytes| bytes.0),
            memory: footprints.iter().map(footprint).collect(),
            whole_backward_ns: whole_backwards.clone(),
        })
    }

    /// The facts of a recording of the schedule `name` on `device`.
    pub(super) fn facts(self, name: &str, device: &str) -> Result<Facts, String> {
        let Self { program, date, cpu, cores, os, message_bytes, memory, whole_backward_ns } = self;
        if let Some(long) = [&program, &date, &cpu, &os].into_iter().find(|one| one.len() > LONGEST)
        {
            return Err(format!(
                "its recording has a text of {} bytes: at most {LONGEST}",
                long.len()
            ));
        }
        if cores > MAX_CHUNKS {
            return Err(format!("its recording has {cores} cores: at most {MAX_CHUNKS}"));
        }
        let device = device.to_owned();
        let machine = Machine { cpu, cores, os, device, date, program, ..Machine::default() };
        let footprint = |one: RawFootprint| Footprint {
            until_backward: Bytes(one.until_backward_bytes),
            until_weight: Bytes(one.until_weight_bytes),
        };
        Ok(Facts {
            machine,
            name: name.to_owned(),
            message: message_bytes.map(Bytes),
            footprints: memory.into_iter().map(footprint).collect(),
            whole_backwards: whole_backward_ns,
        })
    }
}
