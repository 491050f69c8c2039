//! Numbers as text that is short and that the script of the page reads again, column by column.
//!
//! A number is written in base 32, the least digit first, with 64 characters for a digit that is the
//! last one or not. Signed numbers are mapped to twice their size, or one less. Most numbers are
//! written as the difference from the one before, which is often zero.

use std::collections::BTreeMap;

use pipeline::{Bytes, Kind, Nanos, Pass, Slot, Value};
use sim::engine::Transfer;
use sim::explain::{CAUSES, Cause, Link, Wait};

use crate::lanes::Piece;

/// The characters of digits: 32 of a last one, then 32 of one with more to come.
const DIGITS: &[u8; 64] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_-";

/// Text that grows number by number.
#[derive(Default)]
struct Packed(String);

impl Packed {
    fn natural(&mut self, number: u128) {
        let mut rest = number;
        while rest >= 32 {
            self.0.push(char::from(DIGITS[32 + (rest % 32) as usize]));
            rest /= 32;
        }
        self.0.push(char::from(DIGITS[rest as usize]));
    }

    fn signed(&mut self, number: i128) {
        let twice = number.unsigned_abs() * 2;
        self.natural(if number < 0 { twice - 1 } else { twice });
    }

    /// The change from `before` to `number`, which becomes the new `before`.
    fn change(&mut self, before: &mut i128, number: impl Into<i128>) {
        let number = number.into();
        self.signed(number - *before);
        *before = number;
    }
}

/// The last chunk and microbatch, by kind.
#[derive(Default)]
struct Passes(BTreeMap<u8, (i128, i128)>);

impl Passes {
    fn add(&mut self, to: &mut Packed, pass: Pass) {
        let (chunk, microbatch) = self.0.entry(pass.kind as u8).or_default();
        to.change(chunk, pass.chunk);
        to.change(microbatch, pass.microbatch);
    }
}

/// The slots of `stage`, in order. Of each: how long after the end of the last it begins, how long it takes
/// (as a change to the last of its kind), kind and wait and whether it is a pair, whom it waited for and how
/// long that travelled where that is known, and its passes.
pub(super) fn slots(stage: usize, links: impl Iterator<Item = Link>) -> String {
    let (mut packed, mut passes) = (Packed::default(), Passes::default());
    let (mut end, mut lengths, mut travels) = (0, BTreeMap::<u8, i128>::new(), 0);
    for link in links {
        let span = link.span;
        let (first, second) = match span.slot {
            Slot::One(pass) => (pass, None),
            Slot::Pair(first, second) => (first, Some(second)),
        };
        packed.signed(i128::from(span.start.0) - end);
        end = i128::from(span.end.0);
        let length = lengths.entry(first.kind as u8).or_default();
        packed.change(length, end - i128::from(span.start.0));
        let (wait, by, travel) = waited(&link);
        let pair = u128::from(second.is_some());
        let wait = if wait < OTHERS { KINDS * wait } else { 2 * KINDS * OTHERS };
        packed.natural(KINDS * OTHERS * pair + wait + first.kind as u128);
        if let Some(by) = by {
            packed.signed(by as i128 - stage as i128);
        }
        if let Some(travel) = travel {
            packed.change(&mut travels, travel.0);
        }
        passes.add(&mut packed, first);
        if let Some(second) = second {
            packed.natural(second.kind as u128);
            passes.add(&mut packed, second);
        }
    }
    packed.0
}

/// The wait of a slot, as a number up to 9, the stage it was for, and how long that travelled.
fn waited(link: &Link) -> (u128, Option<usize>, Option<Nanos>) {
    match link.wait {
        Wait::Nothing => (0, None, None),
        Wait::Order => (1, None, None),
        Wait::Value(one) => (2, Some(one.from), Some(one.end - one.made)),
        Wait::Device => (3, Some(link.after.map_or(0, |(stage, _)| stage)), None),
        Wait::Sending(one) => (4, Some(one.from), Some(one.end - one.made)),
        Wait::HostCopy(_) => (5, None, None),
        Wait::HostRoom(_) => (6, None, None),
        Wait::Boundary => (7, None, None),
        Wait::Collective(one) => (8, Some(one.last), Some(one.end - one.made)),
        Wait::Parameters(_) => (OTHERS, None, None),
    }
}

/// The wait that stands behind those of pairs.
const OTHERS: u128 = 9;
/// How many kinds of passes there are.
const KINDS: u128 = Kind::ALL.len() as u128;

/// From one stage to another, and what was sent, by the time when it was made: that time and how long it
/// took, chunk (twice, and one more for a gradient) and microbatch, each as a change.
pub(super) fn transfers(all: &[Transfer]) -> Vec<(usize, usize, String)> {
    let mut rows: BTreeMap<(usize, usize), Vec<&Transfer>> = BTreeMap::new();
    for one in all {
        rows.entry((one.from, one.to)).or_default().push(one);
    }
    let row = |((from, to), mut sent): ((usize, usize), Vec<&Transfer>)| {
        sent.sort_by_key(|one| (one.made, one.end));
        let mut packed = Packed::default();
        let (mut made, mut length, mut what, mut microbatches) = (0, 0, 0, [0; 2]);
        for one in sent {
            let gradient = usize::from(matches!(one.value, Value::Gradient { .. }));
            packed.change(&mut made, one.made.0);
            packed.change(&mut length, one.end.0 - one.made.0);
            let chunk = u64::from(one.value.chunk().unwrap_or(0));
            packed.change(&mut what, 2 * chunk + gradient as u64);
            packed.change(&mut microbatches[gradient], one.value.microbatch());
        }
        (from, to, packed.0)
    };
    rows.into_iter().map(row).collect()
}

/// Times and what is held from then on, each as a change.
pub(super) fn curve(points: &[(Nanos, Bytes)]) -> String {
    let (mut packed, mut last, mut held) = (Packed::default(), 0, 0);
    for (time, bytes) in points {
        packed.change(&mut last, time.0);
        packed.change(&mut held, bytes.0);
    }
    packed.0
}

/// The gaps of a stage that are owed to anything: before which slot, as a change; to which of `causes`, as a
/// sum of powers of two; and how much to each of these.
pub(super) fn gaps(gaps: &[[i64; CAUSES]], causes: &[Cause]) -> String {
    let (mut packed, mut last) = (Packed::default(), 0);
    let owed = gaps.iter().zip(0i128..).filter(|(gap, _)| gap.iter().any(|&share| share != 0));
    for (gap, at) in owed {
        packed.change(&mut last, at);
        let shares = causes.iter().map(|&cause| gap[cause as usize]).enumerate();
        let shares = shares.filter(|(_, share)| *share != 0);
        packed.natural(shares.clone().map(|(cause, _)| 1 << cause).sum());
        shares.for_each(|(_, share)| packed.signed(share.into()));
    }
    packed.0
}

/// A segment of communication in a slot.
pub(super) struct Communication {
    /// Its place among the names of the page.
    pub(super) name: usize,
    /// Of F, B or W.
    pub(super) part: usize,
    pub(super) layer: Option<u32>,
    /// From the start of the slot.
    pub(super) times: [Nanos; 2],
    /// How long it runs beside compute.
    pub(super) hidden: Nanos,
}

/// Segments of a slot in time: name, part, layer (one more, 0 for none), how long after the end of the last it
/// begins, how long it is hidden and how long it takes.
pub(super) fn segments(all: impl Iterator<Item = Communication>) -> String {
    let (mut packed, mut last) = (Packed::default(), 0);
    for Communication { name, part, layer, times: [start, end], hidden } in all {
        packed.natural(name as u128);
        packed.natural(part as u128);
        packed.natural(layer.map_or(0, |layer| u128::from(layer) + 1));
        packed.change(&mut last, start.0);
        packed.natural(hidden.0.into());
        packed.natural((end.0 - start.0).into());
        last = end.0.into();
    }
    packed.0
}

/// Pieces of a slot in time: how long after the end of the last one begins, and twice how long it takes, and
/// one more where it is hidden.
pub(super) fn pieces(all: &[Piece]) -> String {
    let (mut packed, mut last) = (Packed::default(), 0);
    for Piece { start, end, is_hidden } in all {
        packed.natural((start.0 - last).into());
        packed.natural(2 * u128::from(end.0 - start.0) + u128::from(*is_hidden));
        last = end.0;
    }
    packed.0
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Numbers as they stand in a text, for who knows which of them are signed.
    pub(crate) struct Unpacked<'a>(std::str::Bytes<'a>);

    impl<'a> Unpacked<'a> {
        pub(crate) fn of(text: &'a str) -> Self {
            Self(text.bytes())
        }

        pub(crate) fn natural(&mut self) -> Option<i128> {
            let (mut number, mut scale) = (0, 1);
            loop {
                let byte = self.0.next()?;
                let digit = DIGITS.iter().position(|one| *one == byte).unwrap();
                number += (digit % 32) as i128 * scale;
                scale *= 32;
                if digit < 32 {
                    return Some(number);
                }
            }
        }

        pub(crate) fn signed(&mut self) -> Option<i128> {
            let twice = self.natural()?;
            Some(if twice % 2 == 1 { -(twice + 1) / 2 } else { twice / 2 })
        }
    }

    #[test]
    fn numbers_come_back() {
        let all = [0, 1, -1, 15, 16, -16, 31, 32, -1_000_000_007, i128::from(u64::MAX)];
        let mut packed = Packed::default();
        all.iter().for_each(|&number| packed.signed(number));
        [0u128, 31, 32, 1 << 70].into_iter().for_each(|number| packed.natural(number));
        let mut back = Unpacked::of(&packed.0);
        assert_eq!(all.map(|_| back.signed().unwrap()), all);
        assert_eq!([0; 4].map(|_: i32| back.natural().unwrap()), [0, 31, 32, 1 << 70]);
        assert_eq!(back.natural(), None);
    }

    #[test]
    fn gaps_that_nothing_is_owed_to_are_left_out() {
        let mut three = [[0; CAUSES]; 3];
        three[0][CAUSES - 1] = 40;
        (three[2][0], three[2][1]) = (-7, 9);
        let causes: Vec<Cause> =
            Cause::ALL.into_iter().filter(|cause| !cause.is_of_streams()).collect();
        let text = gaps(&three, &causes);
        let mut back = Unpacked::of(&text);
        assert_eq!((back.signed(), back.natural(), back.signed()), (Some(0), Some(64), Some(40)));
        assert_eq!((back.signed(), back.natural()), (Some(2), Some(3)));
        assert_eq!((back.signed(), back.signed(), back.signed()), (Some(-7), Some(9), None));
    }

    #[test]
    fn curves_are_told_by_their_changes() {
        let text = curve(&[(Nanos(5), Bytes(1 << 40)), (Nanos(9), Bytes(3))]);
        let mut back = Unpacked::of(&text);
        let all: Vec<i128> = std::iter::from_fn(|| back.signed()).collect();
        assert_eq!(all, [5, 1 << 40, 4, 3 - (1 << 40)]);
    }
}
