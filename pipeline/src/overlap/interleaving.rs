//! The order in which the segments of a pair enter the streams.

use std::fmt;
use std::str::FromStr;

use super::chain::{Chain, Layer};
use super::segment::{Part, Segment};
use crate::fault::Fault;

/// How the segments of two passes share the streams of their device.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub enum Interleaving {
    /// One pass after the other, each segment behind the one before.
    #[default]
    None,
    /// The order of the published designs, which on each stream is the same: DualPipe's
    /// (deepseek-ai/profile-data) and Megatron-LM's (`TransformerLayerSchedulePlan.run`). A layer of
    /// the forward meets a layer of the backward, and by turns each gives a segment: on the
    /// communication stream combine(B), dispatch(F), dispatch(B), combine(F), on the compute stream
    /// attention(F), experts(B), experts(W), experts(F), attention(B), attention(W).
    Published,
    /// The shortest order that is found: by an exact search where the chains are short.
    Best,
    /// The same order for each pair of layers.
    Line(Line),
}

impl FromStr for Interleaving {
    type Err = Fault;

    /// Reads `none`, `published`, `best`, or a [`Line`].
    fn from_str(text: &str) -> Result<Self, Fault> {
        match text.trim() {
            "none" => Ok(Self::None),
            "published" => Ok(Self::Published),
            "best" => Ok(Self::Best),
            line => line.parse().map(Self::Line),
        }
    }
}

impl fmt::Display for Interleaving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.pad("none"),
            Self::Published => f.pad("published"),
            Self::Best => f.pad("best"),
            Self::Line(line) => f.pad(&line.to_string()),
        }
    }
}

/// The segments of a pair of layers in the order in which they come to their streams, such as
/// `cB aF eB dF eW dB eF cF aB aW`: the name of each, or how it begins, and its part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line(Vec<(String, Part)>);

/// The most words of a line.
const MAX_WORDS: usize = 96;

impl FromStr for Line {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self, Fault> {
        let words: Vec<&str> = text.split_whitespace().take(MAX_WORDS + 1).collect();
        let wrong = |what: String| Fault::Interleaving { what };
        if words.is_empty() || words.len() > MAX_WORDS {
            let what = format!(
                "an interleaving is none, published, best, or a line of 1 to {MAX_WORDS} segments such \
                 as `cB aF eB dF eW dB eF cF aB aW`"
            );
            return Err(wrong(what));
        }
        let read = |word: &&str| {
            let part = Part::ALL.into_iter().find(|part| word.ends_with(part.letter()));
            let name = part.map_or("", |part| word.trim_end_matches(part.letter()));
            let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            match part {
                Some(part) if !name.is_empty() && name.chars().all(legal) => {
                    Ok((name.to_owned(), part))
                }
                _ => {
                    let word: String = word.chars().take(40).collect();
                    Err(wrong(format!(
                        "`{word}` is not a segment of an interleaving: write the beginning of its name and F, \
                         B or W, as in `cB aF eB dF eW dB eF cF aB aW`, or none, published or best"
                    )))
                }
            }
        };
        words.iter().map(read).collect::<Result<_, _>>().map(Self)
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = self.0.iter().map(|(name, part)| format!("{name}{}", part.letter()));
        f.pad(&words.collect::<Vec<_>>().join(" "))
    }
}

/// A segment of a pair of layers: its part, and its position there.
pub(super) type Place = (Part, usize);

/// The places of the segments of the pair of `forward` and `backward` in the published order; either
/// may be missing, and the work for the weights stands where it is `with_weight`.
///
/// By turns the backward gives a segment, the forward one, and then come the weights behind that of the
/// backward. Where all segments have the four names of the field, the turn of each is that of its name, so
/// that a layer without experts meets one with them as it does in Megatron-LM.
pub(super) fn published(
    forward: Option<&Layer>,
    backward: Option<&Layer>,
    with_weight: bool,
) -> Vec<Place> {
    let ups = forward.map_or(&[][..], |layer| &layer.forward);
    let downs = backward.map_or(&[][..], |layer| &layer.backward);
    let weights = backward.filter(|_| with_weight).map_or(&[][..], |layer| &layer.weight);
    let by_name = ups.iter().chain(downs).all(|one| role(one).is_some());
    let mut places = Vec::with_capacity(ups.len() + downs.len() + weights.len());
    let turn = |at: usize, segment: &Segment, is_down: bool| match role(segment).filter(|_| by_name)
    {
        Some(role) if is_down => ROLES.len() - 1 - role,
        Some(role) => role,
        None => at,
    };
    for (at, one) in downs.iter().enumerate() {
        places.push(((turn(at, one, true), 0, at), (Part::B, at)));
    }
    for (at, one) in ups.iter().enumerate() {
        places.push(((turn(at, one, false), 1, at), (Part::F, at)));
    }
    for (at, one) in weights.iter().enumerate() {
        places.push(((turn(one.behind, &downs[one.behind], true), 2, at), (Part::W, at)));
    }
    places.sort_by_key(|(turn, _)| *turn);
    places.into_iter().map(|(_, place)| place).collect()
}

/// The four names of the field, in the order of a forward.
const ROLES: [&str; 4] = ["attention", "dispatch", "experts", "combine"];

fn role(segment: &Segment) -> Option<usize> {
    ROLES.iter().position(|role| *role == segment.name.as_str())
}

impl Line {
    /// The places of the segments of a pair of layers in this order; either layer may be missing, and
    /// words that name no segment of it are passed over.
    ///
    /// # Errors
    /// [`Fault::Interleaving`] if a segment is named twice, by several words or not at all, or a chain is
    /// not in its order.
    pub(super) fn places(
        &self,
        forward: Option<&Layer>,
        backward: Option<&Layer>,
        with_weight: bool,
    ) -> Result<Vec<Place>, Fault> {
        let weight = backward.filter(|_| with_weight);
        let mut left: Vec<(Place, &Segment)> = Vec::new();
        for (part, layer) in [(Part::F, forward), (Part::B, backward), (Part::W, weight)] {
            let all = layer.into_iter().flat_map(|layer| layer.of(part)).enumerate();
            left.extend(all.map(|(at, segment)| ((part, at), segment)));
        }
        let wrong = |what: String| Err(Fault::Interleaving { what });
        let mut places = Vec::with_capacity(left.len());
        for (name, part) in &self.0 {
            let named = |((of, _), segment): &(Place, &Segment)| {
                of == part && segment.name.as_str().starts_with(name.as_str())
            };
            let mut found = left.iter().filter(|one| named(one));
            let Some(&(place, segment)) = found.next() else { continue };
            if let Some((_, other)) = found.next().filter(|(_, other)| other.name != segment.name) {
                return wrong(format!(
                    "`{name}{}` of the interleaving is both {} and {}: write more of the name",
                    part.letter(),
                    segment.name,
                    other.name
                ));
            }
            left.retain(|(other, _)| *other != place);
            places.push(place);
        }
        if let Some(((part, _), segment)) = left.first() {
            return wrong(format!(
                "the interleaving does not name {}{}: each segment of a layer must be there once",
                segment.name,
                part.letter()
            ));
        }
        for part in [Part::F, Part::B] {
            let order: Vec<usize> =
                places.iter().filter(|(of, _)| *of == part).map(|(_, at)| *at).collect();
            if order.windows(2).any(|two| two[0] > two[1]) {
                return wrong(format!(
                    "the interleaving has the segments of {} in another order than their chain",
                    part.letter()
                ));
            }
        }
        Ok(places)
    }

    /// Checks the line against the layers of `chains`: that each word names a segment of one.
    pub(super) fn check(&self, chains: &[Chain]) -> Result<(), Fault> {
        for (name, part) in &self.0 {
            let mut layers = chains.iter().flat_map(Chain::layers);
            let named = |layer: &Layer| {
                layer.of(*part).any(|segment| segment.name.as_str().starts_with(name.as_str()))
            };
            if !layers.any(named) {
                let what = format!(
                    "`{name}{}` of the interleaving is not a segment of any layer",
                    part.letter()
                );
                return Err(Fault::Interleaving { what });
            }
        }
        Ok(())
    }
}
