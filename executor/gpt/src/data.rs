//! Training data.

use thiserror::Error;

use crate::model::Model;
use crate::random;

/// A microbatch: its tokens, sequence by sequence, and the next token of each.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Batch {
    /// `[microbatch size, sequence]`.
    pub tokens: Vec<u32>,
    /// The same positions, one token later.
    pub targets: Vec<u32>,
}

/// A source of microbatches. Both ends of the pipeline query it: equal arguments must give equal
/// batches.
pub trait Batches: Send + Sync {
    /// The microbatch `microbatch` of step `step`.
    fn batch(&self, step: u32, microbatch: u32) -> Batch;
}

/// Tokens drawn uniformly from the vocabulary: the usual work, and nothing to learn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Random {
    model: Model,
    seed: u64,
}

impl Random {
    /// Microbatches for `model`.
    #[must_use]
    pub const fn new(model: Model, seed: u64) -> Self {
        Self { model, seed }
    }
}

impl Batches for Random {
    fn batch(&self, step: u32, microbatch: u32) -> Batch {
        let vocabulary = self.model.vocabulary() as u64;
        of_windows(self.model, |sequence| {
            let draw = |place| {
                let key = [step.into(), microbatch.into(), sequence, place];
                token(random::below(vocabulary, random::bits(self.seed, &key)))
            };
            (0..=self.model.sequence() as u64).map(draw).collect()
        })
    }
}

/// Bytes of a text as tokens, in windows at random offsets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Text {
    model: Model,
    seed: u64,
    bytes: Vec<u8>,
}

/// Why a text cannot be training data.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum DataError {
    /// A text without a single whole sequence and its next byte.
    #[error("the text has {has} bytes, but a sequence and its next byte are {needs}")]
    TooShort {
        /// Bytes of the text.
        has: usize,
        /// Bytes of a sequence and one more.
        needs: usize,
    },
    /// A model without a token for each byte.
    #[error("the vocabulary is {vocabulary}: for text it must be {BYTES} or more, one per byte")]
    Vocabulary {
        /// Tokens of the model.
        vocabulary: usize,
    },
}

/// Number of byte values.
const BYTES: usize = 256;

impl Text {
    /// Microbatches for `model` out of `bytes`.
    pub fn new(model: Model, bytes: Vec<u8>, seed: u64) -> Result<Self, DataError> {
        let (has, needs) = (bytes.len(), model.sequence() + 1);
        if has < needs {
            return Err(DataError::TooShort { has, needs });
        }
        match model.vocabulary() {
            BYTES.. => Ok(Self { model, seed, bytes }),
            vocabulary => Err(DataError::Vocabulary { vocabulary }),
        }
    }
}

impl Batches for Text {
    fn batch(&self, step: u32, microbatch: u32) -> Batch {
        let windows = self.bytes.len() - self.model.sequence();
        of_windows(self.model, |sequence| {
            let bits = random::bits(self.seed, &[step.into(), microbatch.into(), sequence]);
            let start = usize::try_from(random::below(windows as u64, bits)).unwrap_or(0);
            let window = &self.bytes[start..=start + self.model.sequence()];
            window.iter().map(|&byte| u32::from(byte)).collect()
        })
    }
}

/// A token number: vocabularies are far below 2^32.
fn token(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// A microbatch of windows, each one token longer than a sequence.
fn of_windows(model: Model, window: impl Fn(u64) -> Vec<u32>) -> Batch {
    let mut batch = Batch::default();
    for sequence in 0..model.microbatch_size() as u64 {
        let window = window(sequence);
        batch.tokens.extend(&window[..model.sequence()]);
        batch.targets.extend(&window[1..]);
    }
    batch
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(vocabulary: usize) -> Model {
        Model::new(8, 2, 1, vocabulary, 6, 3).unwrap()
    }

    /// Whether every target is the next token of its sequence.
    fn is_shifted(batch: &Batch) -> bool {
        let sequences = batch.tokens.chunks(6).zip(batch.targets.chunks(6));
        sequences.clone().count() == 3 && sequences.into_iter().all(|(x, y)| x[1..] == y[..5])
    }

    #[test]
    fn random_microbatches_are_a_function_of_seed_step_and_number() {
        let data = Random::new(model(5), 1);
        let batch = data.batch(2, 3);
        assert!(is_shifted(&batch) && batch.tokens.iter().all(|&token| token < 5));
        assert_eq!(batch, Random::new(model(5), 1).batch(2, 3));
        for other in [data.batch(3, 3), data.batch(2, 2), Random::new(model(5), 2).batch(2, 3)] {
            assert_ne!(batch, other);
        }
    }

    #[test]
    fn windows_lie_anywhere_in_the_text() {
        let data = Text::new(model(256), (0..20).collect(), 1).unwrap();
        let (mut first, mut last) = (u32::MAX, 0);
        for step in 0..50 {
            let batch = data.batch(step, 0);
            assert!(is_shifted(&batch) && batch.tokens[0] + 1 == batch.tokens[1]);
            first = first.min(batch.tokens[0]);
            last = last.max(batch.targets[5]);
        }
        assert_eq!((first, last), (0, 19));
    }

    #[test]
    fn a_text_too_short_is_refused() {
        let new = |len, vocabulary| Text::new(model(vocabulary), vec![b'a'; len], 0).err();
        assert_eq!(new(7, 256), None);
        assert_eq!(new(6, 256), Some(DataError::TooShort { has: 6, needs: 7 }));
        assert_eq!(new(7, 255), Some(DataError::Vocabulary { vocabulary: 255 }));
    }
}
