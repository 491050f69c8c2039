//! The check that others made on rows that the project was never given.

use super::table;
use crate::reference::markdown::prose;

/// What was found.
const TEXT: &str = scenarios::PAPER.text("independent-check.csv");

/// What it is.
const LABEL: &str = "independent check of 2026-11-28, on rows the project was never given; figures by whoever checked, \
                     not reproducible from this repository";

/// A line of it, with the cells that are empty where a figure was not told.
struct Line(csv::StringRecord);

impl Line {
    fn of(&self, column: usize, unit: &str) -> String {
        let cell = &self.0[column];
        if cell.is_empty() { "-".to_owned() } else { format!("{cell}{unit}") }
    }

    /// How many were held against an interval, and how many were inside.
    fn inside(&self) -> Option<[u32; 2]> {
        Some([self.0[6].parse().ok()?, self.0[5].parse().ok()?])
    }
}

fn lines() -> Vec<Line> {
    let reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(TEXT.as_bytes());
    reader.into_records().map(|line| Line(line.unwrap())).collect()
}

fn share([inside, held]: [u32; 2]) -> f64 {
    100.0 * f64::from(inside) / f64::from(held)
}

/// What it is, and all of it as a table.
pub fn all() -> String {
    let percent = "\u{a0}%";
    let cells = |line: &Line| {
        let inside = line
            .inside()
            .map(|own @ [inside, held]| format!("{inside} of {held}, {:.0}{percent}", share(own)));
        vec![
            prose(&line.0[0]),
            line.of(1, ""),
            line.of(2, percent),
            line.of(3, percent),
            line.of(4, percent),
            inside.unwrap_or_else(|| "-".to_owned()),
            line.of(7, percent),
        ]
    };
    let head = [
        "steps of",
        "steps",
        "mean error",
        "median error",
        "bias",
        "in the interval",
        "half its width",
    ];
    format!("An {LABEL}:\n\n{}", table(&head, lines().iter().map(cells)))
}

/// The figures that the README has of it.
pub fn of_readme() -> [String; 1] {
    let lines = lines();
    let [own, without, fresh, _] = &lines[..] else { panic!("{} lines", lines.len()) };
    let inside = |line: &Line| format!("{:.0}", share(line.inside().unwrap()));
    [format!(
        "| {} and {} (fresh sources) | mean error {} and {}; {} to {} % inside the 95 % interval |",
        own.of(1, ""),
        fresh.of(1, ""),
        own.of(2, " %"),
        fresh.of(2, " %"),
        inside(own),
        inside(without)
    )]
}
