//! How long the passes of each stage took, by the timers of Megatron-LM in a log, which `--timing-log-level 2
//! --timing-log-option all` prints rank by rank.
//!
//! Format, read in 2026: `timers.py`, `pipeline_parallel/schedules.py` and `training_log`, from 23.04 to main: behind
//! the line of an iteration the names of timers, under each the mean time of every rank for an iteration.
//! `forward-compute` and `backward-compute` run from behind the receives of a pass to before its sends.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use pipeline::{MAX_CHUNKS, Placement, Shape};
use question::diagnostic::Diagnostic;

use super::arguments::dumped;
use super::measured::line::{Event, event, number, plain};
use super::printed::{ARGUMENTS, process};

/// The heads of the timers of all ranks, and of the least and largest of them.
const HEADS: [&str; 2] = ["times across ranks (ms)", "time across ranks (ms)"];
/// The timers of F and of the whole backward.
const TIMERS: [&str; 2] = ["forward-compute", "backward-compute"];
/// The most ranks of a run.
const MOST_RANKS: u64 = 1 << 20;
/// The most arguments of a run.
const MOST_ARGUMENTS: usize = 10_000;
/// The longest time of an iteration, in milliseconds.
const LONGEST: f64 = 1e9;
/// What prints the timers.
const TIMED: &str = "train a few iterations with --timing-log-level 2 --timing-log-option all";
/// Arguments under which timers also hold what runs beside passes, and whether only replicas have that.
const BESIDE: [(&str, bool, &str); 3] = [
    ("overlap_p2p_comm", false, "the wait for messages"),
    ("overlap_grad_reduce", true, "the exchange of gradients"),
    ("overlap_param_gather", true, "the gathering of parameters"),
];

/// How long passes of each stage took.
#[derive(Debug)]
pub struct StageTimes {
    /// Stages, chunks of each, and microbatches of the last iteration.
    pub shape: Shape,
    /// Placement of chunks.
    pub placement: Placement,
    /// By stage, F and the whole backward of a chunk for a microbatch, once for each time that timers were printed,
    /// in nanoseconds.
    pub passes: Vec<[Vec<u64>; 2]>,
    /// What the times hold and what is not known, a sentence each.
    pub notes: Vec<String>,
}

/// Whether `content` is a log of a training, rather than a timeline.
#[must_use]
pub fn is_log(content: &[u8]) -> bool {
    let is_json = content.trim_ascii_start().starts_with(b"{");
    let has = |text: &str| [HEADS[0], HEADS[1], ARGUMENTS[0]].iter().any(|of| text.contains(of));
    !is_json && has(&String::from_utf8_lossy(content))
}

/// The times in the log `text` of the file at `path`: of several runs in it the last one with timers.
pub fn of_log(path: &Path, text: &str) -> Result<StageTimes, Diagnostic> {
    let mut reader = Reader { path, text, run: Run::default(), known: None };
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        reader.take(&plain(line.trim_end()), at..at + line.trim_end().len())?;
        at += line.len();
    }
    // A log may end within its last timers.
    let cut = reader.close().err();
    let Reader { run, known, .. } = reader;
    let run = if run.passes.is_empty() { known.unwrap_or(run) } else { run };
    run.times(path, text, cut)
}

/// A log that is read line by line.
struct Reader<'a> {
    path: &'a Path,
    text: &'a str,
    run: Run,
    /// The last run before with times.
    known: Option<Run>,
}

/// A run, since it printed its arguments.
#[derive(Default)]
struct Run {
    place: Range<usize>,
    arguments: BTreeMap<String, String>,
    layout: Option<Layout>,
    /// The samples of the last iteration's line.
    batch: Option<u64>,
    open: Option<Timers>,
    /// How often timers were printed, of which the first are of the warm-up.
    printed: usize,
    microbatches: u64,
    passes: Vec<[Vec<u64>; 2]>,
    /// A place with timers that name no ranks, or no passes.
    unusable: Option<Range<usize>>,
}

/// The timers behind an iteration.
struct Timers {
    place: Range<usize>,
    /// Which of [`TIMERS`] is being read.
    which: Option<usize>,
    /// By rank, in milliseconds.
    times: [BTreeMap<u64, f64>; 2],
}

/// Which rank is which stage, and how much each does.
#[derive(Clone, Copy)]
struct Layout {
    stages: u64,
    chunks: u64,
    world: u64,
    /// Ranks of a stage next to each other, and after how many the stages begin again.
    block: u64,
    /// Samples of a microbatch, over all replicas.
    samples: u64,
    /// Samples of a step.
    batch: u64,
}

impl Reader<'_> {
    fn wrong(&self, place: &Range<usize>, why: impl Into<String>) -> Diagnostic {
        Diagnostic::at(self.path, self.text, Some(place.clone()), why.into())
    }

    /// Takes the next line, at `place` in the text.
    fn take(&mut self, line: &str, place: Range<usize>) -> Result<(), Diagnostic> {
        if line.contains(ARGUMENTS[0]) {
            self.close()?;
            let run = std::mem::replace(&mut self.run, Run { place, ..Run::default() });
            self.known = Some(run).filter(|run| !run.passes.is_empty()).or(self.known.take());
        } else if HEADS.iter().any(|head| line.contains(head)) {
            self.close()?;
            let open = Timers { place: place.clone(), which: None, times: Default::default() };
            self.run.open = line.contains(HEADS[0]).then_some(open);
            self.run.unusable = Some(place).filter(|_| self.run.passes.is_empty());
        } else if line.contains("elapsed")
            && let Some(Event::Step(step)) = event(line)
        {
            self.close()?;
            self.run.batch = step.batch;
        } else if self.run.open.is_some() {
            self.timer(process(line).1.trim(), &place)?;
        } else if self.run.arguments.len() < MOST_ARGUMENTS
            && let Some((name, value)) = dumped(line)
        {
            self.run.arguments.insert(name.to_owned(), value.to_owned());
        }
        Ok(())
    }

    /// Takes a line of timers: a name, or the time of a rank.
    fn timer(&mut self, line: &str, place: &Range<usize>) -> Result<(), Diagnostic> {
        let Some(open) = &mut self.run.open else { return Ok(()) };
        let Some((rank, time)) = line.strip_prefix("rank ").and_then(|of| of.split_once(':'))
        else {
            let name = line.strip_suffix(':').filter(|name| !name.contains(' '));
            if let Some(name) = name {
                open.which = TIMERS.iter().position(|timer| *timer == name);
            }
            return Ok(());
        };
        let Some(which) = open.which else { return Ok(()) };
        let read = rank.trim().parse().ok().filter(|rank| *rank < MOST_RANKS);
        match read.zip(number(time).filter(|time| *time < LONGEST)) {
            Some((rank, time)) => drop(open.times[which].insert(rank, time)),
            None => return Err(self.wrong(place, "this is not a time of a rank").with_help(TIMED)),
        }
        Ok(())
    }

    /// Ends the timers that are being read.
    fn close(&mut self) -> Result<(), Diagnostic> {
        let Some(open) = self.run.open.take().filter(|open| !open.times[0].is_empty()) else {
            return Ok(());
        };
        let layout = match self.run.layout {
            Some(layout) => layout,
            None => Layout::of(&self.run.arguments).map_err(|why| {
                self.wrong(&self.run.place, format!("the arguments of the run: {why}")).with_help(
                    "give the log from its first line on, with the arguments that Megatron-LM prints",
                )
            })?,
        };
        let means = layout.microbatches(self.run.batch).and_then(|microbatches| {
            Ok((
                layout.means(&open.times, microbatches.saturating_mul(layout.chunks))?,
                microbatches,
            ))
        });
        let (means, microbatches) =
            means.map_err(|why| self.wrong(&open.place, why).with_help(TIMED))?;
        let run = &mut self.run;
        run.passes.resize_with(means.len(), Default::default);
        run.printed += 1;
        // The first are of the warm-up.
        for (passes, means) in run.passes.iter_mut().zip(means).filter(|_| run.printed > 1) {
            passes.iter_mut().zip(means).for_each(|(all, mean)| all.push(mean));
        }
        (run.microbatches, run.layout) = (microbatches, Some(layout));
        Ok(())
    }
}

impl Run {
    /// The times; `cut` is why the last timers of the log could not be read.
    fn times(
        self,
        path: &Path,
        text: &str,
        cut: Option<Diagnostic>,
    ) -> Result<StageTimes, Diagnostic> {
        let wrong = |place: Range<usize>, why: &str| {
            Diagnostic::at(path, text, Some(place), why).with_help(TIMED)
        };
        let Some(layout) = self.layout.filter(|_| self.printed > 1) else {
            let why = match (self.printed, &self.unusable) {
                (1, _) => "only once are there timers of passes, of the warm-up of the run",
                (_, Some(_)) => {
                    "these timers do not say how long the passes of each rank took: they are of all ranks together, or \
                     have no forward-compute"
                }
                (_, None) => "the run printed no timers",
            };
            return Err(cut.unwrap_or_else(|| wrong(self.unusable.unwrap_or(self.place), why)));
        };
        let shape = Shape::new(layout.stages, layout.chunks, self.microbatches);
        let shape = shape.map_err(|fault| wrong(self.place.clone(), &fault.to_string()))?;
        let notes = notes(&self.arguments, &layout);
        Ok(StageTimes { shape, placement: Placement::Looped, passes: self.passes, notes })
    }
}

impl Layout {
    /// That of a run with these arguments, or why it is not known.
    fn of(arguments: &BTreeMap<String, String>) -> Result<Self, String> {
        let get = |name: &str| match arguments.get(name).map(String::as_str) {
            None | Some("None") => Ok(None),
            Some(text) => match text.parse::<u32>() {
                Ok(own) if own > 0 => Ok(Some(u64::from(own))),
                _ => Err(format!("{name} is not a number from 1 on")),
            },
        };
        let need = |name: &str| get(name)?.ok_or_else(|| format!("{name} is missing"));
        if is_on(arguments, "overlap_moe_expert_parallel_comm") {
            return Err("with overlap_moe_expert_parallel_comm timers are of pairs".to_owned());
        }
        let (stages, world) = (need("pipeline_model_parallel_size")?, need("world_size")?);
        let chunks = get("virtual_pipeline_model_parallel_size")?.unwrap_or(1);
        let replicas = need("data_parallel_size")? * get("gtp_weight_remat_size")?.unwrap_or(1);
        let shard = get("tensor_model_parallel_size")?.unwrap_or(1)
            * get("context_parallel_size")?.unwrap_or(1);
        let block = if is_on(arguments, "use_tp_pp_dp_mapping") { shard } else { world / stages };
        let is_whole = world <= MOST_RANKS
            && block > 0
            && world.is_multiple_of(block.saturating_mul(stages))
            && stages.saturating_mul(chunks) <= MAX_CHUNKS;
        if !is_whole {
            return Err(format!("{stages} stages of {chunks} chunks on {world} ranks cannot be"));
        }
        let samples = need("micro_batch_size")?.saturating_mul(replicas);
        Ok(Self { stages, chunks, world, block, samples, batch: need("global_batch_size")? })
    }

    /// The microbatches of an iteration of `batch` samples, by default those of the arguments.
    fn microbatches(&self, batch: Option<u64>) -> Result<u64, String> {
        let (batch, samples) = (batch.unwrap_or(self.batch), self.samples);
        let is_whole = batch > 0 && batch.is_multiple_of(samples);
        let why = || {
            format!(
                "a batch of {batch} is not a number of microbatches of {samples} in all replicas"
            )
        };
        is_whole.then(|| batch / samples).ok_or_else(why)
    }

    /// By stage, the mean over its ranks of `times` for one of `passes`, in nanoseconds.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Bounded.
    fn means(&self, times: &[BTreeMap<u64, f64>; 2], passes: u64) -> Result<Vec<[u64; 2]>, String> {
        let stages = usize::try_from(self.stages).unwrap_or(usize::MAX);
        let mut sums = vec![[(0.0, 0.0); 2]; stages];
        for (which, of_ranks) in times.iter().enumerate() {
            for (&rank, time) in of_ranks {
                if rank >= self.world {
                    return Err(format!("rank {rank} is none of the {} of the run", self.world));
                }
                let stage = usize::try_from(rank / self.block % self.stages).unwrap_or(0);
                let (sum, count) = &mut sums[stage][which];
                (*sum, *count) = (*sum + time, *count + 1.0);
            }
        }
        for (stage, sums) in sums.iter().enumerate() {
            if let Some(which) = sums.iter().position(|(_, count)| *count == 0.0) {
                return Err(format!("{} has no time of a rank of stage {stage}", TIMERS[which]));
            }
        }
        let mean = |(sum, count): (f64, f64)| (sum / count / passes as f64 * 1e6).round() as u64;
        Ok(sums.into_iter().map(|sums| sums.map(mean)).collect())
    }
}

fn is_on(arguments: &BTreeMap<String, String>, name: &str) -> bool {
    arguments.get(name).is_some_and(|value| value == "True")
}

/// What the times hold, and what is not known.
fn notes(arguments: &BTreeMap<String, String>, layout: &Layout) -> Vec<String> {
    let mut notes = vec![
        "the timers do not know hops, memory, the time between passes, or B and W apart: give --hop and sizes of \
         activations; orders that split backwards need a recording"
            .to_owned(),
    ];
    if layout.chunks > 1 {
        notes.push(format!(
            "timers are of ranks: the {} chunks of each are taken to be alike",
            layout.chunks
        ));
    }
    let has_replicas = arguments.get("data_parallel_size").is_some_and(|count| count != "1");
    let beside = BESIDE
        .iter()
        .filter(|(name, of_replicas, _)| is_on(arguments, name) && (has_replicas || !of_replicas));
    let beside: Vec<String> = beside.map(|(name, _, what)| format!("{what} ({name})")).collect();
    if !beside.is_empty() {
        notes.push(format!(
            "times of passes may include overlapped work, since these timers end when the device is idle: {}; a run \
             without it has the passes alone",
            beside.join(", ")
        ));
    }
    notes
}
