//! What a joint search may choose: the choices that it begins with, and those next to one.

use pipeline::Placement;

/// All that is chosen beside the order.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Choice {
    /// Chunks of each stage, v.
    pub chunks_per_stage: u16,
    /// Where the chunks lie.
    pub placement: Placement,
    /// Layers of each chunk in model order; empty where the question says nothing of layers.
    pub layers: Vec<u64>,
    /// The chunk that holds the layers of multi-token prediction, if there are any.
    pub mtp: Option<usize>,
    /// What each chunk recomputes: a number below [`Space::recomputed`].
    pub recompute: Vec<usize>,
}

impl Choice {
    /// Whether all chunks recompute the same part.
    #[must_use]
    pub fn is_uniform(&self) -> bool {
        self.recompute.windows(2).all(|pair| pair[0] == pair[1])
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
    /// How many parts of its activations a chunk may recompute, nothing among them; 1 where that is not
    /// chosen.
    pub recomputed: usize,
}

impl Space {
    /// `all` layers cut into chunks as evenly as can be, the first ones larger.
    #[must_use]
    pub fn even(all: u64, chunks: usize) -> Vec<u64> {
        let count = chunks as u64;
        (0..count).map(|chunk| all / count + u64::from(chunk < all % count)).collect()
    }

    /// As many layers in each chunk as can be, and the same part recomputed in all, for each of the forms.
    pub(super) fn uniform(&self) -> Vec<Choice> {
        let part = |form| (0..self.recomputed).map(move |part| self.uniform_of(form, part));
        self.forms.iter().flat_map(|&form| part(form)).collect()
    }

    fn uniform_of(&self, (chunks_per_stage, placement): (u16, Placement), part: usize) -> Choice {
        let chunks = usize::from(chunks_per_stage) * self.stages;
        let recompute = match self.recomputed {
            0 | 1 if chunks == self.asked.recompute.len() => self.asked.recompute.clone(),
            _ => vec![part; chunks],
        };
        let same = chunks == self.asked.layers.len();
        let layers = match self.asked.layers.is_empty() || (same && !self.moves_layers) {
            true => self.asked.layers.clone(),
            false => Self::even(self.asked.layers.iter().sum(), chunks),
        };
        let mtp = self.asked.mtp.map(|asked| if same { asked } else { chunks - 1 });
        Choice { chunks_per_stage, placement, layers, mtp, recompute }
    }

    /// Every choice that differs from `choice` in one move: a layer goes to another chunk, a chunk or all
    /// chunks of a stage recompute another part, the layers of multi-token prediction go to the next chunk.
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
        if self.recomputed > 1 {
            self.toggles(choice, &mut near);
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
        let chunks = choice.recompute.len();
        let stage_of = |chunk: usize| match choice.placement {
            Placement::Looped => chunk % self.stages,
            _ if (chunk / self.stages).is_multiple_of(2) => chunk % self.stages,
            _ => self.stages - 1 - chunk % self.stages,
        };
        for part in 0..self.recomputed {
            for chunk in (0..chunks).filter(|&chunk| choice.recompute[chunk] != part) {
                let mut other = choice.clone();
                other.recompute[chunk] = part;
                near.push(other);
            }
            for stage in (0..self.stages).filter(|_| chunks > self.stages) {
                let mut other = choice.clone();
                (0..chunks)
                    .filter(|&chunk| stage_of(chunk) == stage)
                    .for_each(|chunk| other.recompute[chunk] = part);
                if other != *choice {
                    near.push(other);
                }
            }
        }
    }

    /// Whether the layers of multi-token prediction lie behind all others, in a last chunk of a stage.
    fn is_sound(&self, choice: &Choice) -> bool {
        choice.mtp.is_none_or(|at| {
            let chunks = choice.layers.len();
            at < chunks
                && at + self.stages >= chunks
                && choice.layers[at + 1..].iter().all(|layers| *layers == 0)
        })
    }
}
