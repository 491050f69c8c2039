//! `[lengths]`: documents that are packed into sequences, and what attention has to do for them.

use std::path::{Path, PathBuf};

use fsdp::Lengths;
use question::diagnostic::Diagnostic;
use question::values::packing::LengthsKey;

use crate::document::LengthsDocument;
use crate::framework::Framework;
use crate::reader::Reader;

/// The most sequences that are packed.
const SEQUENCES: usize = 1 << 16;
/// The most documents that are drawn.
const DOCUMENTS: u64 = 1 << 22;
/// How many are drawn at a time.
const BLOCK: usize = 1 << 12;

/// Sequences that documents were packed into, by what attention has to do for each.
#[derive(Clone, PartialEq, Debug)]
pub struct Packed {
    /// Of the pairs of tokens of each sequence, the share that attend to each other.
    attended: Vec<f64>,
    mean: f64,
    /// The tokens of each document, one behind the other.
    documents: Vec<u32>,
}

impl Packed {
    /// Packs documents of `lengths` into sequences of `sequence` tokens.
    #[must_use]
    pub fn of(lengths: &Lengths, sequence: u64, seed: u64) -> Self {
        let mut packer = Packer { sequence: sequence.max(1), ..Packer::default() };
        let mut documents = Vec::new();
        for block in 0..DOCUMENTS / BLOCK as u64 {
            let drawn = lengths.draw(seed, block, BLOCK);
            drawn.iter().for_each(|length| packer.add(u64::from(*length)));
            documents.extend(drawn);
            if packer.done.len() >= SEQUENCES {
                break;
            }
        }
        Self { documents, ..packer.finish() }
    }

    /// Of each sequence, the share of its pairs of tokens that attend to each other.
    #[must_use]
    pub fn attended(&self) -> &[f64] {
        &self.attended
    }

    /// The tokens of each document, one behind the other.
    #[must_use]
    pub fn documents(&self) -> &[u32] {
        &self.documents
    }

    /// How many documents `tokens` tokens are, about.
    fn documents_of(&self, tokens: f64) -> f64 {
        let all: u64 = self.documents.iter().map(|length| u64::from(*length)).sum();
        tokens * float(self.documents.len()) / plan::number(all.max(1))
    }

    /// The mean share over all sequences.
    #[must_use]
    pub const fn mean(&self) -> f64 {
        self.mean
    }

    /// The mean over steps of the largest share among `replicas` replicas, each of which has `sequences`
    /// sequences of a step, one after the other.
    #[must_use]
    pub fn slowest(&self, replicas: u64, sequences: u64) -> f64 {
        let all = self.attended.len();
        let of = |count: u64| usize::try_from(count.max(1)).unwrap_or(usize::MAX);
        let (replicas, sequences) = (of(replicas), of(sequences));
        let mut sums = vec![0.0];
        sums.extend(self.attended.iter().scan(0.0, |sum, share| {
            *sum += share;
            Some(*sum)
        }));
        // Of more sequences than were packed, those of a replica are packed again from the first on.
        let own = sequences.min(all);
        let share = |replica: usize| {
            let first = replica.wrapping_mul(own) % all;
            let end = first + own;
            let wrapped = sums[end.min(all)] - sums[first] + sums[end.saturating_sub(all)];
            wrapped / float(own)
        };
        // More replicas than there are parts of the sequences have no others.
        let together = replicas.min(all.div_ceil(own)).max(1);
        let steps = (all / own / together).max(1);
        let most = |step: usize| {
            (0..together).map(|replica| share(step * together + replica)).fold(0.0, f64::max)
        };
        (0..steps).map(most).sum::<f64>() / float(steps)
    }
}

/// A sequence on its way, and those that are full.
#[derive(Default)]
struct Packer {
    sequence: u64,
    filled: u64,
    pairs: f64,
    done: Vec<f64>,
}

impl Packer {
    /// Adds a document of `length` tokens.
    fn add(&mut self, length: u64) {
        let mut rest = length;
        while rest > 0 && self.done.len() < SEQUENCES {
            let own = rest.min(self.sequence - self.filled);
            self.pairs += pairs(own);
            self.filled += own;
            rest -= own;
            if self.filled == self.sequence {
                self.done.push(self.pairs / pairs(self.sequence));
                (self.filled, self.pairs) = (0, 0.0);
            }
        }
    }

    fn finish(mut self) -> Packed {
        // A sequence that so many documents do not fill goes on as it began.
        if self.done.is_empty() {
            let tokens = plan::number(self.filled.max(1));
            let whole = self.pairs * plan::number(self.sequence) / tokens;
            self.done.push(whole / pairs(self.sequence));
        }
        let mean = self.done.iter().sum::<f64>() / float(self.done.len());
        Packed { attended: self.done, mean, documents: Vec::new() }
    }
}

/// The pairs of a token and one up to it, of `tokens` tokens.
fn pairs(tokens: u64) -> f64 {
    plan::number(tokens) * (plan::number(tokens) + 1.0) / 2.0
}

fn float(count: usize) -> f64 {
    plan::number(count as u64)
}

impl Reader<'_> {
    /// The sequences of the table `[lengths]`, if there is one.
    pub(crate) fn packed(&self, sequence: u64) -> Result<Option<Packed>, Diagnostic> {
        let LengthsDocument { documents, seed } = &self.document.lengths;
        let Some(documents) = documents else {
            if seed.is_some() {
                let message = "seed draws the lengths of documents, which are not given";
                let cure = "give documents, or take seed out";
                return Err(self.wrong("lengths.seed", message.to_owned()).with_help(cure));
            }
            return Ok(None);
        };
        if self.document.attention.as_deref() == Some("core") {
            let message =
                "attention = \"core\" computes all pairs of tokens, whatever the documents";
            let cure = "write attention = \"flash\", or take [lengths] out";
            return Err(self.wrong("lengths.documents", message.to_owned()).with_help(cure));
        }
        let lengths = within(documents, self.folder).read(self.context);
        let lengths = lengths.map_err(|error| self.at("lengths.documents", error))?;
        Ok(Some(Packed::of(&lengths, sequence, seed.unwrap_or(0))))
    }

    /// Whether the set-up deals its context groups by the lengths of documents, `packed` if they are given.
    pub(crate) fn dynamic_context(
        &self,
        packed: Option<&Packed>,
        framework: Framework,
        sequence: u64,
    ) -> Result<bool, Diagnostic> {
        let given = self.document.setup.as_ref().and_then(|setup| setup.dynamic_context);
        if given != Some(true) {
            return Ok(false);
        }
        let fail = |message: String, cure: &str| {
            Err(self.wrong("setup.dynamic-context", message).with_help(cure))
        };
        let Some(packed) = packed else {
            let message = "dynamic-context makes context groups as large as documents need, but no lengths of documents are given";
            let cure = "add a table [lengths], such as documents = \"lognormal:800:1.2:131072\", or \
                        take dynamic-context out";
            return fail(message.to_owned(), cure);
        };
        if framework == Framework::Torchtitan {
            let message = "torchtitan has context groups of one size";
            return fail(message.to_owned(), "write framework = \"megatron\", or take it out");
        }
        let tokens = plan::number(self.document.batch) * plan::number(sequence);
        // What is longer than a sequence is cut into as many more.
        let documents = packed.documents_of(tokens) + plan::number(self.document.batch);
        if documents > plan::number(DOCUMENTS) {
            let message = format!(
                "dynamic-context deals the documents of a step one by one, and up to {documents:.0} are \
                 more than {DOCUMENTS}"
            );
            return fail(message, "give a smaller batch, or longer documents");
        }
        if self.document.cluster.iter().any(|cluster| cluster.profile.is_some()) {
            let message = "dynamic-context asks for layers of many lengths, and a profile has one";
            return fail(message.to_owned(), "take profile out of [[cluster]]");
        }
        Ok(true)
    }
}

/// `lengths`, whose file lies in `folder`.
fn within(lengths: &LengthsKey, folder: &Path) -> LengthsKey {
    let file = |path: &PathBuf| folder.join(path);
    match lengths {
        LengthsKey::File(path) => LengthsKey::File(file(path)),
        LengthsKey::InOrder(path) => LengthsKey::InOrder(file(path)),
        LengthsKey::Known(..) => lengths.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64) -> bool {
        (a / b - 1.0).abs() < 1e-9
    }

    #[test]
    fn documents_are_packed_one_behind_the_other() {
        let of = |lengths: Vec<u32>, sequence| {
            Packed::of(&Lengths::in_order(lengths).unwrap(), sequence, 0)
        };
        // A document to a sequence is all of its pairs; longer ones are cut.
        assert_eq!(of(vec![8], 8).mean(), 1.0);
        assert_eq!(of(vec![16], 8).mean(), 1.0);
        // Of 36 pairs of 8 tokens, two halves have 20; three and five tokens have 21.
        assert!(near(of(vec![4], 8).mean(), 20.0 / 36.0));
        assert!(near(of(vec![3, 5], 8).mean(), 21.0 / 36.0));
        // 6 and 2 of the next, its other 4 and 4 of the third, 2 and 6: every second document is cut in two.
        assert!((of(vec![6], 8).mean() / ((24.0 + 20.0 + 24.0) / 3.0 / 36.0) - 1.0).abs() < 1e-3);
        // Sequences of one token each; and one that no number of documents fills.
        assert_eq!(of(vec![5], 1).mean(), 1.0);
        let unfilled = of(vec![1], 1 << 24).mean();
        assert!(near(unfilled, 2.0 / (f64::from(1 << 24) + 1.0)));
    }

    #[test]
    fn the_slowest_replica_has_more_to_do_than_the_mean() {
        let lengths = Lengths::log_normal(800, 1.2, 16_384).unwrap();
        let packed = Packed::of(&lengths, 4_096, 7);
        assert_eq!(packed, Packed::of(&lengths, 4_096, 7));
        assert!((0.2..0.6).contains(&packed.mean()), "{}", packed.mean());
        assert!(near(packed.slowest(1, 1), packed.mean()));
        let slowest: Vec<f64> =
            [1, 2, 8, 64].into_iter().map(|replicas| packed.slowest(replicas, 16)).collect();
        assert!(slowest.windows(2).all(|two| two[0] < two[1]), "{slowest:?}");
        // The more sequences of a step a replica has, the nearer all come to the mean.
        assert!(packed.slowest(64, 256) < packed.slowest(64, 16));
        assert!(packed.slowest(u64::MAX, u64::MAX) >= packed.mean() * (1.0 - 1e-9));
        let alike = Packed::of(&Lengths::in_order(vec![4]).unwrap(), 8, 0);
        assert!(near(alike.slowest(64, 3), alike.mean()));
        assert_eq!((alike.documents()[0], alike.attended()[0]), (4, 20.0 / 36.0));
        assert!(near(alike.documents_of(4_000.0), 1_000.0));
    }
}
