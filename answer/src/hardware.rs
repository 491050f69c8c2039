//! The report of a run on hardware, for tables and files.

use pipeline::Nanos;
use serde::Serialize;
use sim::engine::Run;
use sim::occupancy::{Occupancy, Peak};

use question::hardware::Hardware;
use question::{format, object};

/// A run, and its use of the hardware.
pub struct Report {
    /// The time per step, with everything between two steps.
    pub step_time: Nanos,
    /// The memory of each device; its curves only where the run was kept.
    pub occupancy: Occupancy,
    /// By wire, bytes carried.
    carried: Vec<u64>,
    /// The end of the last pass.
    end: Nanos,
}

impl Report {
    /// The report of `run` on `hardware`.
    pub fn of(hardware: &Hardware, run: &Run, occupancy: Occupancy) -> Self {
        let mut carried = vec![0u64; hardware.cluster.wires().len()];
        for (carried, moved) in carried.iter_mut().zip(&run.all_to_alls) {
            *carried = moved.0;
        }
        for transfer in &run.transfers {
            let [from, to] = [transfer.from, transfer.to].map(|stage| hardware.seats.device(stage));
            for wire in hardware.cluster.route(from, to).wires {
                carried[wire] = carried[wire].saturating_add(hardware.messages.bytes.0);
            }
        }
        for copy in &run.copies {
            let wires = hardware.cluster.host_wires(hardware.seats.device(copy.stage));
            for wire in wires.into_iter().flatten() {
                carried[wire] = carried[wire].saturating_add(copy.bytes.0);
            }
        }
        let spans = run.timeline.stages.iter().flatten();
        let end = spans.map(|span| span.end).max().unwrap_or_default();
        let step_time = run.step_time();
        Self { step_time, occupancy, carried, end }
    }

    /// The device that overflows first, if any does.
    pub fn out_of_memory(&self) -> Option<&Peak> {
        let full = self.occupancy.peaks.iter().filter(|peak| peak.overflow.is_some());
        full.min_by_key(|peak| (peak.overflow.map(|overflow| overflow.at), peak.device))
    }

    /// The device that holds most.
    pub fn fullest(&self) -> Option<&Peak> {
        self.occupancy.peaks.iter().rev().max_by_key(|peak| peak.bytes)
    }

    /// The wire that is used most, and the share of its bandwidth that is.
    pub fn busiest(&self, hardware: &Hardware) -> Option<(usize, f64)> {
        let wires = 0..self.carried.len();
        let used = wires.map(|wire| (wire, self.used(hardware, wire)));
        used.filter(|(_, used)| *used > 0.0).max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)))
    }

    #[allow(clippy::cast_precision_loss)]
    fn used(&self, hardware: &Hardware, wire: usize) -> f64 {
        let end = self.end.0.max(1) as f64 / 1e9;
        let bandwidth = hardware.cluster.wires()[wire].bandwidth.bytes_per_second() as f64;
        self.carried[wire] as f64 / (bandwidth * end)
    }

    /// The step, the busiest wire, the fullest device, when and where that is, and whether memory overflows, in words.
    pub fn row(&self, hardware: &Hardware) -> [String; 5] {
        let name = |wire: usize| hardware.cluster.wires()[wire].name.clone();
        let wire = self.busiest(hardware).map_or("-".to_owned(), |(wire, used)| {
            format!("{}: {}", name(wire), format::percent(used))
        });
        let [memory, at] = self.fullest().map_or(["-".to_owned(), "-".to_owned()], |peak| {
            let place = format!("device {}, {}", peak.device, format::time(peak.at));
            [format::size(peak.bytes), place]
        });
        let full = self.out_of_memory().and_then(|peak| peak.overflow.map(|over| (peak, over)));
        let full = full.map_or("-".to_owned(), |(peak, over)| {
            let (at, by) = (format::time(over.at), format::size(over.by));
            format!("device {} at {at}, by {by}", peak.device)
        });
        [format::time(self.step_time), wire, memory, at, full]
    }

    /// The same for machines.
    pub fn json(&self, hardware: &Hardware) -> impl Serialize + use<> {
        let wires = (0..self.carried.len()).filter(|&wire| self.carried[wire] > 0);
        let wires = wires.map(|wire| {
            object!(
                name = hardware.cluster.wires()[wire].name.clone(),
                bytes = self.carried[wire],
                // Share of its bandwidth.
                used = self.used(hardware, wire),
            )
        });
        object!(
            // The time per step, with everything between two steps.
            step_ns = self.step_time.0,
            steps = hardware.steps,
            // The device of each stage.
            devices = hardware.seats.devices().to_vec(),
            [wires] = wires,
            [memory] = self.occupancy.peaks.iter().map(memory),
            out_of_memory = self.out_of_memory().map(memory),
        )
    }
}

/// The fullest moment of a device, for machines.
fn memory(peak: &Peak) -> impl Serialize + use<> {
    let held = peak.activations.iter().map(|held| {
        // The last pass on the activation, as in the text form.
        object!(stage = held.stage, pass = held.pass.to_string(), bytes = held.bytes.0)
    });
    let overflow = peak.overflow.map(|over| object!(at_ns = over.at.0, by_bytes = over.by.0));
    object!(
        device = peak.device,
        peak_bytes = peak.bytes.0,
        at_ns = peak.at.0,
        resident_bytes = peak.resident.0,
        buffer_bytes = peak.buffers.0,
        [activations] = held,
        // The bytes of activations that are on the host.
        on_host_bytes = peak.on_host.0,
        overflow = overflow,
    )
}
