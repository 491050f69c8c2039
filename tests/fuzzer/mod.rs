//! Any bytes in a file or on a command line: debubble reads them or says what is wrong with
//! them: no panic, no abort, no hang, no more than a gigabyte.
//!
//! Part of the tests of the program, so that it calls the very functions that commands call. Inputs
//! are the project's own files after some [`mutate`]; input `number` of a parser under a seed is
//! always the same. `make fuzz` runs many in processes that are [`watch`]ed; what once broke a
//! parser is kept in `tests/fuzz/` and read by every run of the tests.

mod files;
mod mutate;
mod parsers;
mod seeds;
mod watch;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use self::mutate::{Chance, Form, mutated};
use self::parsers::{Given, PARSERS, Parser};
use question::sweep::Checksum;

/// The checksum of `bytes`, as sweeps have it.
fn checksum(bytes: &[u8]) -> u64 {
    let mut checksum = Checksum::default();
    checksum.add(bytes);
    checksum.value()
}

/// Input `number` of `parser` under `seed`.
fn input(parser: &Parser, seeds: &[Vec<u8>], seed: u64, number: u64) -> Vec<u8> {
    let mut chance = Chance::new(seed, parser.name, number);
    mutated(seeds, parser.form, &mut chance)
}

/// The answer of a parser to an input that does not break it.
type Answer = Result<(), String>;

/// Lets `parser` read `bytes` as if they were in a file; what it says of them, or how it broke.
fn read(parser: &Parser, bytes: &[u8], folder: &Path) -> Result<Answer, String> {
    let given = Given { bytes, folder };
    catch_unwind(AssertUnwindSafe(|| (parser.read)(&given))).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        text.unwrap_or("a panic without a message").to_owned()
    })
}

/// Every parser takes all of its own seeds, so that what is made of them gets past its first line;
/// and breaks at none of them, nor at what once broke it.
#[test]
fn parsers_take_their_seeds() {
    let folder = tempfile::tempdir().unwrap();
    let mut refused = Vec::new();
    for parser in PARSERS {
        let seeds = seeds::of(parser);
        assert!(!seeds.is_empty(), "{} has no seeds", parser.name);
        let answers = seeds.iter().map(|seed| read(parser, seed, folder.path()));
        let answers = answers.enumerate().filter(|(_, answer)| *answer != Ok(Ok(())));
        refused.extend(answers.map(|(at, answer)| (parser.name, at, answer)));
        for (file, bytes) in files::broke_once(parser.name) {
            let taken = read(parser, &bytes, folder.path());
            assert!(taken.is_ok(), "{} broke at {}: {taken:?}", parser.name, file.display());
        }
    }
    assert!(refused.is_empty(), "seeds that are not read: {refused:#?}");
}

/// A few inputs of each, in this process; some are read, some are refused.
#[test]
fn a_few_inputs_break_no_parser() {
    const FEW: u64 = 120;
    let folder = tempfile::tempdir().unwrap();
    for parser in PARSERS {
        let seeds = seeds::of(parser);
        let mut counts = BTreeMap::new();
        for number in 0..FEW {
            let bytes = input(parser, &seeds, 1, number);
            let taken = read(parser, &bytes, folder.path());
            let taken = taken.unwrap_or_else(|error| {
                panic!("{} broke at input {number} of seed 1: {error}", parser.name)
            });
            *counts.entry(taken.is_ok()).or_insert(0u32) += 1;
        }
        assert_eq!(counts.len(), 2, "{}: {counts:?} are read", parser.name);
    }
}

#[test]
fn an_input_follows_from_seed_and_number() {
    let parser = &PARSERS[0];
    let seeds = seeds::of(parser);
    let one = |seed, number| input(parser, &seeds, seed, number);
    assert_eq!(one(1, 7), one(1, 7));
    let distinct: std::collections::BTreeSet<_> = (0..100).map(|number| one(1, number)).collect();
    assert!(distinct.len() > 80, "{}", distinct.len());
    assert_ne!(one(1, 7), one(2, 7));
}

/// Text is changed as text: what was UTF-8 stays so, mostly, or no parser would look at it.
#[test]
fn texts_mostly_stay_texts() {
    let seeds = vec!["schedule = [\"1f1b\"]\nhop = \"5µs\"\n".as_bytes().to_vec()];
    let text = |number| {
        let bytes = mutated(&seeds, Form::Text, &mut Chance::new(1, "text", number));
        u32::from(std::str::from_utf8(&bytes).is_ok())
    };
    assert!((0..1000).map(text).sum::<u32>() > 800);
}
