//! What each stage holds where layers of an encoder run between slots.

use pipeline::{
    Bytes, Encoder, EncoderKind, EncoderOrder, EncoderRun, Footprints, Ledger, Order, Schedule,
};

/// The most that each stage holds along its order: activations of the model, and those of the encoder from the start
/// of a forward to the end of its backward, or to the end of the forward where it is frozen.
///
/// # Panics
/// If the footprints are those of another pipeline.
#[must_use]
pub fn held(
    schedule: &Schedule,
    footprints: &Footprints,
    encoder: &Encoder,
    order: &EncoderOrder,
) -> Vec<Bytes> {
    let none = Vec::new();
    let stages = schedule.orders().iter().enumerate();
    stages
        .map(|(stage, slots)| {
            let layers = order.stages.get(stage).unwrap_or(&none);
            let mut of_stage =
                Stage { encoder, held: Bytes(0), model: Ledger::default(), peak: Bytes(0) };
            of_stage.follow(slots, footprints, layers)
        })
        .collect()
}

struct Stage<'a> {
    encoder: &'a Encoder,
    /// By the encoder.
    held: Bytes,
    model: Ledger,
    peak: Bytes,
}

impl Stage<'_> {
    fn follow(
        &mut self,
        order: &Order,
        footprints: &Footprints,
        layers: &[pipeline::EncoderSlot],
    ) -> Bytes {
        let mut layers = layers.iter().peekable();
        for (at, slot) in order.slots().enumerate() {
            while let Some(one) = layers.next_if(|one| one.before <= at) {
                self.run(one.run);
            }
            self.model.peak = self.model.held;
            self.model.run(slot, footprints);
            self.peak = self.peak.max(self.model.peak + self.held);
        }
        layers.for_each(|one| self.run(one.run));
        self.peak
    }

    fn run(&mut self, run: EncoderRun) {
        let activation = self.encoder.activation();
        if run.kind == EncoderKind::Forward && run.first == 0 {
            self.held += activation;
        }
        self.peak = self.peak.max(self.model.held + self.held);
        let ends = run.first + run.layers == self.encoder.layers();
        let last = match self.encoder.is_frozen() {
            true => EncoderKind::Forward,
            false => EncoderKind::Backward,
        };
        if ends && run.kind == last {
            self.held = self.held - activation;
        }
    }
}
