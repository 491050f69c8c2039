//! Figures that are asked alone are those of an answer with everything.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use question::keys::Keys;

use super::*;
use crate::{outcome, sweep};

/// Families whose orders repeat, and some that go the usual way.
const SCHEDULES: &str = "schedule = [\"1f1b\", \"zb-h1\", \"zb-h2\", \"1f1b-i\", \"v-half\", \"v-min\", \
     \"1f1b-v\", \"v-zb\", \"gis\", \"gis-h\", \"hanayo\", \"seq1f1b\", \"zb-v\", \"gpipe\", \"zb-1p\", \"dualpipe-v\"]\n";
const EQUAL: &str = "stages = 4\nmicrobatches = 20000\nforward = \"10ms\"\nbackward-input = \"10ms\"\n\
                     backward-weight = \"8ms\"\nhop = \"0.5ms\"\n";
const UNEQUAL: &str = "stages = 3\nmicrobatches = 33333\nforward = [\"9ms\", \"10.003ms\", \"11ms\"]\n\
                       backward-input = [\"9.1ms\", \"9ms\", \"10ms\"]\nbackward-weight = \"8ms\"\n\
                       hop = [\"0.5ms\", \"1ms\", \"0.1ms\"]\nactivation = \"1GiB\"\nmemory-limit = \"20GiB\"\n";

/// The answer to `text`, as JSON and as CSV, and how many schedules were timed by their period.
fn answer(text: &str, figures_alone: bool) -> ([String; 2], usize) {
    let file = Path::new("long.toml");
    let host: BTreeMap<PathBuf, Vec<u8>> = [(file.to_owned(), text.into())].into();
    let context = Context::new(&host);
    let scenario = Scenario::asked(&context, Some(file), &Keys::default()).unwrap();
    let wants = Wants { figures_alone, front: true, partial: true, ..Wants::default() };
    let answers = simulate(&context, &scenario, wants).unwrap();
    let by_period = answers.outcomes.iter().filter(|one| one.case.repeating.is_some());
    for outcome in by_period.clone() {
        assert!(outcome::timeline(outcome).is_err() && outcome::recorded(outcome).is_err());
        assert!(outcome.case.schedule.passes() < outcome.case.passes());
    }
    let csv = String::from_utf8(sweep::row::of_outcomes(&answers.outcomes)).unwrap();
    let table = report::sheet(&answers);
    ([serde_json::to_string(&answers).unwrap() + &format!("{table:?}"), csv], by_period.count())
}

#[test]
fn figures_of_long_steps_are_the_same_by_the_period_of_the_order() {
    for (pipeline, expected) in [(EQUAL, 13), (UNEQUAL, 12)] {
        let text = format!("{SCHEDULES}{pipeline}");
        let [(alone, by_period), (whole, none)] = [true, false].map(|alone| answer(&text, alone));
        assert_eq!(alone, whole);
        assert_eq!((by_period, none), (expected, 0), "{}", alone[1]);
    }
}

#[test]
fn what_decides_beside_passes_is_answered_the_usual_way() {
    for more in [
        "recompute = \"full\"\n",
        "jitter = \"pass=lognormal:0.05\"\nseed = 3\n",
        "slowdown = \"stage:1=1.2\"\n",
    ] {
        let text = format!("schedule = [\"1f1b\", \"zb-h1\"]\n{EQUAL}{more}");
        let [(alone, by_period), (whole, _)] = [true, false].map(|alone| answer(&text, alone));
        assert_eq!((alone, by_period), (whole, 0), "{more}");
    }
}

#[test]
fn other_wishes_take_the_whole_order() {
    let figures = Wants { figures_alone: true, ..Wants::default() };
    assert!(figures.are_figures() && !Wants::default().are_figures());
    for more in [
        Wants { explanation: true, ..figures },
        Wants { gaps: true, ..figures },
        Wants { runs: true, ..figures },
        Wants { timelines: Timelines::All, ..figures },
        Wants { timelines: Timelines::Below(usize::MAX), ..figures },
    ] {
        assert!(!more.are_figures(), "{more:?}");
    }
}

#[test]
fn rows_of_a_sweep_are_those_of_single_questions() {
    let keys = EQUAL.replace("microbatches = 20000\n", "");
    let schedules = "schedule = [\"1f1b\", \"zb-h1\", \"1f1b-i\"]\n";
    let file = Path::new("grid.toml");
    let axis = "[sweep]\nmicrobatches = [200, 8200, 20000, 20001, 40000]\n";
    let text = format!("{schedules}{keys}{axis}");
    let host: BTreeMap<PathBuf, Vec<u8>> = [(file.to_owned(), text.into())].into();
    let context = Context::new(&host);
    let grid = question::sweep::grid::Grid::read(&context, file, &Keys::default()).unwrap();
    let rows = String::from_utf8(sweep::sweep(&context, &grid).unwrap().csv).unwrap();
    for microbatches in [200, 8200, 20000, 20001, 40000] {
        let text = format!("{schedules}microbatches = {microbatches}\n{keys}");
        let csv = answer(&text, false).0[1].clone();
        for row in csv.lines().skip(1) {
            assert!(rows.contains(row), "{row}\nis none of\n{rows}");
        }
    }
    assert_eq!(rows.lines().count(), 16);
}
