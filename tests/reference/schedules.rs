//! The schedules: a section for each, with its picture, and all of them in a table.

use answer::schedules::{Entry, schedules};
use clap::Parser;
use pipeline::{Choice, Chunks, Family, Vocabulary};
use serde_json::Value;

use super::markdown::{anchor, code, prose, sentence, table};
use super::{pages, parts};

/// The setting of all pictures: equal passes, and a size of activations in which peaks are told.
const SETTING: &str =
    "--forward 10ms --backward-input 10ms --backward-weight 10ms --activation 1GiB";

/// The folder of the pictures, from the pages on; `make book` draws them.
pub const PICTURES: &str = "pictures/";

/// The names of the schedules that are drawn.
pub fn drawn() -> impl Iterator<Item = &'static str> {
    schedules().schedules.into_iter().map(|entry| entry.name)
}

/// Output of the program for `line`, which begins behind its name.
pub fn ask(line: &str) -> Vec<u8> {
    let words = std::iter::once("debubble").chain(line.split_whitespace());
    let cli = crate::Cli::try_parse_from(words).unwrap();
    let mut out = Vec::new();
    crate::run(cli.command, &mut out).unwrap();
    out
}

/// How many microbatches the picture of `name` has.
fn microbatches(name: &str) -> u64 {
    if name == Family::Stp.name() { 12 } else { 8 }
}

/// The line that simulates `name` in the setting of the pictures, with what it needs besides.
fn question(name: &str) -> String {
    let about = Family::named(name).map(Family::about);
    let vocabulary = about.map_or(Vocabulary::Whole, |about| about.vocabulary);
    let microbatches = microbatches(name);
    let mut line =
        format!("simulate --schedule {name} --stages 4 --microbatches {microbatches} {SETTING}");
    if vocabulary != Vocabulary::Whole {
        line += " --vocab-s 2ms --vocab-t 2ms";
    }
    if about.is_some_and(|about| about.choice == Choice::Offload) {
        line += " --offload-ratio 0.5";
    }
    if let Some(Chunks::Any { default }) = about.map(|about| about.chunks) {
        line += &format!(" --chunks {default}");
    }
    line
}

/// The file of the picture of the schedule `name`.
pub fn file(name: &str) -> String {
    format!("{name}.svg")
}

/// The line that draws the schedule `name` into `path`.
fn drawing(name: &str, path: &str) -> String {
    format!("{} --gantt never --width 960px --svg {path}", question(name))
}

/// The page and heading of each schedule.
fn places() -> Vec<(String, String)> {
    let mut places = Vec::new();
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        let file = page.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let names = parts(&text).into_iter().filter_map(|part| part.strip_prefix("schedule "));
        places.extend(names.map(|name| (name.to_owned(), format!("{file}#{}", anchor(name)))));
    }
    places
}

/// All schedules with bubble, memory and chunks.
pub fn all() -> String {
    let places = places();
    let rows = schedules().schedules.into_iter().map(|entry| {
        let place = places.iter().find(|(name, _)| name == entry.name);
        let name = match place {
            Some((_, place)) => format!("[{}]({place})", code(entry.name)),
            None => code(entry.name),
        };
        vec![name, prose(entry.bubble), prose(entry.memory), prose(&entry.chunks)]
    });
    table(&["schedule", "bubble of a step", "peak activation memory", "chunks per stage"], rows)
}

/// The schedule `name`.
pub fn of(name: &str) -> Result<String, String> {
    let entry = schedules().schedules.into_iter().find(|entry| entry.name == name);
    let entry = entry.ok_or_else(|| format!("there is no schedule `{name}`"))?;
    let rows = facts(&entry).into_iter().filter(|(_, text)| !text.is_empty());
    let rows = rows.map(|(what, text)| vec![what.to_owned(), prose(&text)]);
    let alt = format!("The order of {name} on 4 stages with {} microbatches", microbatches(name));
    Ok(format!("![{alt}]({PICTURES}{})\n\n{}", file(name), table(&["", ""], rows)))
}

fn facts(entry: &Entry) -> Vec<(&'static str, String)> {
    vec![
        ("Bubble of a step", entry.bubble.to_owned()),
        ("Peak activation memory", entry.memory.to_owned()),
        ("Needs", entry.needs.to_owned()),
        ("Chunks per stage", entry.chunks.clone()),
        ("Memory limit", entry.memory_limit.clone()),
        ("Further parameter", entry.choice.clone().unwrap_or_default()),
        ("Runs in", entry.runs_in.clone()),
        ("Source", entry.source.to_owned()),
        ("Remark", entry.note.to_owned()),
        ("In the picture", in_the_picture(entry.name)),
        ("Drawn by", format!("`debubble {}`", drawing(entry.name, &file(entry.name)))),
    ]
}

/// Bubble and peak of a schedule in the setting of its picture.
fn in_the_picture(name: &str) -> String {
    let answer: Value = serde_json::from_slice(&ask(&(question(name) + " --json"))).unwrap();
    let one = &answer["results"][0];
    let percent = |key: &str| format!("{:.1} %", one[key].as_f64().unwrap() * 100.0);
    let peaks = one["peak_activation_bytes"].as_array().unwrap().iter().filter_map(Value::as_f64);
    let peak = peaks.fold(0.0, f64::max) / f64::from(1 << 30);
    let (span, makespan) = (percent("bubble_rate"), percent("bubble_rate_makespan"));
    let bubble = match span == makespan {
        true => format!("{span} of the step is bubble"),
        false => format!("{span} of the span is bubble, {makespan} of the makespan"),
    };
    format!("{bubble}; the fullest stage holds {peak:.2} M_B")
}

/// Published schedules that are left out, and why.
pub fn not_offered() -> String {
    let rows = schedules().not_offered.into_iter();
    let rows = rows.map(|one| vec![code(one.name), prose(one.source), sentence(one.why)]);
    table(&["schedule", "source", "why it is not offered"], rows)
}

/// The picture of the schedule `name`.
pub fn picture(name: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(file(name));
    ask(&drawing(name, path.to_str().unwrap()));
    std::fs::read_to_string(path).unwrap()
}
