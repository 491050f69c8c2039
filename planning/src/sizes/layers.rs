//! The kind of each layer of a table `[model]`.

use plan::{Ffn, LayerKind, Mixer};
use question::diagnostic::Diagnostic;
use question::quote;

use crate::document::SizesDocument;
use crate::reader::Reader;

/// The most layers of which kinds are made: a model with more is refused by its sizes.
const MAX_LAYERS: u64 = 1 << 14;

impl Reader<'_> {
    /// The kinds of the layers of `given`; none where all are alike, with attention to all tokens.
    pub(super) fn kinds(
        &self,
        given: &SizesDocument,
        sequence: u64,
    ) -> Result<Vec<LayerKind>, Diagnostic> {
        if let Some(pattern) = &given.pattern {
            return self.hybrid(given, pattern);
        }
        let other = match (given.window, given.linear_key_heads) {
            (Some(_), Some(_)) => {
                let message = "a model has layers with a window or with linear attention, not both";
                return Err(self.wrong("window", message.to_owned()));
            }
            // Zero is refused with the other sizes.
            (Some(window), None) if window < sequence => Mixer::Window,
            (Some(_), None) => Mixer::Full,
            (None, Some(_)) => Mixer::Linear,
            (None, None) if given.full_every.is_some() => {
                let message = "full-every is given, but neither window nor linear-key-heads";
                return Err(self.wrong("full-every", message.to_owned()));
            }
            (None, None) => Mixer::Full,
        };
        let every = self.at_least_one("full-every", given.full_every)?;
        let experts_every = self.at_least_one("experts-every", given.experts_every)?.unwrap_or(1);
        let dense = given.dense_layers.unwrap_or(0);
        if given.dense_layers.is_some() && dense >= given.layers {
            let message = format!("dense-layers is {dense}, but there are {} layers", given.layers);
            let cure = "a model whose layers all have an MLP has no experts";
            return Err(self.wrong("dense-layers", message).with_help(cure));
        }
        let one = |layer: u64| {
            let mixer = match every {
                Some(every) if (layer + 1).is_multiple_of(every) => Mixer::Full,
                _ => other,
            };
            let ffn = match given.experts {
                Some(_) if layer >= dense && (layer + 1).is_multiple_of(experts_every) => {
                    Ffn::Experts
                }
                _ => Ffn::Dense,
            };
            LayerKind::of(mixer, ffn)
        };
        let kinds: Vec<LayerKind> = (0..given.layers.min(MAX_LAYERS)).map(one).collect();
        self.widths(given, &kinds)?;
        Ok(kinds)
    }

    /// The kinds of the letters of `pattern`.
    fn hybrid(&self, given: &SizesDocument, pattern: &str) -> Result<Vec<LayerKind>, Diagnostic> {
        let apart = [
            ("window", given.window),
            ("full-every", given.full_every),
            ("dense-layers", given.dense_layers),
            ("experts-every", given.experts_every),
            ("linear-key-heads", given.linear_key_heads),
        ];
        self.none_of(&apart, "pattern says what each layer is")?;
        let letters = pattern.chars().count() as u64;
        if letters != given.layers {
            let message =
                format!("pattern has {letters} letters, but there are {} layers", given.layers);
            return Err(self.wrong("pattern", message));
        }
        let kind = |letter: char| {
            LayerKind::of_letter(letter).ok_or_else(|| {
                let letter = quote::clip(&letter.to_string());
                let message = format!("pattern has the letter `{letter}`: it has M, *, - and E");
                self.wrong("pattern", message)
            })
        };
        let kinds = pattern.chars().map(kind).collect::<Result<Vec<_>, _>>()?;
        if given.experts.is_some() && kinds.iter().all(|kind| kind.ffn != Ffn::Experts) {
            let message = "experts is given, but no layer has them: pattern has no E".to_owned();
            return Err(self.wrong("experts", message));
        }
        self.widths(given, &kinds)?;
        Ok(kinds)
    }

    /// Checks that the width of MLPs is given exactly where some layers have experts and some do not.
    fn widths(&self, given: &SizesDocument, kinds: &[LayerKind]) -> Result<(), Diagnostic> {
        let has = |ffn: Ffn| kinds.iter().any(|kind| kind.ffn == ffn);
        let is_mixed = has(Ffn::Experts) && has(Ffn::Dense);
        match (is_mixed, given.dense_ffn) {
            (true, None) => {
                let message = "dense-ffn is missing: some layers have an MLP instead of experts";
                let cure = "write the width of their MLP: dense-ffn = 18432";
                Err(self.wrong("experts", message.to_owned()).with_help(cure))
            }
            (false, Some(_)) => {
                let message = "dense-ffn is given, but all layers are alike: ffn is their width";
                Err(self.wrong("dense-ffn", message.to_owned()))
            }
            _ => Ok(()),
        }
    }

    fn at_least_one(&self, key: &str, value: Option<u64>) -> Result<Option<u64>, Diagnostic> {
        match value {
            Some(0) => Err(self.wrong(key, format!("{key} is 0: it must be from 1"))),
            value => Ok(value),
        }
    }
}
