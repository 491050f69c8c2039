//! The rows of a block are those of its questions one by one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use question::keys::Keys;

use super::*;

const PIPELINE: &str = "stages = 4\nmicrobatches = 8\nforward = \"9ms\"\n\
                        backward-input = \"10ms\"\nbackward-weight = \"8ms\"\nhop = \"0.5ms\"\n";

/// The rows of a sweep of `schedules` over `axes` at once, how many questions there are, and how many in lanes.
fn at_once(schedules: &str, axes: &str) -> (String, u64, usize) {
    let key = |line: &str| line.split(' ').next().map(str::to_owned);
    let is_axis = |line: &str| axes.lines().any(|axis| key(axis) == key(line));
    let pipeline = PIPELINE.lines().filter(|line| !is_axis(line)).collect::<Vec<_>>().join("\n");
    let schedule = format!("schedule = {schedules}");
    let schedule = if is_axis(&schedule) { String::new() } else { schedule };
    let text = format!("{schedule}\n{pipeline}\n[sweep]\n{axes}");
    let file = Path::new("grid.toml");
    let host: BTreeMap<PathBuf, Vec<u8>> = [(file.to_owned(), text.clone().into())].into();
    let context = Context::new(&host);
    let grid = Grid::read(&context, file, &Keys::default()).unwrap();
    let columns = grid.columns();
    let mut block = Block::new(&context, &grid, &columns);
    (0..grid.questions).for_each(|index| block.add(index));
    let in_lanes = block.gaps.len();
    let all = block.filled();
    let one = |index| rows(&context, &grid, &columns, index..index + 1);
    let each: Vec<u8> = (0..grid.questions).flat_map(one).collect();
    let [all, each] = [all, each].map(|rows| String::from_utf8(rows).unwrap());
    assert_eq!(all, each, "{text}");
    (all, grid.questions, in_lanes)
}

#[test]
fn questions_that_differ_in_times_are_lanes() {
    let axes = "forward = [\"9ms\", \"10ms\", [\"8ms\", \"9ms\", \"10ms\", \"11ms\"]]\n\
                hop = { from = \"0us\", to = \"90us\", step = \"10us\" }\n";
    let schedules = "[\"1f1b\", \"zb-h1\", \"zb-2p\", \"zb-v\"]";
    let (rows, questions, in_lanes) = at_once(schedules, axes);
    // Orders of zb-2p and zb-v look at times.
    assert_eq!((questions, in_lanes), (120, 2 * 29), "{rows}");
    assert!(rows.lines().all(|row| row.ends_with(',')), "{rows}");
}

#[test]
fn questions_that_differ_in_more_are_not() {
    for (axes, in_lanes) in [
        ("seed = [1, 2, 3]\njitter = [\"pass=lognormal:0.05\"]\n", 0),
        ("recompute = [\"full\", \"none\"]\nhop = [\"0us\", \"1ms\"]\n", 3),
        ("cluster = [\"a100-roce\"]\nsteps = [1, 2]\n", 0),
        ("microbatches = [8, 12]\nhop = [\"0us\", \"1ms\"]\n", 6),
        ("memory-limit = [\"1p\", \"2p\"]\nhop = [\"0us\", \"1ms\"]\n", 6),
        ("activation = [\"1MiB\", \"2MiB\"]\nhop = [\"0us\", \"1ms\"]\n", 6),
        ("microbatch-work = [[1, 1, 1, 1, 2, 2, 2, 2]]\nhop = [\"0us\", \"1ms\"]\n", 0),
        // None of these families takes chunks.
        ("hop = [\"0us\", \"1ms\"]\nchunks = [1, 2]\n", 9),
        // The first of these have no answer.
        ("stages = [70000, 4]\nhop = [\"0us\", \"1ms\"]\n", 3),
        // Floats do not count the last one exactly.
        ("hop = [\"0us\", \"1ms\", \"900000s\"]\n", 6),
    ] {
        let (rows, _, found) = at_once("[\"1f1b\", \"zb-h1\", \"gpipe\"]", axes);
        assert_eq!(found, in_lanes, "{axes}{rows}");
    }
}

/// Questions one after the other are read by their fastest axis alone: rows stay those of each question by itself.
#[test]
fn runs_of_questions_have_the_rows_of_each() {
    let axes = [
        "microbatches = [8, 12]\nforward = { from = \"1ms\", to = \"3ms\", step = \"0.5ms\" }\n",
        // The third has times of two stages, and no answer.
        "hop = [\"1ms\", \"2ms\"]\n\
         backward-input = [\"9ms\", [\"1ms\", \"2ms\", \"3ms\", \"4ms\"], [\"1ms\", \"2ms\"], \"11ms\"]\n",
        "hop = [\"0us\", \"1ms\"]\nbackward = [\"15ms\", \"16ms\", \"17ms\"]\n",
        "forward = [\"1ms\", \"2ms\"]\noverhead = [\"0us\", \"10us\", \"20us\"]\n",
        "hop = [\"0us\", \"1ms\"]\nrecompute = [\"full\", \"none\"]\n",
        "hop = [\"0us\", \"1ms\"]\nheads = [16]\nseq = [1024]\nhidden = [1024, 2048]\n",
        "sharding = [\"fsdp\"]\ngather = [\"1ms\"]\nreduce = [\"1ms\"]\nhop = [\"0us\", \"1ms\"]\n",
        "hop = [\"0us\", \"1ms\"]\nschedule = [\"1f1b\", \"zb-h1\"]\n",
        "hop = [\"0us\", \"1ms\"]\njitter = [\"pass=lognormal:0.05\"]\n",
    ];
    let in_lanes = axes.map(|axes| at_once("[\"1f1b\", \"zb-h1\"]", axes).2);
    assert_eq!(in_lanes, [16, 10, 10, 10, 0, 0, 0, 2, 0]);
}
