//! The output of nccl-tests and rccl-tests: runs, each with its ranks and its table of sizes.

use std::collections::{BTreeMap, BTreeSet};

use super::collective::Collective;
use super::{Fault, MAX_POINTS, MAX_RANKS, Point, Run};

/// Beginnings of the names of element types, as tables print them.
const TYPES: [&str; 9] = ["int", "uint", "half", "float", "double", "bfloat", "bf16", "fp8", "f8"];
/// Columns of one way, out of place or in place.
const WAY: usize = 4;
/// Bandwidths whose ratio tells collectives apart, GB/s: of less, two decimals say too little.
const TELLING: f64 = 1.0;

/// A run that is being read.
#[derive(Default)]
struct Open {
    line: usize,
    collective: Option<Collective>,
    /// Numbers of the ranks.
    ranks: BTreeSet<u64>,
    /// Their devices: host, index and address.
    devices: BTreeSet<(String, String, String)>,
    /// The type of device.
    device: Option<String>,
    /// Whether the table has a column `#wrong`, once its header was read.
    counts_wrong: Option<bool>,
    points: Vec<Point>,
    /// Bus bandwidth over algorithm bandwidth of the largest that was printed, and that one.
    ratio: Option<(f64, f64)>,
    reduces: bool,
}

/// Whether `text` is such an output.
pub(super) fn is_log(text: &str) -> bool {
    text.lines().any(|line| line.contains("nThread") || is_header(&words(line)) || is_rank(line))
}

fn is_rank(line: &str) -> bool {
    let words = words(line);
    words.windows(2).any(|two| two[0] == "Rank" && two[1].parse::<u64>().is_ok())
        && words.contains(&"device")
}

/// The words of `line`, without the marks of comments and of `mpirun --tag-output`.
fn words(line: &str) -> Vec<&str> {
    let line = line.rsplit("<stdout>:").next().unwrap_or(line);
    line.split_whitespace()
        .map(|word| word.trim_start_matches('#'))
        .filter(|word| !word.is_empty())
        .collect()
}

fn is_header(words: &[&str]) -> bool {
    ["size", "count", "type", "time", "busbw"].iter().all(|name| words.contains(name))
}

/// All runs of `text`.
pub(super) fn read(text: &str) -> Result<Vec<Run>, Fault> {
    let (mut runs, mut open, mut next) = (Vec::new(), Open::default(), None);
    let mut points = 0;
    for (number, line) in (1..).zip(text.lines()) {
        let words = words(line);
        // Of outputs without their first line, a run begins with its ranks or its table.
        let follows = !open.points.is_empty() && (is_rank(line) || is_header(&words));
        if words.contains(&"nThread") || follows {
            runs.extend(open.finished()?);
            open = Open { line: number, collective: next.take(), ..Open::default() };
        }
        if is_rank(line) {
            open.rank(&words, number)?;
        } else if is_header(&words) {
            open.line = if open.line == 0 { number } else { open.line };
            open.collective = open.collective.or(next.take());
            open.counts_wrong = Some(words.contains(&"wrong"));
        } else if let Some(row) = row(&words) {
            open.row(row, number)?;
            points += 1;
            if points > MAX_POINTS {
                return Err(Fault::at(number, format!("it has more than {MAX_POINTS} sizes"))
                    .cured("take fewer, such as -b 8 -e 8G -f 2"));
            }
        } else if words.contains(&"bounds") && words.contains(&"FAILED") {
            return Err(wrong(number));
        } else if !words.contains(&"concluded:") {
            let named = words.iter().find_map(|word| Collective::of_program(word));
            match named {
                Some(named)
                    if open.points.is_empty() && open.collective.is_none() && open.line > 0 =>
                {
                    open.collective = Some(named);
                }
                named => next = named.or(next),
            }
        }
    }
    runs.extend(open.finished()?);
    Ok(runs)
}

/// The words of a line of a table from its size on, if `words` are one.
fn row<'a, 'b>(words: &'b [&'a str]) -> Option<&'b [&'a str]> {
    let is_number = |word: &str| word.parse::<u64>().is_ok();
    let is_type = |word: &str| TYPES.iter().any(|name| word.starts_with(name));
    let at = words
        .windows(3)
        .position(|three| is_number(three[0]) && is_number(three[1]) && is_type(three[2]))?;
    Some(&words[at..])
}

/// The error that results were wrong.
fn wrong(line: usize) -> Fault {
    Fault::at(
        line,
        "its results were wrong (#wrong is not 0): such a network has no rates".to_owned(),
    )
    .cured("find the device or the link that corrupts data, and measure again")
}

impl Open {
    /// Adds the rank of a line.
    fn rank(&mut self, words: &[&str], line: usize) -> Result<(), Fault> {
        let place = |name: &str| words.iter().position(|word| *word == name);
        let number = place("Rank").and_then(|at| words.get(at + 1)?.parse::<u64>().ok());
        let (Some(number), Some(device)) = (number, place("device")) else { return Ok(()) };
        if number >= MAX_RANKS {
            return Err(Fault::at(line, format!("rank {number}: at most {MAX_RANKS} are read")));
        }
        let host = place("on").filter(|on| on + 1 < device).map_or("", |on| words[on + 1]);
        let index = words.get(device + 1).copied().unwrap_or_default();
        let address = words.get(device + 2).copied().unwrap_or_default();
        if !self.ranks.insert(number) {
            let message =
                format!("rank {number} is there twice: each process measured itself alone");
            return Err(Fault::at(line, message)
                .cured("build the tests with MPI=1, and run one job over all nodes"));
        }
        if !self.devices.insert((host.to_owned(), index.to_owned(), address.to_owned())) {
            let message = format!("rank {number} shares its device with another rank");
            return Err(Fault::at(line, message).cured("give each rank a device of its own"));
        }
        self.device.get_or_insert_with(|| words.get(device + 3..).unwrap_or_default().join(" "));
        Ok(())
    }

    /// Adds the sizes of a line of the table: size, count, type, operation and root where there are any, and time,
    /// bandwidths and errors out of place and in place.
    fn row(&mut self, words: &[&str], line: usize) -> Result<(), Fault> {
        let Some(counts_wrong) = self.counts_wrong else {
            return Err(Fault::at(line, "a line of a table without the table's header".to_owned())
                .cured("give the whole output of nccl-tests"));
        };
        let bytes: u64 = words[0].parse().unwrap_or(0);
        let mut rest = &words[3..];
        let is_word =
            |word: &&str| word.starts_with(|c: char| c.is_ascii_alphabetic()) && *word != "N/A";
        if let Some(operation) = rest.first().filter(|word| is_word(word)) {
            self.reduces |= *operation != "none";
            rest = &rest[1..];
        }
        // A root is a whole number in front of the columns of two ways.
        let has_root = rest.first().is_some_and(|word| word.parse::<i64>().is_ok());
        if has_root && rest.len() % WAY == 1 {
            rest = &rest[1..];
        }
        let unreadable = || {
            Fault::at(line, "this line of the table is broken".to_owned())
                .cured("give the output of one rank, without labels within lines")
        };
        if rest.len() < WAY {
            return Err(unreadable());
        }
        for way in rest.chunks_exact(WAY).take(2) {
            let number = |word: &str| {
                word.parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0)
            };
            let (Some(time), Some(algorithm), Some(bus)) =
                (number(way[0]), number(way[1]), number(way[2]))
            else {
                return Err(unreadable());
            };
            let is_wrong = counts_wrong && !matches!(way[3], "N/A" | "0");
            if is_wrong || way[3].ends_with('*') {
                return Err(wrong(line));
            }
            if bytes == 0 {
                continue;
            }
            if time == 0.0 {
                return Err(unreadable());
            }
            self.points.push(Point { bytes, seconds: time * 1e-6 });
            if algorithm >= TELLING && self.ratio.is_none_or(|(_, largest)| bus > largest) {
                self.ratio = Some((bus / algorithm, bus));
            }
        }
        Ok(())
    }

    /// The run, if it timed anything.
    fn finished(self) -> Result<Option<Run>, Fault> {
        if self.points.is_empty() {
            return Ok(None);
        }
        let fault = |message: String| Fault::at(self.line, message);
        let listed = self.ranks.len() as u64;
        let ranks = self.ranks.last().map_or(0, |last| last + 1);
        if ranks < 2 || listed < ranks {
            let message = match ranks {
                0 => "this run does not list its ranks".to_owned(),
                1 => "this run has one rank, which measures no network".to_owned(),
                _ => format!("this run lists {listed} of its {ranks} ranks"),
            };
            let cure = "give the whole output, or a CSV with columns collective, ranks, nodes, bytes and busbw";
            return Err(fault(message).cured(cure));
        }
        let mut hosts: BTreeMap<&str, u64> = BTreeMap::new();
        for (host, ..) in &self.devices {
            *hosts.entry(host).or_default() += 1;
        }
        let nodes = hosts.len() as u64;
        if hosts.values().any(|count| count * nodes != ranks) {
            let message = "its nodes have different numbers of devices".to_owned();
            return Err(fault(message).cured("measure with as many devices of each node"));
        }
        let collective = self.named(ranks)?;
        Ok(Some(Run {
            collective,
            ranks,
            nodes,
            device: self.device,
            line: self.line,
            points: self.points,
        }))
    }

    /// The collective: by its name, or by the ratio of its bandwidths.
    fn named(&self, ranks: u64) -> Result<Collective, Fault> {
        let cure = "write the program's name, such as all_gather_perf, in a line before the table";
        let ratio = self.ratio.map(|(ratio, _)| ratio);
        let Some(named) = self.collective else {
            let own = ratio.and_then(|ratio| Collective::of_ratio(ratio, ranks, self.reduces));
            let message = "the log does not name the collective of this run";
            return own.ok_or_else(|| Fault::at(self.line, message.to_owned()).cured(cure));
        };
        // Of old versions of nccl-tests both bandwidths of an all-gather and a reduce-scatter are equal.
        let old = matches!(named, Collective::AllGather | Collective::ReduceScatter);
        let fits = |ratio: f64| {
            named.prints(ratio, ranks) || old && Collective::SendRecv.prints(ratio, ranks)
        };
        if ratio.is_some_and(|ratio| named != Collective::Other && !fits(ratio)) {
            let message = format!("the bandwidths of this run are not those of {}", named.name());
            return Err(Fault::at(self.line, message).cured(cure));
        }
        Ok(named)
    }
}
