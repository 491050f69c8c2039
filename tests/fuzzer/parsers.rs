//! Every reader of a file or a command line, by the name of what it reads.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use answer::simulate::baseline::Baseline;
use answer::timelines;
use cases::ScheduleSource;
use clap::Parser as _;
use flate2::Compression;
use flate2::write::GzEncoder;
use fsdp::Lengths;
use imports::edit::Edits;
use imports::measured::watch::Watcher;
use imports::step_log;
use measured::memory_error;
use pipeline::{LayerLayout, LayoutError, Schedule, Shape};
use plan::Machine;
use planning::machines;
use profile::{AnyProfile, Unsplit};
use question::Context;
use question::hardware::clusters;
use question::keys::Keys;
use question::noise::tables;
use question::profiles;
use question::scenario::Scenario;
use question::sweep::grid::Grid;
use question::values::packing::LengthsKey;

use super::mutate::Form;
use crate::Cli;
use crate::commands::sweep::merge;
use crate::error::Error;
use crate::host::Host;
use crate::sweep::journal::Journal;

/// The input of a parser.
pub(super) struct Given<'a> {
    pub(super) bytes: &'a [u8],
    /// A folder for this parser alone.
    pub(super) folder: &'a Path,
}

impl Given<'_> {
    /// The bytes as a file called `name`.
    fn file(&self, name: &str) -> PathBuf {
        let path = self.folder.join(name);
        fs::write(&path, self.bytes).expect("the folder is there to be written to");
        path
    }

    fn text(&self) -> Result<&str, String> {
        std::str::from_utf8(self.bytes).map_err(|error| error.to_string())
    }
}

/// A reader of what users write.
pub(super) struct Parser {
    pub(super) name: &'static str,
    pub(super) form: Form,
    /// Reads and checks; what is cheap is done with it, nothing that takes long is answered. Errors
    /// are what a user would be shown.
    pub(super) read: fn(&Given<'_>) -> Result<(), String>,
}

const fn text(name: &'static str, read: fn(&Given<'_>) -> Result<(), String>) -> Parser {
    Parser { name, form: Form::Text, read }
}

const fn binary(name: &'static str, read: fn(&Given<'_>) -> Result<(), String>) -> Parser {
    Parser { name, form: Form::Binary, read }
}

/// All of them.
pub(super) const PARSERS: &[Parser] = &[
    text("scenario", scenario),
    text("sweep", sweep),
    text("cluster", cluster),
    text("machine", machine),
    text("profile", profile),
    text("plan", plan),
    text("config", config),
    text("script", script),
    text("log", log),
    text("step-log", step_log),
    text("configuration", configuration),
    text("recipe", recipe),
    text("schedule", schedule),
    text("certificate", certificate),
    binary("trace-parquet", trace),
    text("trace-json", trace),
    binary("trace-gzip", compressed_trace),
    text("traces-torch", traces_of_ranks),
    text("trace-spans", trace),
    text("trace-nsys", trace),
    text("timeline", timeline),
    text("baseline", baseline),
    binary("journal", journal),
    text("shard", shard),
    text("lengths", lengths),
    text("slowdowns", slowdowns),
    text("samples", samples),
    text("network", network),
    text("command-line", command_line),
    text("layout", layout),
];

/// The most characters of an error: however long an input is, little of it is said back.
const MOST_SHOWN: usize = 8_000;

/// The error as the program prints it.
fn shown(error: impl Into<Error>) -> String {
    let diagnostic = error.into().diagnostic();
    let shown = draw::text::diagnostic(&diagnostic);
    assert!(shown.chars().count() <= MOST_SHOWN, "an error is told in {} bytes", shown.len());
    let _ = serde_json::to_string(&diagnostic);
    shown
}

/// `read`, with the files of the disk.
fn on_disk<T>(read: impl FnOnce(&Context<'_>) -> T) -> T {
    let host = Host::default();
    read(&Context::new(&host))
}

/// A file of questions, and the first question that it asks.
fn scenario(given: &Given<'_>) -> Result<(), String> {
    on_disk(|context| asked(context, given))
}

fn asked(context: &Context<'_>, given: &Given<'_>) -> Result<(), String> {
    let scenario = Scenario::read(context, &given.file("scenario.toml")).map_err(shown)?;
    for setting in scenario.settings.iter().take(2) {
        let selected = cases::selected(context, &scenario, setting).map_err(shown)?;
        // One of them: the bytes choose which.
        if let Some(one) = selected.get(given.bytes.len() % selected.len().max(1)) {
            let tried = cases::try_out(context, &scenario, setting, &one.rule).map_err(shown);
            // Not every schedule can do a question that asks for all of them.
            if !one.by_all {
                tried?;
            }
        }
    }
    Ok(())
}

/// A launch script or a log, and the question that it asks, written down.
fn script(given: &Given<'_>) -> Result<(), String> {
    imported(given, "train.sh")
}

/// A configuration in TOML, YAML or JSON of another framework, and its question.
fn configuration(given: &Given<'_>) -> Result<(), String> {
    imported(given, "llama3_8b.yaml")
}

/// A recipe in Python, and its question.
fn recipe(given: &Given<'_>) -> Result<(), String> {
    imported(given, "llama3_8b.py")
}

fn imported(given: &Given<'_>, name: &str) -> Result<(), String> {
    on_disk(|context| {
        let asked = imports::Given::default();
        let imported = imports::read(context, &given.file(name), &asked);
        imported.map_err(shown)?.to_toml().map(drop)
    })
}

/// A log, read as a whole, watched, and a script whose arguments change.
fn log(given: &Given<'_>) -> Result<(), String> {
    let text = given.text()?;
    let mut watcher = Watcher::new(1e6);
    for line in text.lines() {
        watcher.add(line).iter().for_each(|alarm| drop(alarm.words()));
    }
    let old = ["--num-layers 4".to_owned(), "--recompute-granularity full".to_owned()];
    let new = ["--num-layers 8".to_owned(), "--tp-comm-overlap".to_owned()];
    let _ = Edits::between(&old, &new).apply(text);
    let _ = imports::timers::of_log(Path::new("run.log"), text);
    on_disk(|context| {
        let log = imports::read_log(context, &given.file("run.log"), 1e6);
        log.map_err(shown)?.measured().map(|one| drop(one.in_words()))
    })
}

/// Steps of reinforcement learning, and which of them count.
fn step_log(given: &Given<'_>) -> Result<(), String> {
    on_disk(|context| {
        let log = step_log::read(context, &given.file("run.log")).map_err(shown)?;
        for step in &log.steps {
            let lengths = [step.prompts(), step.responses()].into_iter().flatten();
            lengths.for_each(|summary| drop(Lengths::of_summary(summary, 0.9, 4_096, 64)));
        }
        log.chosen().map(drop).ok_or_else(|| "no step counts".to_owned())
    })
}

fn sweep(given: &Given<'_>) -> Result<(), String> {
    on_disk(|context| {
        let grid = Grid::read(context, &given.file("sweep.toml"), &Keys::default());
        let grid = grid.map_err(shown)?;
        grid.question(context, grid.questions - 1).map(drop).map_err(shown)
    })
}

fn cluster(given: &Given<'_>) -> Result<(), String> {
    let path = given.file("cluster.toml");
    on_disk(|context| clusters::named(context, &path.to_string_lossy(), 8)).map(drop).map_err(shown)
}

fn machine(given: &Given<'_>) -> Result<(), String> {
    machines::parse("machine", Path::new("machine.toml"), given.text()?).map(drop).map_err(shown)
}

fn profile(given: &Given<'_>) -> Result<(), String> {
    let read = on_disk(|context| profiles::parse(context, &given.file("profile.toml")));
    if let AnyProfile::Trainer(profile) = read.map_err(shown)? {
        let shape = Shape::new(2, 1, 4).map_err(|fault| fault.to_string())?;
        let _ = (profile.costs(shape, Unsplit::Doubled), profile.costs(shape, Unsplit::Refused));
    }
    Ok(())
}

fn plan(given: &Given<'_>) -> Result<(), String> {
    read_plan(&given.file("plan.toml"))
}

fn read_plan(path: &Path) -> Result<(), String> {
    let error = memory_error().map_err(shown)?;
    on_disk(|context| imports::question(context, path, error, &planning::PlanFlags::default()))
        .map(drop)
        .map_err(shown)
}

/// A plan for the model of a `config.json`.
fn config(given: &Given<'_>) -> Result<(), String> {
    given.file("config.json");
    let plan = given.folder.join("plan.toml");
    let question = "model = \"config.json\"\ntokens = 1e9\nbatch = 64\nsequence = 2048\n\
                    [[cluster]]\nmachine = \"h100\"\ndevices = [32]\n";
    fs::write(&plan, question).expect("the folder is there to be written to");
    read_plan(&plan)
}

/// An order somebody wrote down, which is written again as it was read.
fn schedule(given: &Given<'_>) -> Result<(), String> {
    let path = given.file("schedule.txt");
    let rule = on_disk(|context| ScheduleSource::named(context, &path.to_string_lossy()));
    let ScheduleSource::File(_, schedule) = rule.map_err(shown)? else {
        return Err("a file is not a family".to_owned());
    };
    let again: Schedule = schedule.to_string().parse().expect("what is written can be read");
    assert!(*schedule == again, "a schedule is not read back as it was written");
    Ok(())
}

fn certificate(given: &Given<'_>) -> Result<(), String> {
    certificate::verify(given.text()?).map(drop).map_err(|refusal| refusal.to_string())
}

fn trace(given: &Given<'_>) -> Result<(), String> {
    replay(traces::read(given.bytes.to_vec()))
}

/// A compressed trace, or one that is compressed first: few changes of compressed bytes are not noticed.
fn compressed_trace(given: &Given<'_>) -> Result<(), String> {
    if given.bytes.starts_with(&[0x1f, 0x8b]) {
        return trace(given);
    }
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(given.bytes).expect("a list takes all");
    replay(traces::read(packed.finish().expect("a list takes all")))
}

/// The traces of several ranks, with a line of `---` between two.
fn traces_of_ranks(given: &Given<'_>) -> Result<(), String> {
    let mut reader = traces::Reader::within(u64::MAX);
    for rank in given.text()?.split("\n---\n") {
        reader.add(rank.as_bytes().to_vec()).map_err(|error| error.to_string())?;
    }
    replay(reader.finish())
}

/// A run, checked and timed anew.
fn replay(trace: Result<traces::Trace, traces::TraceError>) -> Result<(), String> {
    let trace = trace.map_err(|error| error.to_string())?;
    let run = traces::Run::new(trace).map_err(|error| error.to_string())?;
    let times = traces::Times::measured(&run).with_launch_delays(&run);
    let _ = (run.predict(&times), run.predict_held_out(&times), traces::Medians::of(&run));
    let _ = (run.links(), run.lacks().iter().map(ToString::to_string).collect::<Vec<_>>());
    Ok(())
}

fn timeline(given: &Given<'_>) -> Result<(), String> {
    let recorded =
        on_disk(|context| timelines::read(context, &given.file("timeline.json"))).map_err(shown)?;
    let _ = recorded.chosen();
    let _ = answer::profile::of(&recorded).map(|profile| profile.to_toml());
    Ok(())
}

/// An answer that was stored.
fn baseline(given: &Given<'_>) -> Result<(), String> {
    let path = given.file("baseline.json");
    on_disk(|context| Baseline::read(context, &path)).map(drop).map_err(shown)
}

/// Reads the journal of a sweep that was killed, to its end.
fn journal(given: &Given<'_>) -> Result<(), String> {
    given.file("rows.csv.partial");
    let out = given.folder.join("rows.csv");
    let journal = Journal::open(&out, super::seeds::SWEEP).map_err(shown)?;
    let mut rows = Vec::new();
    journal
        .reader()
        .and_then(|mut reader| reader.read_to_end(&mut rows))
        .map_err(|e| e.to_string())?;
    match journal.rows {
        0 => Err("it has no rows".to_owned()),
        _ => Ok(()),
    }
}

fn shard(given: &Given<'_>) -> Result<(), String> {
    let out = given.folder.join("merged.csv");
    merge::merge(&[given.file("shard.csv")], &out).map(drop).map_err(shown)
}

fn lengths(given: &Given<'_>) -> Result<(), String> {
    let path = given.file("lengths.txt");
    on_disk(|context| LengthsKey::File(path.clone()).read(context)).map_err(shown)?;
    let lengths = on_disk(|context| LengthsKey::InOrder(path).read(context)).map_err(shown)?;
    let _ = lengths.draw(1, 3, 10);
    Ok(())
}

/// A layout of layers, which reads what it writes.
fn layout(given: &Given<'_>) -> Result<(), String> {
    let layout: LayerLayout =
        given.text()?.parse().map_err(|error: LayoutError| error.to_string())?;
    assert_eq!(layout.to_string().parse(), Ok(layout));
    Ok(())
}

/// A log of nccl-tests or a table of bandwidths, and the rates of machines by it.
fn network(given: &Given<'_>) -> Result<(), String> {
    static MACHINES: LazyLock<Vec<Machine>> =
        LazyLock::new(|| machines::built_in().unwrap_or_default());
    let path = given.file("nccl.log");
    on_disk(|context| planning::network::runs(context, &path).map(drop)).map_err(shown)?;
    let measured = MACHINES.iter().map(|machine| {
        on_disk(|context| planning::network::measured(context, &path, machine)).map_err(shown)
    });
    let mut last = Ok(());
    for one in measured {
        last = match one {
            Ok((machine, _)) => {
                assert!(machine.ring(16, 1) > 0.0 && machine.hop(1e6, true).is_finite());
                return Ok(());
            }
            Err(error) => Err(error),
        };
    }
    last
}

fn slowdowns(given: &Given<'_>) -> Result<(), String> {
    let path = given.file("slowdowns.csv");
    on_disk(|context| tables::Profiles::read(context, &path).map(drop)).map_err(shown)
}

fn samples(given: &Given<'_>) -> Result<(), String> {
    on_disk(|context| tables::samples(context, &given.file("samples.txt"))).map(drop).map_err(shown)
}

/// The flags of a command, with blanks between them.
fn command_line(given: &Given<'_>) -> Result<(), String> {
    let words = given.text()?.split_whitespace();
    Cli::try_parse_from(words).map(drop).map_err(|error| error.to_string())
}
