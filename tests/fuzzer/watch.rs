//! Many inputs, in processes with a limit on their memory and somebody who looks at the clock.
//!
//! ```text
//! make fuzz                                  many of every parser
//! make fuzz-minute                           a minute of all of them together
//! FUZZ_PARSER=plan FUZZ_SEED=3 make fuzz     of one parser, with other inputs
//! FUZZ_PARSER=plan FUZZ_INPUT=812 make fuzz  one input, in this process, and what it is
//! ```
//! `FUZZ_INPUTS` and `FUZZ_SECONDS` bound how many and how long for each parser. An input that breaks
//! something is written to `target/fuzz/`; when its cause is mended it belongs into
//! `tests/fuzz/PARSER/broke/`.
//!
//! Only Linux says how much processor time and memory a process has taken.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::parsers::{PARSERS, Parser};
use super::{files, input, read, seeds};

/// The most address space of a process, as `ulimit -v` takes it, in KiB: 1 GiB.
const MOST_MEMORY: u64 = 1 << 20;
/// The longest that one input may take, of processor time.
const LONGEST: Duration = Duration::from_secs(2);
/// The longest by the clock: a process that waits for something takes no processor time.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// How often the watcher looks.
const GLANCE: Duration = Duration::from_millis(50);
/// The length of a clock tick of the system, which Linux has fixed for programs at 100 a second.
const TICK: Duration = Duration::from_millis(10);
/// Failures of one kind that are told.
const MOST_TOLD: usize = 3;
/// Failures of one parser after which it is given up.
const MOST_FAILURES: usize = 200;

/// The value of the environment variable `name`.
fn told<T: FromStr>(name: &str) -> Option<T> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is {text}, which cannot be read")))
}

/// A parser under way: how many inputs, how they ended.
#[derive(Default)]
struct Tally {
    inputs: u64,
    read: u64,
    most_memory: u64,
    /// By what happened, the inputs.
    failures: BTreeMap<String, Vec<u64>>,
}

impl Tally {
    fn failed(&self) -> usize {
        self.failures.values().map(Vec::len).sum()
    }
}

#[test]
#[ignore = "takes as long as it is given: make fuzz"]
fn watched() {
    let parsers = chosen();
    let seed = told("FUZZ_SEED").unwrap_or(1);
    if let Some(number) = told("FUZZ_INPUT") {
        return parsers.into_iter().for_each(|parser| show(parser, seed, number));
    }
    let inputs = told("FUZZ_INPUTS").unwrap_or(1_000_000);
    let first = told("FUZZ_FROM").unwrap_or(0);
    let seconds = told("FUZZ_SECONDS").map(Duration::from_secs);
    let jobs = told("FUZZ_JOBS")
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    println!("seed {seed}, inputs from {first} on");
    println!(
        "{:<14} {:>9} {:>9} {:>8} {:>6} {:>9}",
        "parser", "inputs", "read", "seconds", "broke", "peak MiB"
    );
    let waiting = Mutex::new(parsers.into_iter());
    let is_broken = Mutex::new(false);
    std::thread::scope(|scope| {
        let work = || loop {
            let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(parser) = next else { break };
            let begin = Instant::now();
            let tally = watch(parser, seed, first..first.saturating_add(inputs), seconds);
            let mut is_broken = is_broken.lock().unwrap_or_else(PoisonError::into_inner);
            *is_broken |= tally.failed() > 0;
            report(parser, seed, &tally, begin.elapsed());
        };
        (0..jobs.max(1)).for_each(|_| drop(scope.spawn(work)));
    });
    assert!(
        !*is_broken.lock().unwrap_or_else(PoisonError::into_inner),
        "some inputs broke something"
    );
}

fn chosen() -> Vec<&'static Parser> {
    let Some(name) = told::<String>("FUZZ_PARSER") else { return PARSERS.iter().collect() };
    let found: Vec<_> = PARSERS.iter().filter(|parser| parser.name == name).collect();
    let names: Vec<_> = PARSERS.iter().map(|parser| parser.name).collect();
    assert!(!found.is_empty(), "there is no parser {name}: {}", names.join(", "));
    found
}

/// Reads one input in this process, and prints it and what became of it.
fn show(parser: &Parser, seed: u64, number: u64) {
    let bytes = input(parser, &seeds::of(parser), seed, number);
    println!(
        "{}\n--- input {number} of {} under seed {seed}, {} bytes",
        String::from_utf8_lossy(&bytes),
        parser.name,
        bytes.len()
    );
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let begin = Instant::now();
    let end = (parser.read)(&super::Given { bytes: &bytes, folder: folder.path() });
    println!("--- after {:.0?}: {end:?}", begin.elapsed());
}

fn report(parser: &Parser, seed: u64, tally: &Tally, took: Duration) {
    println!(
        "{:<14} {:>9} {:>9} {:>8.1} {:>6} {:>9}",
        parser.name,
        tally.inputs,
        tally.read,
        took.as_secs_f64(),
        tally.failed(),
        tally.most_memory >> 20
    );
    for (what, numbers) in &tally.failures {
        println!("    {} times: {what}", numbers.len());
        for number in numbers.iter().take(MOST_TOLD) {
            let file = keep(parser, seed, *number);
            println!(
                "        FUZZ_PARSER={} FUZZ_SEED={seed} FUZZ_INPUT={number}, in {}",
                parser.name,
                file.display()
            );
        }
    }
}

/// Writes an input to where it can be looked at.
fn keep(parser: &Parser, seed: u64, number: u64) -> PathBuf {
    let folder = files::root().join("target/fuzz");
    let file = folder.join(format!("{}-{seed}-{number}", parser.name));
    let bytes = input(parser, &seeds::of(parser), seed, number);
    let written = fs::create_dir_all(&folder).and_then(|()| fs::write(&file, bytes));
    written.expect("target/ can be written to");
    file
}

/// Lets processes read the inputs `numbers`, one process after the other: each begins behind the
/// input that ended the one before.
fn watch(
    parser: &Parser,
    seed: u64,
    numbers: std::ops::Range<u64>,
    limit: Option<Duration>,
) -> Tally {
    let mut tally = Tally::default();
    let begin = Instant::now();
    let mut next = numbers.start;
    while next < numbers.end && tally.failed() < MOST_FAILURES {
        let left = limit.map(|limit| limit.saturating_sub(begin.elapsed()));
        if left.is_some_and(|left| left.is_zero()) {
            break;
        }
        let worker = Worker::start(parser, seed, next..numbers.end, left, folder());
        next = worker.attend(next, &mut tally);
    }
    tally
}

/// A folder for inputs: in memory where there is one, for each is written to a file.
fn folder() -> TempDir {
    let in_memory = tempfile::tempdir_in("/dev/shm").ok();
    in_memory.unwrap_or_else(|| tempfile::tempdir().expect("there is room for a folder"))
}

/// A process that reads inputs.
struct Worker {
    child: Child,
    progress: File,
    folder: TempDir,
}

/// The file in which a process reports its progress: the input it is at, and how many it has read,
/// whole.
const PROGRESS: &str = "progress";
/// Panics of a process: input and message, a line each.
const PANICS: &str = "panics";

impl Worker {
    fn start(
        parser: &Parser,
        seed: u64,
        numbers: std::ops::Range<u64>,
        limit: Option<Duration>,
        folder: TempDir,
    ) -> Self {
        let progress = folder.path().join(PROGRESS);
        fs::write(&progress, [0; 16]).expect("the folder is there to be written to");
        let program = std::env::current_exe().expect("a test knows its program");
        let seconds = limit.map_or(u64::MAX, |limit| limit.as_secs().max(1));
        let child = Command::new("sh")
            .arg("-c")
            .arg(format!("ulimit -c 0; ulimit -v {MOST_MEMORY}; exec \"$0\" \"$@\""))
            .arg(program)
            .args(["--exact", "fuzz::watch::work", "--ignored", "--nocapture"])
            .env("FUZZ_WORK", folder.path())
            .env("FUZZ_PARSER", parser.name)
            .env("FUZZ_SEED", seed.to_string())
            .env("FUZZ_FROM", numbers.start.to_string())
            .env("FUZZ_INPUTS", (numbers.end - numbers.start).to_string())
            .env("FUZZ_SECONDS", seconds.to_string())
            // As the main thread of a program has.
            .env("RUST_MIN_STACK", (8 << 20).to_string())
            .env("RAYON_NUM_THREADS", "1")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("there is a shell");
        let progress = File::open(&progress).expect("it was just written");
        Self { child, progress, folder }
    }

    /// Looks at the process until it ends or has to be ended; which input comes next.
    fn attend(mut self, first: u64, tally: &mut Tally) -> u64 {
        let (mut at, mut since, mut used) = (first, Instant::now(), Duration::ZERO);
        let end = loop {
            std::thread::sleep(GLANCE);
            tally.most_memory = tally.most_memory.max(memory(self.child.id()).unwrap_or(0));
            if let Some(status) = self.child.try_wait().expect("a child can be waited for") {
                break End::Left(status);
            }
            let (now, _) = self.progress();
            let time = processor_time(self.child.id()).unwrap_or_default();
            if now != at {
                (at, since, used) = (now, Instant::now(), time);
            } else if time.saturating_sub(used) > LONGEST
                || (since.elapsed() > LONGEST_WAIT && sleeps(self.child.id()))
            {
                self.child.kill().and_then(|()| self.child.wait()).expect("a child can be ended");
                break End::Hung;
            }
        };
        let (at, read) = self.progress();
        self.take_in(&end, at.max(first), read, first, tally)
    }

    fn take_in(&self, end: &End, at: u64, read: u64, first: u64, tally: &mut Tally) -> u64 {
        let panics = fs::read_to_string(self.folder.path().join(PANICS)).unwrap_or_default();
        for line in panics.lines() {
            let (number, message) = line.split_once(' ').unwrap_or(("0", line));
            // Those at one place are one: what they say differs in its numbers.
            let place = message.split(": ").next().unwrap_or(message);
            tally.failures.entry(place.to_owned()).or_default().push(number.parse().unwrap_or(0));
        }
        let what = match end {
            End::Left(status) if status.success() => None,
            End::Left(status) => Some(format!("the process ended: {status}")),
            End::Hung => Some(format!("no end after {LONGEST:.0?} of processor time")),
        };
        // A process that ends well says behind which input it stopped.
        let next = if what.is_some() { at + 1 } else { at };
        if let Some(what) = what {
            tally.failures.entry(what).or_default().push(at);
        }
        tally.inputs += next - first;
        tally.read += read;
        next
    }

    /// The input the process is at, and how many it has read whole.
    fn progress(&self) -> (u64, u64) {
        let mut bytes = [0; 16];
        self.progress.read_exact_at(&mut bytes, 0).expect("it has as many bytes");
        let number =
            |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap_or_default());
        (number(0), number(8))
    }
}

/// How a process ended.
enum End {
    Left(ExitStatus),
    Hung,
}

/// The most memory a process has had, in bytes.
fn memory(process: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib << 10)
}

/// The fields that the system gives of a process, behind its name, which stands in brackets and may
/// have blanks.
fn fields(process: u32) -> Option<Vec<String>> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    Some(stat.rsplit_once(')')?.1.split_whitespace().map(str::to_owned).collect())
}

/// The processor time a process has taken.
fn processor_time(process: u32) -> Option<Duration> {
    let fields = fields(process)?;
    let ticks = |at: usize| fields.get(at)?.parse::<u32>().ok();
    Some(TICK * (ticks(11)? + ticks(12)?))
}

/// Whether a process waits for something, rather than for a processor.
fn sleeps(process: u32) -> bool {
    fields(process).is_some_and(|fields| fields.first().is_some_and(|state| state != "R"))
}

/// The work of a process that is watched.
#[test]
#[ignore = "only for processes that are watched"]
fn work() {
    let Some(folder) = told::<PathBuf>("FUZZ_WORK") else { return };
    let parser = chosen()[0];
    let [seed, first, inputs, seconds] = ["FUZZ_SEED", "FUZZ_FROM", "FUZZ_INPUTS", "FUZZ_SECONDS"]
        .map(|name| told::<u64>(name).unwrap_or_default());
    let progress = OpenOptions::new().write(true).open(folder.join(PROGRESS)).expect("it is there");
    let mut panics = File::create(folder.join(PANICS)).expect("the folder can be written to");
    tell_where_it_panics();
    let inside = folder.join("inside");
    fs::create_dir(&inside).expect("the folder can be written to");
    let seeds = seeds::of(parser);
    let (begin, mut taken) = (Instant::now(), 0u64);
    let say = |at: u64, taken: u64| {
        let bytes = [at.to_le_bytes(), taken.to_le_bytes()].concat();
        progress.write_all_at(&bytes, 0).expect("the folder can be written to");
    };
    let mut number = first;
    while number < first + inputs && begin.elapsed().as_secs() < seconds {
        say(number, taken);
        let bytes = input(parser, &seeds, seed, number);
        match read(parser, &bytes, &inside) {
            Ok(answer) => taken += u64::from(answer.is_ok()),
            Err(message) => {
                let place = PLACE.lock().unwrap_or_else(PoisonError::into_inner).clone();
                let message: String =
                    message.lines().next().unwrap_or("").chars().take(120).collect();
                writeln!(panics, "{number} panic at {place}: {message}")
                    .expect("it can be written to");
            }
        }
        number += 1;
    }
    say(number, taken);
}

/// Where the last panic was.
static PLACE: Mutex<String> = Mutex::new(String::new());

fn tell_where_it_panics() {
    std::panic::set_hook(Box::new(|info| {
        let place = info.location().map(|at| {
            let file = Path::new(at.file());
            let last = file.components().rev().take(3).collect::<Vec<_>>();
            let last: PathBuf = last.into_iter().rev().collect();
            format!("{}:{}", last.display(), at.line())
        });
        *PLACE.lock().unwrap_or_else(PoisonError::into_inner) = place.unwrap_or_default();
    }));
}
