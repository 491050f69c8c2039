//! Inputs made of seeds: bytes, tokens, numbers, lines and brackets changed, moved, doubled and lost.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// The longest input: what is wrong with long files is tested by itself.
const LONGEST: usize = 64 << 10;

/// The form of the inputs of a parser.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    /// Lines of words, numbers and brackets.
    Text,
    /// Anything.
    Binary,
}

/// Numbers at which programs break.
const NUMBERS: [&str; 34] = [
    "0",
    "1",
    "2",
    "3",
    "7",
    "8",
    "-1",
    "-0",
    "0.0",
    "1.5",
    "1e-9",
    "1e-300",
    "5e-324",
    "1e9",
    "1e18",
    "1e300",
    "1e999",
    "-1e300",
    "nan",
    "NaN",
    "inf",
    "-inf",
    "255",
    "256",
    "65535",
    "65536",
    "2147483647",
    "2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "18446744073709551615",
    "18446744073709551616",
    "99999999999999999999999999999999999999999",
];

/// Words at which parsers turn off.
const WORDS: [&str; 32] = [
    "[", "]", "[[", "]]", "{", "}", "(", ")", "\"", "'", "\"\"\"", "=", ",", ".", ":", "|", "&",
    "@", "#", "\\", "\\u0000", "\n", "\r\n", "\t", "\u{feff}", "µ", "🚀", "null", "true", "GB",
    "us", "p",
];

/// The choices of one input.
pub(super) struct Chance(Xoshiro256PlusPlus);

impl Chance {
    pub(super) fn new(seed: u64, name: &str, number: u64) -> Self {
        let name = super::checksum(name.as_bytes());
        Self(Xoshiro256PlusPlus::seed_from_u64(
            seed.rotate_left(48) ^ name ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        ))
    }

    /// A number below `count`, or 0.
    fn below(&mut self, count: usize) -> usize {
        self.0.random_range(0..count.max(1))
    }

    fn one_of<'a, T: ?Sized>(&mut self, all: &[&'a T]) -> &'a T {
        all[self.below(all.len())]
    }

    /// Once in `count` times.
    fn once_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    /// A count that is mostly small.
    fn few(&mut self) -> usize {
        1 << self.below(7)
    }
}

/// One of `seeds` after a few changes.
pub(super) fn mutated(seeds: &[Vec<u8>], form: Form, chance: &mut Chance) -> Vec<u8> {
    let mut bytes = seeds[chance.below(seeds.len())].clone();
    // Mostly one or two: what is changed all over is refused at its first line.
    let changes = if chance.once_in(8) { chance.few() } else { 1 + chance.below(3) };
    for _ in 0..changes {
        match form {
            Form::Text if !chance.once_in(10) => change_text(&mut bytes, seeds, chance),
            Form::Text => change_bytes(&mut bytes, chance),
            Form::Binary if chance.once_in(6) => splice(&mut bytes, seeds, chance),
            Form::Binary => change_bytes(&mut bytes, chance),
        }
        bytes.truncate(LONGEST);
    }
    bytes
}

/// Some bytes changed, taken out, doubled or put in, whatever they mean.
fn change_bytes(bytes: &mut Vec<u8>, chance: &mut Chance) {
    let at = chance.below(bytes.len());
    let end = (at + chance.few()).min(bytes.len());
    if bytes.is_empty() {
        bytes.push(0);
    }
    match chance.below(8) {
        0 => bytes[at] ^= 1 << chance.below(8),
        1 => bytes[at] = [0, 1, 2, 0x7f, 0x80, 0xfe, 0xff, b'\n'][chance.below(8)],
        2 => bytes[at] = bytes[at].wrapping_add(1),
        3 => bytes[at] = bytes[at].wrapping_add(u8::try_from(chance.below(256)).unwrap_or(0)),
        4 => drop(bytes.drain(at..end)),
        5 => {
            let copy = bytes[at..end].to_vec();
            bytes.splice(at..at, copy);
        }
        6 => bytes.truncate(at),
        _ => write_number(bytes, at, chance),
    }
}

/// A number at the end of its range, as one to eight bytes, over what stands at `at`.
fn write_number(bytes: &mut [u8], at: usize, chance: &mut Chance) {
    let number: u64 = [0, 1, 0x7f, 0x7fff, 0x7fff_ffff, u64::MAX >> 1, u64::MAX][chance.below(7)];
    let count = 1 << chance.below(4);
    let end = (at + count).min(bytes.len());
    let number = number.to_le_bytes();
    bytes[at..end].copy_from_slice(&number[..end - at]);
}

/// A part of another seed over a part of this one.
fn splice(bytes: &mut Vec<u8>, seeds: &[Vec<u8>], chance: &mut Chance) {
    let other = &seeds[chance.below(seeds.len())];
    let from = chance.below(other.len());
    let part = &other[from..(from + 8 * chance.few()).min(other.len())];
    let at = chance.below(bytes.len());
    let end = if chance.once_in(2) { at } else { (at + part.len()).min(bytes.len()) };
    bytes.splice(at..end, part.iter().copied());
}

/// A piece of text: a word or number, blanks, or a single sign.
fn pieces(bytes: &[u8]) -> Vec<(usize, usize)> {
    let kind = |byte: u8| match byte {
        b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'.' | b'-' | b'+' | 0x80.. => 0,
        b' ' | b'\t' => 1,
        // No sign is of the same kind as its neighbour.
        _ => 2,
    };
    let mut pieces: Vec<(usize, usize)> = Vec::new();
    for (at, &byte) in bytes.iter().enumerate() {
        match pieces.last_mut() {
            Some((_, end)) if kind(byte) != 2 && kind(bytes[at - 1]) == kind(byte) => *end = at + 1,
            _ => pieces.push((at, at + 1)),
        }
    }
    pieces
}

/// The lines, each with its end.
fn lines(bytes: &[u8]) -> Vec<Vec<u8>> {
    bytes.split_inclusive(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect()
}

fn change_text(bytes: &mut Vec<u8>, seeds: &[Vec<u8>], chance: &mut Chance) {
    if chance.once_in(3) {
        return change_lines(bytes, seeds, chance);
    }
    let pieces = pieces(bytes);
    let Some(&(from, end)) = pieces.get(chance.below(pieces.len())) else {
        return bytes.extend_from_slice(chance.one_of(&WORDS).as_bytes());
    };
    let is_number = |&&(from, _): &&(usize, usize)| bytes[from].is_ascii_digit();
    let numbers: Vec<_> = pieces.iter().filter(is_number).copied().collect();
    let number = numbers.get(chance.below(numbers.len())).copied().unwrap_or((from, end));
    match chance.below(9) {
        0 | 1 => {
            let new = chance.one_of(&NUMBERS).as_bytes().to_vec();
            bytes.splice(number.0..number.1, new);
        }
        2 => {
            // Another number with the unit that stands there.
            let text = &bytes[number.0..number.1];
            let digits =
                text.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count();
            let new = chance.one_of(&NUMBERS).as_bytes().to_vec();
            bytes.splice(number.0..number.0 + digits, new);
        }
        3 => {
            let new = chance.one_of(&WORDS).as_bytes().to_vec();
            let end = if chance.once_in(2) { from } else { end };
            bytes.splice(from..end, new);
        }
        4 => drop(bytes.drain(from..end)),
        5 => {
            let copy = bytes[from..end].repeat(chance.few());
            bytes.splice(from..from, copy);
        }
        6 => {
            // A word of another place, maybe of another file.
            let other = &seeds[chance.below(seeds.len())];
            let words = self::pieces(other);
            if let Some(&(first, last)) = words.get(chance.below(words.len())) {
                bytes.splice(from..end, other[first..last].iter().copied());
            }
        }
        7 => nest(bytes, from, chance),
        _ => {
            let (other_from, other_end) = pieces[chance.below(pieces.len())];
            let (one, other) = (bytes[from..end].to_vec(), bytes[other_from..other_end].to_vec());
            // The later one first, so that the place of the earlier one stays.
            let mut places = [(from, end, other), (other_from, other_end, one)];
            places.sort_by_key(|place| std::cmp::Reverse(place.0));
            if from != other_from {
                places.into_iter().for_each(|(from, end, new)| drop(bytes.splice(from..end, new)));
            }
        }
    }
}

/// The same sign many times: brackets in brackets, or one long word.
fn nest(bytes: &mut Vec<u8>, at: usize, chance: &mut Chance) {
    let sign =
        chance.one_of(&["[", "{", "(", "\"", "a", "9", "[[", "{\"a\":", ".", "-", "\u{e9}", "a=["]);
    let count = if chance.once_in(20) { 10_000 } else { 4 * chance.few() };
    bytes.splice(at..at, sign.repeat(count).into_bytes());
}

fn change_lines(bytes: &mut Vec<u8>, seeds: &[Vec<u8>], chance: &mut Chance) {
    let mut all = lines(bytes);
    let (at, other) = (chance.below(all.len()), chance.below(all.len()));
    if all.is_empty() {
        return;
    }
    match chance.below(6) {
        0 => drop(all.remove(at)),
        1 => all.insert(other, all[at].clone()),
        2 => all.swap(at, other),
        3 => {
            let count = chance.few();
            let line = all[at].clone();
            all.splice(at..at, vec![line; count]);
        }
        4 => {
            let others = lines(&seeds[chance.below(seeds.len())]);
            if let Some(line) = others.get(chance.below(others.len())) {
                all.insert(at, line.clone());
            }
        }
        _ => all.truncate(at),
    }
    *bytes = all.concat();
}
