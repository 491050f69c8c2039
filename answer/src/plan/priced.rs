//! A set-up with its time, memory, money and error bar.

use pipeline::{Bytes, Nanos};
use plan::{Finalist, Kind, Part as LayerPart, PartTimes};
use question::plan::{Framework, Question};
use serde::Serialize;

/// A set-up with all that a planner asks of it.
pub struct Plan {
    /// Its cluster, by number.
    pub cluster: usize,
    /// The run of the event engine.
    pub finalist: Finalist,
    /// The step that half of all, and 95 %, do not exceed under noise; nothing if a Ctrl-C came
    /// before enough were drawn.
    pub percentiles: Option<[Nanos; 2]>,
    /// Tokens a second, by the nominal step.
    pub tokens_per_second: f64,
    /// Model FLOPs utilisation.
    pub mfu: f64,
    /// Hardware FLOPs utilisation.
    pub hfu: f64,
    /// Share of time that failures leave.
    pub goodput: f64,
    /// Seconds between two checkpoints.
    pub checkpoint_interval: f64,
    /// Days for all tokens, with failures.
    pub days: f64,
    /// Hours of all devices together for all tokens, with failures.
    pub gpu_hours: f64,
    /// Dollars for all tokens.
    pub dollars: f64,
    /// Of what kind its step is.
    pub kind: Kind,
    /// How far its step may be off, as a share; nothing if nothing of its kind was measured.
    pub error: Option<f64>,
    /// Whether no other plan is both faster and cheaper.
    pub on_front: bool,
}

/// A time in seconds.
pub fn seconds(time: Nanos) -> f64 {
    number(time.0) / 1e9
}

/// Where the time of a step goes, on the stage that works longest.
#[derive(Serialize)]
pub struct Part {
    /// The name of the part.
    pub name: &'static str,
    /// Seconds of a step.
    pub seconds: f64,
}

impl Plan {
    /// The memory that may be used of the fullest device, and the memory that is used.
    pub fn memory(&self) -> [Bytes; 2] {
        let (stage, held) = self.finalist.evaluation.fullest();
        [self.finalist.costed().capacities[stage], held.sum()]
    }

    /// The memory left on the device that has least left.
    pub fn room(&self) -> Bytes {
        let left = self.finalist.costed().capacities.iter().zip(&self.finalist.evaluation.memory);
        let left = left.map(|(may, held)| Bytes(may.0.saturating_sub(held.sum().0)));
        left.min().unwrap_or_default()
    }

    /// Whether `framework` runs it.
    pub fn runs_in(&self, framework: Framework, question: &Question) -> bool {
        framework.runs(&self.finalist.costed().setup, question.recipe.batch)
    }

    /// The parts of the step; they add up to it.
    pub fn parts(&self) -> Vec<Part> {
        let costed = self.finalist.costed();
        let microbatches = f64::from(costed.shape.microbatches());
        let placement = costed.setup.family.about().placement;
        let busiest = (0..).zip(&self.finalist.metrics.stages).max_by_key(|(_, times)| times.busy);
        let (stage, busy) = busiest.map_or((0, Nanos(0)), |(stage, times)| (stage, times.busy));
        let own: Vec<usize> = placement.chunks_of(costed.shape, stage).map(usize::from).collect();
        let halves = if placement == pipeline::Placement::Mirrored { 0.5 } else { 1.0 };
        let layers =
            own.iter().fold(PartTimes::default(), |sum, &chunk| sum.plus(costed.parts[chunk]));
        let layers = layers.times(microbatches * halves);
        let head: f64 = own.iter().map(|&chunk| costed.ends[chunk].sum()).sum();
        let shard = costed.apart.shards().get(stage).copied().unwrap_or_default();
        let head = (head * halves + seconds(shard.before + shard.after)) * microbatches;
        let sending = seconds(self.finalist.sending[stage]);
        let passes = seconds(self.finalist.step)
            - seconds(costed.exchange)
            - seconds(costed.optimizer)
            - seconds(costed.latency);
        let told = LayerPart::ALL.into_iter().filter(|part| *part != LayerPart::Host);
        let told = told.map(|part| Part { name: part.name(), seconds: layers.of(part) });
        // What a model or a set-up has not is not told.
        let mut parts: Vec<Part> = told.filter(|part| part.seconds > 0.0).collect();
        parts.push(Part { name: "head and loss", seconds: head });
        let known: f64 = parts.iter().map(|part| part.seconds).sum();
        let launches = seconds(busy) - known;
        parts.push(Part { name: "kernel launches and waits for parameters", seconds: launches });
        parts.push(Part { name: "transfers between stages", seconds: sending });
        parts.push(Part { name: "bubble", seconds: passes - seconds(busy) - sending });
        parts.push(Part {
            name: "gradient exchange and tied embedding",
            seconds: seconds(costed.exchange),
        });
        parts.push(Part { name: "optimizer", seconds: seconds(costed.optimizer) });
        let latency = seconds(costed.latency);
        if latency > 0.0 {
            parts.push(Part {
                name: "once a step, and the slowest of many devices",
                seconds: latency,
            });
        }
        parts
    }
}
