//! The slots of a schedule with what each waits for and makes, so that layers of an encoder can run between them.

use pipeline::{Costs, Encoder, Fault, Kind, Schedule, Slot, Value};

/// A value that a slot waits for.
#[derive(Clone, Copy, Debug)]
pub struct Need {
    /// Its cell in the table of values.
    pub cell: usize,
    /// Nanoseconds from when it is made to when it is there.
    pub hop: u64,
}

/// A slot, compiled.
#[derive(Clone, Debug)]
pub struct LinkedSlot {
    /// The slot.
    pub slot: Slot,
    /// Nanoseconds that it takes.
    pub duration: u64,
    /// The values that it waits for from other stages, and outputs of the encoder.
    pub needs: Vec<Need>,
    /// The cells of the values that it makes for others.
    pub makes: Vec<usize>,
}

/// A schedule behind an encoder, compiled. Its values are those of the model, the outputs of the encoder and the
/// gradients for it.
#[derive(Clone, Debug)]
pub struct Linked {
    /// The slots of each stage, in order.
    pub stages: Vec<Vec<LinkedSlot>>,
    /// The stages that wait for each value, and how long it takes there.
    pub waiting: Vec<Vec<(usize, u64)>>,
    /// The stage and the slot that make each value of the model.
    pub makers: Vec<Option<(usize, usize)>>,
    /// The stage that holds the first chunk.
    pub entry: usize,
    /// Microbatches in the order in which the first chunk takes them.
    pub microbatches: Vec<u32>,
    /// Nanoseconds from the encoder to the first stage, and back.
    pub transfer: u64,
    model_cells: usize,
}

impl Linked {
    /// Compiles `schedule` under `costs` behind `encoder`.
    ///
    /// # Errors
    /// [`Fault::BehindEncoder`] for schedules with two first stages, shards of the vocabulary, copies or collectives;
    /// faults of costs and encoder.
    pub fn new(schedule: &Schedule, costs: &Costs, encoder: &Encoder) -> Result<Self, Fault> {
        let (shape, placement) = (schedule.shape(), schedule.placement());
        costs.check(shape)?;
        costs.hops().check_placed(shape, placement)?;
        encoder.check(shape.microbatches())?;
        let is_mirrored = placement == pipeline::Placement::Mirrored;
        if is_mirrored || shape.has_shards() || schedule.has_streams() {
            return Err(Fault::BehindEncoder);
        }
        let entry = placement.stage(shape, 0, 0);
        let model_cells = shape.value_cells();
        let microbatches = shape.microbatches() as usize;
        let mut linked = Self {
            stages: Vec::with_capacity(shape.stages()),
            waiting: vec![Vec::new(); model_cells + microbatches],
            makers: vec![None; model_cells],
            entry,
            microbatches: Vec::with_capacity(microbatches),
            transfer: encoder.transfer().0,
            model_cells,
        };
        for (stage, order) in schedule.orders().iter().enumerate() {
            let slots = order.slots().enumerate();
            let slots = slots.map(|(at, slot)| linked.slot(schedule, costs, (stage, at), slot));
            let slots = slots.collect();
            linked.stages.push(slots);
        }
        Ok(linked)
    }

    fn slot(
        &mut self,
        schedule: &Schedule,
        costs: &Costs,
        (stage, at): (usize, usize),
        slot: Slot,
    ) -> LinkedSlot {
        let (shape, placement) = (schedule.shape(), schedule.placement());
        let mut needs = Vec::new();
        for pass in slot.passes() {
            if pass.kind == Kind::F && pass.chunk == 0 {
                self.microbatches.push(pass.microbatch);
                needs.push(Need { cell: self.output(pass.microbatch), hop: 0 });
            }
        }
        for value in slot.received((shape, placement), stage) {
            let hop = costs.arrival(value, (shape, placement), stage).0;
            needs.push(Need { cell: shape.value_cell(value), hop });
        }
        for need in &needs {
            self.waiting[need.cell].push((stage, need.hop));
        }
        let makes: Vec<usize> = slot
            .passes()
            .filter_map(|pass| pass.makes())
            .map(|value| shape.value_cell(value))
            .collect();
        for &cell in &makes {
            self.makers[cell] = Some((stage, at));
        }
        LinkedSlot { slot, duration: costs.of_slot(slot).0, needs, makes }
    }

    /// The number of values.
    #[must_use]
    #[inline]
    pub const fn cells(&self) -> usize {
        self.waiting.len()
    }

    /// The cell of the output of the encoder for `microbatch`.
    #[must_use]
    #[inline]
    pub const fn output(&self, microbatch: u32) -> usize {
        self.model_cells + microbatch as usize
    }

    /// The microbatch of whose encoder `cell` holds the output.
    #[must_use]
    #[inline]
    pub fn output_of(&self, cell: usize) -> Option<u32> {
        cell.checked_sub(self.model_cells).and_then(|at| u32::try_from(at).ok())
    }

    /// The cell of the gradient for the encoder of `microbatch`, which the first chunk makes.
    #[must_use]
    #[inline]
    pub const fn gradient(&self, schedule: &Schedule, microbatch: u32) -> usize {
        schedule.shape().value_cell(Value::Gradient { chunk: 0, microbatch })
    }

    /// How long the output of the encoder takes from `stage` to the first stage, and the gradient back.
    #[must_use]
    #[inline]
    pub const fn transfer_of(&self, stage: usize) -> u64 {
        if stage == self.entry { 0 } else { self.transfer }
    }
}
