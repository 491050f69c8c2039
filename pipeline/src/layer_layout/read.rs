//! Reading a layout: symbol by symbol, a group and a repetition at a time.

use std::str::FromStr;

use super::{LayerLayout, LayoutError, MAX_LAYERS, MAX_TEXT};
use crate::shape::MAX_CHUNKS;

/// A symbol of a layout, how often it stands there, and where.
#[derive(Clone, Copy)]
struct Symbol {
    symbol: char,
    count: u64,
    at: usize,
}

impl FromStr for LayerLayout {
    type Err = LayoutError;

    fn from_str(text: &str) -> Result<Self, LayoutError> {
        if text.len() > MAX_TEXT {
            return Err(LayoutError::TooLarge { what: "characters", most: MAX_TEXT as u64 });
        }
        let mut reader = Reader::of(text);
        let mut built = Builder::default();
        while let Some((at, found)) = reader.next() {
            if found != '(' {
                let symbol = reader.symbol(at, found)?;
                built.add_all(&[symbol], 1)?;
                continue;
            }
            let (group, times) = reader.group(at)?;
            built.add_all(&group, times)?;
        }
        built.finish()
    }
}

/// The characters of a layout without its commas, each with its place from 1.
struct Reader {
    characters: Vec<(usize, char)>,
    next: usize,
}

impl Reader {
    fn of(text: &str) -> Self {
        let all = (1..).zip(text.chars());
        Self { characters: all.filter(|(_, one)| *one != ',').collect(), next: 0 }
    }

    fn next(&mut self) -> Option<(usize, char)> {
        let found = self.peek()?;
        self.next += 1;
        Some(found)
    }

    fn peek(&self) -> Option<(usize, char)> {
        self.characters.get(self.next).copied()
    }

    /// The symbol `found` at `at`, with the number of times that it is repeated.
    fn symbol(&mut self, at: usize, found: char) -> Result<Symbol, LayoutError> {
        match found {
            'E' | 't' | 'm' | 'L' | '|' => {
                let count = self.times()?.unwrap_or(1);
                Ok(Symbol { symbol: found, count, at })
            }
            '*' => Err(LayoutError::Repeat { at, fault: "with no symbol or group before it" }),
            ')' => Err(LayoutError::Group { at, fault: "was never opened" }),
            _ => Err(LayoutError::Character { at, found }),
        }
    }

    /// The symbols of a group that was opened at `at`, and how often it is repeated.
    fn group(&mut self, at: usize) -> Result<(Vec<Symbol>, u64), LayoutError> {
        let group = |fault| LayoutError::Group { at, fault };
        let mut symbols = Vec::new();
        loop {
            let (at, found) = self.next().ok_or(group("is never closed"))?;
            match found {
                ')' => break,
                '(' => return Err(group("holds another group")),
                _ => symbols.push(self.symbol(at, found)?),
            }
        }
        if symbols.is_empty() {
            return Err(group("is empty"));
        }
        // Symbols of count zero would cost time in each repetition.
        symbols.retain(|symbol| symbol.count > 0);
        Ok((symbols, self.times()?.ok_or(group("is not repeated"))?))
    }

    /// The number behind a `*`, if there is one.
    fn times(&mut self) -> Result<Option<u64>, LayoutError> {
        let Some((at, '*')) = self.peek() else { return Ok(None) };
        self.next += 1;
        let mut number = None;
        while let Some(digit) = self.peek().and_then(|(_, one)| one.to_digit(10)) {
            self.next += 1;
            let before: u64 = number.unwrap_or(0);
            number = Some(before.saturating_mul(10).saturating_add(digit.into()));
        }
        match self.peek() {
            _ if number.is_none() => {
                Err(LayoutError::Repeat { at, fault: "with no number behind it" })
            }
            Some((at, '*')) => Err(LayoutError::Repeat { at, fault: "that repeats a repetition" }),
            _ => Ok(number),
        }
    }
}

/// A layout as far as it has been read.
#[derive(Default)]
struct Builder {
    has_embedding: bool,
    has_loss: bool,
    /// Of the chunks that are ended.
    layers: Vec<u64>,
    /// Of the chunk that is not.
    own: u64,
    total: u64,
    /// Of the chunks that have any.
    mtp: Vec<(usize, u64)>,
}

impl Builder {
    /// Adds `symbols`, `times` times, unless that is too much.
    fn add_all(&mut self, symbols: &[Symbol], times: u64) -> Result<(), LayoutError> {
        let of = |kinds: &[char]| {
            let own = symbols.iter().filter(|one| kinds.contains(&one.symbol));
            own.map(|one| u128::from(one.count)).sum::<u128>() * u128::from(times)
        };
        if of(&['|']) + self.layers.len() as u128 + 1 > u128::from(MAX_CHUNKS) {
            return Err(LayoutError::TooLarge { what: "chunks", most: MAX_CHUNKS });
        }
        if of(&['t', 'm']) + u128::from(self.total) > u128::from(MAX_LAYERS) {
            return Err(LayoutError::TooLarge { what: "layers", most: MAX_LAYERS });
        }
        // Each repetition adds a chunk or a layer, or is refused.
        let times = if symbols.is_empty() { 0 } else { times };
        (0..times).try_for_each(|_| symbols.iter().try_for_each(|symbol| self.add(*symbol)))
    }

    fn add(&mut self, Symbol { symbol, count, at }: Symbol) -> Result<(), LayoutError> {
        let order = |fault| Err(LayoutError::Order { at, fault });
        if count == 0 {
            return Ok(());
        }
        if symbol != 'E' && !self.has_embedding {
            return order(
                "the first symbol must be E, the embedding, which begins the first chunk",
            );
        }
        if self.has_loss {
            return order("nothing may follow L, the loss, which ends the last chunk");
        }
        match symbol {
            'E' if self.has_embedding || count > 1 => {
                return order("E may appear only once, in the first chunk");
            }
            'E' => self.has_embedding = true,
            'L' if count > 1 => return order("L may appear only once, in the last chunk"),
            'L' => self.has_loss = true,
            't' if !self.mtp.is_empty() => return order("t must come before all m"),
            't' => (self.own, self.total) = (self.own + count, self.total + count),
            'm' => {
                let chunk = self.layers.len();
                match self.mtp.last_mut() {
                    Some((last, before)) if *last == chunk => *before += count,
                    _ => self.mtp.push((chunk, count)),
                }
                self.total += count;
            }
            _ => {
                self.layers.push(std::mem::take(&mut self.own));
                self.layers.extend((1..count).map(|_| 0));
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<LayerLayout, LayoutError> {
        self.layers.push(self.own);
        match (self.has_embedding, self.has_loss) {
            (false, _) => Err(LayoutError::Missing("embedding (E)")),
            (true, false) => Err(LayoutError::Missing("loss (L)")),
            _ if self.layers.iter().all(|layers| *layers == 0) => {
                Err(LayoutError::Missing("transformer layer (t)"))
            }
            _ => Ok(LayerLayout { layers: self.layers, mtp: self.mtp }),
        }
    }
}
