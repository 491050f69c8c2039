//! The space of a joint search: its starting choices, and the neighbours of a choice.

use pipeline::Placement;

/// All that is chosen beside the order.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Choice {
    /// Chunks of each stage, v.
    pub chunks_per_stage: u16,
    /// Placement of chunks.
    pub placement: Placement,
    /// Layers of each chunk in model order; empty where the question says nothing of layers.
    pub layers: Vec<u64>,
    /// The chunk that holds the layers of multi-token prediction, if there are any.
    pub mtp: Option<usize>,
    /// By chunk, how its activations are kept between F and B: a number below [`Space::treatments`].
    pub activations: Vec<usize>,
    /// Whether F and B run as pairs on two streams; else passes run one after the other.
    pub pairs: bool,
}

impl Choice {
    /// Whether the activations of all chunks are kept the same way.
    #[must_use]
    pub fn is_uniform(&self) -> bool {
        self.activations.windows(2).all(|pair| pair[0] == pair[1])
    }
}

/// The choices of a question.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Space {
    /// Stages of the pipeline, p.
    pub stages: usize,
    /// The choice that the question itself makes.
    pub asked: Choice,
    /// Chunks per stage, and where they lie, that may be chosen.
    pub forms: Vec<(u16, Placement)>,
    /// Whether layers may move from chunk to chunk.
    pub moves_layers: bool,
    /// Whether all layers do the same work.
    pub are_alike: bool,
    /// Number of ways to keep the activations of a chunk: 0 is the way that the question gives, by default resident
    /// on the device; all others but [`Self::host`] recompute a part. 1 where it is not searched.
    pub treatments: usize,
    /// The last of these ways, if it is offload to the host.
    pub host: Option<usize>,
    /// Whether it is chosen whether F and B run as pairs.
    pub chooses_pairs: bool,
}

impl Space {
    /// `all` layers cut into chunks as evenly as can be, the first ones larger.
    #[must_use]
    pub fn even(all: u64, chunks: usize) -> Vec<u64> {
        let count = chunks as u64;
        (0..count).map(|chunk| all / count + u64::from(chunk < all % count)).collect()
    }

    /// The same with what can be searched best by itself: nothing goes to the host, and pairs are as they are asked.
    pub(super) fn plain(&self) -> Self {
        let treatments = self.host.unwrap_or(self.treatments);
        Self { treatments, host: None, chooses_pairs: false, ..self.clone() }
    }

    /// Whether `choice` says nothing that is not chosen here of the host and of pairs.
    pub(super) fn allows(&self, choice: &Choice) -> bool {
        let pairs = self.chooses_pairs || choice.pairs == self.asked.pairs;
        pairs && choice.activations.iter().all(|&one| one < self.treatments.max(1))
    }

    /// Which chunks go to the host with `choice`, in model order.
    pub(super) fn hosted(&self, choice: &Choice) -> Vec<bool> {
        choice.activations.iter().map(|&one| Some(one) == self.host).collect()
    }

    /// As many layers in each chunk as can be, and the same treatment of the activations of all, for each of the
    /// forms; and where they may go to the host, those of the first chunks of each stage alone, which live longest.
    pub(super) fn uniform(&self) -> Vec<Choice> {
        let mut all = Vec::new();
        let pairs = [self.asked.pairs, !self.asked.pairs];
        for &pairs in &pairs[..1 + usize::from(self.chooses_pairs)] {
            for &form in &self.forms {
                for treatment in 0..self.treatments.max(1) {
                    all.push(Choice { pairs, ..self.uniform_of(form, treatment) });
                }
                for own in 1..if self.host.is_some() { usize::from(form.0) } else { 0 } {
                    let mut choice = Choice { pairs, ..self.uniform_of(form, 0) };
                    choice.activations[..own * self.stages].fill(self.host.unwrap_or(0));
                    all.push(choice);
                }
            }
        }
        all.retain(|one| self.is_sound(one));
        all
    }

    fn uniform_of(
        &self,
        (chunks_per_stage, placement): (u16, Placement),
        treatment: usize,
    ) -> Choice {
        let chunks = usize::from(chunks_per_stage) * self.stages;
        let activations = match self.treatments {
            0 | 1 if chunks == self.asked.activations.len() => self.asked.activations.clone(),
            _ => vec![treatment; chunks],
        };
        let same = chunks == self.asked.layers.len();
        let layers = match self.asked.layers.is_empty() || (same && !self.moves_layers) {
            true => self.asked.layers.clone(),
            false => Self::even(self.asked.layers.iter().sum(), chunks),
        };
        let mtp = self.asked.mtp.map(|asked| if same { asked } else { chunks - 1 });
        Choice { chunks_per_stage, placement, layers, mtp, activations, pairs: self.asked.pairs }
    }

    /// Every choice that differs from `choice` in one move: a layer goes to another chunk, a chunk or all
    /// chunks of a stage treat their activations otherwise, the layers of multi-token prediction go to the next
    /// chunk, passes run in pairs or no longer do.
    pub(super) fn near(&self, choice: &Choice) -> Vec<Choice> {
        let mut near = match self.moves_layers {
            true => self.shifts_from(choice, &(0..choice.layers.len()).collect::<Vec<_>>()),
            false => Vec::new(),
        };
        for to in choice.mtp.iter().flat_map(|&at| [at.wrapping_sub(1), at + 1]) {
            if self.moves_layers {
                near.push(Choice { mtp: Some(to), ..choice.clone() });
            }
        }
        if self.treatments > 1 {
            self.toggles(choice, &mut near);
        }
        if self.chooses_pairs {
            near.push(Choice { pairs: !choice.pairs, ..choice.clone() });
        }
        near.retain(|one| self.is_sound(one));
        near
    }

    /// Every choice in which one layer of one of the chunks `from` lies in another chunk.
    pub(super) fn shifts_from(&self, choice: &Choice, from: &[usize]) -> Vec<Choice> {
        let chunks = choice.layers.len();
        let mut near = Vec::new();
        for &from in
            from.iter().filter(|&&from| choice.layers.get(from).is_some_and(|own| *own > 0))
        {
            for to in (0..chunks).filter(|&to| to != from) {
                let mut other = choice.clone();
                other.layers[from] -= 1;
                other.layers[to] += 1;
                near.push(other);
            }
        }
        near.retain(|one| self.is_sound(one));
        near
    }

    fn toggles(&self, choice: &Choice, near: &mut Vec<Choice>) {
        let chunks = choice.activations.len();
        let stage_of = |chunk: usize| match choice.placement {
            Placement::Looped => chunk % self.stages,
            _ if (chunk / self.stages).is_multiple_of(2) => chunk % self.stages,
            _ => self.stages - 1 - chunk % self.stages,
        };
        for treatment in 0..self.treatments {
            for chunk in (0..chunks).filter(|&chunk| choice.activations[chunk] != treatment) {
                let mut other = choice.clone();
                other.activations[chunk] = treatment;
                near.push(other);
            }
            for stage in (0..self.stages).filter(|_| chunks > self.stages) {
                let mut other = choice.clone();
                (0..chunks)
                    .filter(|&chunk| stage_of(chunk) == stage)
                    .for_each(|chunk| other.activations[chunk] = treatment);
                if other != *choice {
                    near.push(other);
                }
            }
        }
    }

    /// Whether `choice` is one that can be searched: the layers of multi-token prediction lie behind all others, in
    /// a last chunk of a stage, and no pair recomputes.
    fn is_sound(&self, choice: &Choice) -> bool {
        let recomputes = choice.activations.iter().any(|&one| one > 0 && Some(one) != self.host);
        let mtp = choice.mtp.is_none_or(|at| {
            let chunks = choice.layers.len();
            at < chunks
                && at + self.stages >= chunks
                && choice.layers[at + 1..].iter().all(|layers| *layers == 0)
        });
        mtp && !(choice.pairs && recomputes)
    }
}
