//! Layouts of layers over the chunks of a model, as Megatron-LM writes them
//! (`--pipeline-model-parallel-layout`): `Et*4|(t*4|)*14tmL`.
//!
//! `E` is the embedding, `t` a transformer layer, `m` a layer of multi-token prediction (MTP), `L` the loss,
//! and `|` ends a chunk. `*n` repeats the symbol or the group in parentheses before it. Commas may stand
//! anywhere and mean nothing. Chunks stand in model order and may be empty.
//!
//! Read is what Megatron-LM reads (`core/transformer/pipeline_parallel_layer_layout.py`, 2026), less what it
//! reads but cannot train: an embedding behind the first chunk, a loss before the last, no layer at all. MTP layers may
//! stand in several chunks, which it reads and refuses to run.

mod read;

use std::fmt;

use thiserror::Error;

use crate::shape::MAX_CHUNKS;

/// The most layers of a layout.
const MAX_LAYERS: u64 = 1 << 20;

/// The most characters of a layout.
const MAX_TEXT: usize = 1 << 16;

/// The layers of every chunk of a model.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct LayerLayout {
    layers: Vec<u64>,
    /// The chunks that have MTP layers, ascending, and how many each has.
    mtp: Vec<(usize, u64)>,
}

/// Why a text is not a layout.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum LayoutError {
    /// A character that means nothing.
    #[error(
        "character {at} is `{found}`: a layout has E, t, m, L, `|` and `,`, groups in parentheses, and *n \
         to repeat"
    )]
    Character {
        /// Which character, from 1.
        at: usize,
        /// The character.
        found: char,
    },
    /// A group that is never closed, is empty, is not repeated, or holds another group.
    #[error("character {at} begins a group that {fault}; write such as (t*4|)*14")]
    Group {
        /// The parenthesis, from 1.
        at: usize,
        /// Why it is none.
        fault: &'static str,
    },
    /// A `*` without something before it or without a number behind it.
    #[error("character {at} is a * {fault}; write such as t*4 or (t*4|)*14")]
    Repeat {
        /// The `*`, from 1.
        at: usize,
        /// Why it repeats nothing.
        fault: &'static str,
    },
    /// A symbol at a place where Megatron-LM does not take it.
    #[error("character {at}: {fault}")]
    Order {
        /// The symbol, from 1.
        at: usize,
        /// The rule.
        fault: &'static str,
    },
    /// A part of the model that is missing.
    #[error("the layout has no {0}; write such as Et*4|t*4L")]
    Missing(&'static str),
    /// More than is counted.
    #[error("the layout has more than {most} {what}")]
    TooLarge {
        /// Chunks, layers or characters.
        what: &'static str,
        /// The most there may be.
        most: u64,
    },
}

/// Why a layout does not fit a pipeline.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum LayoutMisfit {
    /// Stages that do not divide the chunks.
    #[error("the layout has {chunks} chunks, not a multiple of {stages} stages")]
    Stages {
        /// Chunks of the layout.
        chunks: u64,
        /// Stages of the pipeline.
        stages: u64,
    },
    /// MTP layers in a chunk that is not the last one of its stage.
    #[error(
        "the MTP layers are in chunk {chunk}, but on {stages} stages only the last {stages} chunks may \
         hold them"
    )]
    Mtp {
        /// Their chunk, from 0.
        chunk: usize,
        /// Stages of the pipeline.
        stages: u64,
    },
}

impl LayerLayout {
    /// A layout of transformer layers alone, by chunk in model order.
    ///
    /// # Errors
    /// No chunk, no layer, or more than [`MAX_CHUNKS`] chunks or 2^20 layers.
    pub fn of(layers: Vec<u64>) -> Result<Self, LayoutError> {
        if layers.len() as u64 > MAX_CHUNKS {
            return Err(LayoutError::TooLarge { what: "chunks", most: MAX_CHUNKS });
        }
        let sum = layers.iter().fold(0, |sum: u64, one| sum.saturating_add(*one));
        match sum {
            0 => Err(LayoutError::Missing("transformer layer (t)")),
            1..=MAX_LAYERS => Ok(Self { layers, mtp: Vec::new() }),
            _ => Err(LayoutError::TooLarge { what: "layers", most: MAX_LAYERS }),
        }
    }

    /// The same with `layers` layers of multi-token prediction in chunk `chunk`, behind its others; `None` if
    /// there is no such chunk, transformer layers lie behind it, or they are too many.
    #[must_use]
    pub fn with_mtp(self, chunk: usize, layers: u64) -> Option<Self> {
        let mut mtp = vec![0; self.layers.len()];
        *mtp.get_mut(chunk)? = layers;
        self.with_mtp_by_chunk(&mtp)
    }

    /// The same with layers of multi-token prediction in several chunks, by chunk; `None` if they are those of other
    /// chunks, transformer layers lie behind the first of them, or they are too many.
    #[must_use]
    pub fn with_mtp_by_chunk(self, layers: &[u64]) -> Option<Self> {
        let mtp: Vec<(usize, u64)> =
            layers.iter().copied().enumerate().filter(|(_, layers)| *layers > 0).collect();
        let first = mtp.first().map_or(self.layers.len(), |(chunk, _)| *chunk);
        let is_last = self.layers.get(first + 1..).unwrap_or_default().iter().all(|one| *one == 0);
        let all = layers.iter().fold(self.total(), |sum, one| sum.saturating_add(*one));
        let fits = layers.len() == self.layers.len() && is_last && all <= MAX_LAYERS;
        fits.then_some(Self { mtp, ..self })
    }

    /// Transformer layers of each chunk in model order.
    #[must_use]
    pub fn layers(&self) -> &[u64] {
        &self.layers
    }

    /// Chunks, p v.
    #[must_use]
    pub fn chunks(&self) -> u64 {
        self.layers.len() as u64
    }

    /// Transformer layers of all chunks together.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.layers.iter().sum()
    }

    /// Layers of multi-token prediction.
    #[must_use]
    pub fn mtp(&self) -> u64 {
        self.mtp.iter().map(|(_, layers)| layers).sum()
    }

    /// Those of them in chunk `chunk`.
    #[must_use]
    pub fn mtp_in(&self, chunk: usize) -> u64 {
        self.mtp.iter().filter(|(at, _)| *at == chunk).map(|(_, layers)| layers).sum()
    }

    /// The chunk that holds all of them, if there are any; `None` where several do.
    #[must_use]
    pub fn mtp_chunk(&self) -> Option<usize> {
        match self.mtp[..] {
            [(chunk, _)] => Some(chunk),
            _ => None,
        }
    }

    /// Whether several chunks hold layers of multi-token prediction, each with a loss of its own. Megatron-LM runs
    /// all of them in one.
    #[must_use]
    pub const fn spreads_mtp(&self) -> bool {
        self.mtp.len() > 1
    }

    /// Chunks per stage on `stages` stages, v.
    ///
    /// # Errors
    /// If the chunks are not a multiple of the stages, or MTP layers lie where Megatron-LM does not run them.
    pub fn chunks_per_stage(&self, stages: u64) -> Result<u64, LayoutMisfit> {
        let chunks = self.chunks();
        if stages == 0 || !chunks.is_multiple_of(stages) {
            return Err(LayoutMisfit::Stages { chunks, stages });
        }
        match self.mtp.first() {
            Some(&(chunk, _)) if (chunk as u64) < chunks - stages => {
                Err(LayoutMisfit::Mtp { chunk, stages })
            }
            _ => Ok(chunks / stages),
        }
    }

    /// The chunk at `index` without embedding and loss, as it is written.
    fn symbols(&self, index: usize) -> String {
        run('t', self.layers[index]) + &run('m', self.mtp_in(index))
    }
}

/// `count` times `symbol`.
fn run(symbol: char, count: u64) -> String {
    match count {
        0 => String::new(),
        1 => symbol.to_string(),
        2 => format!("{symbol}{symbol}"),
        _ => format!("{symbol}*{count}"),
    }
}

/// Chunks that are alike stand in a group where that is shorter.
impl fmt::Display for LayerLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = self.layers.len() - 1;
        f.write_str("E")?;
        let mut at = 0;
        while at < last {
            let symbols = self.symbols(at);
            // The first chunk begins with the embedding: it stands alone.
            let end = if at == 0 { 1 } else { last };
            let alike = (at..end).take_while(|&other| self.symbols(other) == symbols).count();
            let plain = format!("{symbols}|").repeat(alike.min(4));
            let grouped = match symbols.is_empty() {
                true => format!("|*{alike}"),
                false => format!("({symbols}|)*{alike}"),
            };
            let short = if alike <= 4 && plain.len() <= grouped.len() { plain } else { grouped };
            f.write_str(&short)?;
            at += alike;
        }
        write!(f, "{}L", self.symbols(last))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<Vec<u64>, String> {
        text.parse().map(|one: LayerLayout| one.layers).map_err(|error| error.to_string())
    }

    #[test]
    fn what_megatron_reads_is_read() {
        let thirty = || std::iter::repeat_n(3, 30);
        let all = [3].into_iter().chain(thirty()).chain([3]).collect();
        assert_eq!(read("Et*3|(t*3|)*30t*3L"), Ok(all));
        // The example of its documentation, where commas are cosmetic.
        let deepseek: LayerLayout = "Et*3|(tt|)*29,m|L".parse().unwrap();
        assert_eq!((deepseek.chunks(), deepseek.total(), deepseek.mtp()), (32, 61, 1));
        assert_eq!(deepseek.chunks_per_stage(16), Ok(2));
        assert_eq!(read("E||t|L"), Ok(vec![0, 0, 1, 0]));
        assert_eq!(read("E(t,t|)*1,2t*0L"), read("E(tt|)*12L"));
        assert_eq!(read("Et|*3L"), Ok(vec![1, 0, 0, 0]));
        assert_eq!(read("(E)*1(t|tt)*2L"), Ok(vec![1, 3, 2]));
    }

    #[test]
    fn what_it_refuses_is_refused_with_its_place() {
        for (text, said) in [
            ("", "no embedding (E)"),
            ("E", "no loss (L)"),
            ("EL", "no transformer layer (t)"),
            ("Et|L", ""),
            ("tEL", "character 1: the first symbol must be E"),
            ("|EtL", "character 1: the first symbol must be E"),
            ("EtL|", "character 4: nothing may follow L"),
            ("EtEL", "character 3: E may appear only once"),
            ("EtL*2", "character 3: L may appear only once"),
            ("EmtL", "character 3: t must come before all m"),
            ("Ett x L", "character 4 is ` `"),
            ("Ex|tL", "character 2 is `x`"),
            ("E(tt|L", "character 2 begins a group that is never closed"),
            ("E(tt|)L", "character 2 begins a group that is not repeated"),
            ("E()*3tL", "character 2 begins a group that is empty"),
            ("E((t|)*2|)*3L", "character 2 begins a group that holds another group"),
            ("Et|)*3L", "character 4 begins a group that was never opened"),
            ("E*tL", "character 2 is a * with no number behind it"),
            ("*3EtL", "character 1 is a * with no symbol"),
            ("Et*2*3L", "character 5 is a * that repeats a repetition"),
            ("E(t|)*2*3L", "character 8 is a * that repeats a repetition"),
        ] {
            match (read(text), said) {
                (Ok(_), "") => {}
                (Err(error), said) if !said.is_empty() => {
                    assert!(error.contains(said), "{text}: {error}");
                }
                (other, _) => panic!("{text}: {other:?}"),
            }
        }
    }

    #[test]
    fn what_would_fill_the_memory_is_refused_before() {
        let huge = "9".repeat(40);
        for text in [
            "E(t*999999999|)*999999999L".to_owned(),
            "E|*99999999999999999999L".to_owned(),
            format!("Et*{huge}L"),
            format!("E(t)*{huge}L"),
            format!("E(m|)*{huge}L"),
            "t".repeat(1 << 20),
        ] {
            assert!(read(&text).unwrap_err().contains("more than"), "{}", &text[..20]);
        }
        // Repeating nothing costs nothing.
        assert_eq!(read(&format!("E(t*0)*{huge}tL")), Ok(vec![1]));
        assert_eq!(read(&format!("E(t*0|*0)*{huge}tL")), Ok(vec![1]));
    }

    #[test]
    fn stages_divide_the_chunks_and_the_last_of_each_has_mtp() {
        let layout: LayerLayout = "Et|t|t|mL".parse().unwrap();
        assert_eq!(layout.chunks_per_stage(2), Ok(2));
        let misfit = |stages| layout.chunks_per_stage(stages).unwrap_err().to_string();
        assert_eq!(misfit(3), "the layout has 4 chunks, not a multiple of 3 stages");
        assert!(layout.chunks_per_stage(0).is_err());
        let spread: LayerLayout = "Et|t|m|m|mL".parse().unwrap();
        assert_eq!((spread.mtp(), spread.mtp_in(3), spread.mtp_chunk()), (3, 1, None));
        assert!(spread.spreads_mtp() && spread.chunks_per_stage(5) == Ok(1));
        assert_eq!(spread.to_string(), "Et|t|m|m|mL");
        let early: LayerLayout = "Et|tm||L".parse().unwrap();
        assert_eq!(early.chunks_per_stage(4), Ok(1));
        assert!(early.chunks_per_stage(2).unwrap_err().to_string().contains("chunk 1"));
    }

    #[test]
    fn layers_of_multi_token_prediction_are_put_behind_all_others() {
        let layout = || LayerLayout::of(vec![2, 1, 0]).unwrap();
        assert_eq!(layout().with_mtp(2, 1).unwrap().to_string(), "Ett|t|mL");
        assert_eq!(layout().with_mtp(1, 2).unwrap().to_string(), "Ett|tmm|L");
        assert_eq!(layout().with_mtp(1, 0), Some(layout()));
        assert_eq!((layout().with_mtp(0, 1), layout().with_mtp(3, 1)), (None, None));
        assert_eq!(layout().with_mtp(2, u64::MAX), None);
        let spread = layout().with_mtp_by_chunk(&[0, 1, 2]).unwrap();
        assert_eq!(spread.to_string(), "Ett|tm|mmL");
        assert_eq!(layout().with_mtp_by_chunk(&[1, 0, 1]), None);
        assert_eq!(layout().with_mtp_by_chunk(&[0, 1]), None);
    }

    #[test]
    fn alike_chunks_are_written_as_a_group() {
        for (layers, text) in [
            (vec![3, 4, 4, 1], "Et*3|t*4|t*4|tL"),
            (vec![0, 2], "E|ttL"),
            (vec![4; 16], "Et*4|(t*4|)*14t*4L"),
            (vec![1, 0, 0, 0, 0, 1], "Et||*4tL"),
        ] {
            assert_eq!(LayerLayout::of(layers).unwrap().to_string(), text);
        }
        assert!(LayerLayout::of(vec![]).is_err() && LayerLayout::of(vec![u64::MAX, 1]).is_err());
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(
            chunks in prop::collection::vec((0..4_u64, 1..6_usize), 1..8),
            mtp in 0..3_u64,
            back in 0..3_usize,
        ) {
            let runs = chunks.into_iter().flat_map(|(layers, times)| vec![layers; times]);
            let mut layers: Vec<u64> = [1].into_iter().chain(runs).collect();
            let chunk = layers.len() - 1 - back.min(layers.len() - 1);
            layers.iter_mut().skip(chunk + 1).for_each(|behind| *behind = 0);
            let layout = LayerLayout { layers, mtp: (mtp > 0).then_some((chunk, mtp)).into_iter().collect() };
            prop_assert_eq!(layout.to_string().parse(), Ok(layout));
        }

        #[test]
        fn no_text_breaks_the_reader(text in "[Etm|L()*,0-9 é]{0,40}") {
            if let Ok(layout) = text.parse::<LayerLayout>() {
                prop_assert_eq!(layout.to_string().parse(), Ok(layout));
            }
        }
    }
}
