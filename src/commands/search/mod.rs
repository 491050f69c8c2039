//! `debubble search`: the best order of passes that is found, and how far any order can be from it.

mod front;
mod report;
#[cfg_attr(not(feature = "exact"), path = "no_solver.rs")]
mod solver;

use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use pipeline::{Limit, Nanos, Placement};
use search::{Effort, Objective};
use sim::Replay;

use self::report::Row;
use super::{Asked, Notes, OUTPUT, note, print_json};
use draw::gantt;
use crate::error::Error;
use crate::files;
use crate::help;
use crate::interrupt;
use question::keys::Keys;
use answer::outcome::named;
use crate::progress;
use question::case;
use question::case::{Rule, SEARCHED, Searched};
use question::scenario::{Scenario, Setting};

const EXAMPLES: &str = "\
Examples:
  The best schedule for a question, beside the published heuristic and what no schedule undercuts:
    debubble search --stages 8 --microbatches 32 --memory-limit 2p \\
      --forward 18.513ms --backward-input 18.086ms --backward-weight 9.331ms --hop 626us \\
      --hidden 2304 --heads 24 --seq 1024 --certificate best.toml
  In a V, for a minute:
    debubble search scenarios/paper/table8.toml --chunks 2 --memory-limit 1p --time-limit 60s
  How much bubble less memory costs:
    debubble search --stages 8 --microbatches 32 --memory-limits 0.5p,0.75p,1p,1.5p,2p \\
      --forward 18.513ms --backward-input 18.086ms --backward-weight 9.331ms --hop 626us \\
      --hidden 2304 --heads 24 --seq 1024 --pareto front.svg --csv front.csv

  A small pipeline, proved:
    debubble search --stages 4 --microbatches 6 --memory-limit 1p --exact --time-limit 30s \\
      --forward 10ms --backward-input 11ms --backward-weight 7ms --hop 1ms

The search is never worse than any published schedule that fits. It ends when its cost is the bound:
then no schedule is better. The same question, effort and seed give the same schedule on any number
of threads; under --time-limit only where the clock did not cut the search short, and a note says
where it did. The order keeps each chunk's passes of a kind in microbatch order, which costs nothing.
Ctrl-C ends the search with the best so far; a second one ends the program.

--exact is for about a hundred passes, and needs a build with the solver. What it proves has the argument
`solver`. Nobody can check that without a solver: certificates hold the bound of the search.";

/// Search the best schedule under a memory limit, and say how far any other can be from it
#[derive(Args)]
#[command(after_long_help = help::flow(EXAMPLES))]
pub struct Search {
    #[command(flatten)]
    asked: Asked,
    /// Where the chunks lie [default: looped; v for two chunks per stage]
    #[arg(long, value_enum, help_heading = SEARCH)]
    placement: Option<Lie>,
    /// Memory limits to search one after the other: bubble against memory. What fits one fits the
    /// larger ones
    #[arg(long, value_name = "LIMIT,..", value_delimiter = ',', help_heading = SEARCH)]
    #[arg(conflicts_with = "memory_limit", allow_hyphen_values = true)]
    memory_limits: Vec<Limit>,
    /// What is to be small
    #[arg(long, value_enum, default_value_t = Small::Span, help_heading = SEARCH)]
    objective: Small,
    /// How long to search, in multiples of the default, which takes seconds [default: 1; under
    /// --time-limit without --exact as long as that lasts]
    #[arg(long, value_name = "TIMES", help_heading = SEARCH, allow_negative_numbers = true)]
    #[arg(value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    effort: Option<u64>,
    /// Then ask a constraint solver, for --time-limit at most [default: 30s], for a better order,
    /// and for a proof that there is none
    #[arg(long, help_heading = SEARCH)]
    exact: bool,
    /// Stop each search after that time, with the best so far
    #[arg(long, value_name = "TIME", help_heading = SEARCH, allow_hyphen_values = true)]
    time_limit: Option<Nanos>,
    /// Write what a third party can check with `debubble verify`; one search only
    #[arg(long, help_heading = OUTPUT, value_name = "FILE.toml")]
    #[arg(value_parser = files::output)]
    certificate: Option<PathBuf>,
    /// Write the schedule in the text form; one search only
    #[arg(long, help_heading = OUTPUT, value_name = "FILE.txt")]
    #[arg(value_parser = files::output)]
    export: Option<PathBuf>,
    /// Write a picture of the timelines, on one time axis
    #[arg(long, help_heading = OUTPUT, value_name = "FILE.svg")]
    #[arg(value_parser = files::output)]
    svg: Option<PathBuf>,
    /// Write a picture of the bubble against peak memory
    #[arg(long, help_heading = OUTPUT, value_name = "FILE.svg")]
    #[arg(value_parser = files::output)]
    pareto: Option<PathBuf>,
    /// Write the table as CSV
    #[arg(long, help_heading = OUTPUT, value_name = "FILE.csv")]
    #[arg(value_parser = files::output)]
    csv: Option<PathBuf>,
    /// Print one JSON object instead of a table
    #[arg(long, help_heading = OUTPUT)]
    json: bool,
}

/// Heading in the help of what concerns the search.
const SEARCH: &str = "The search";

/// How long the solver takes where nothing is said of it.
const SOLVER_TIME: Duration = Duration::from_secs(30);

/// Where chunks lie.
#[derive(Clone, Copy, ValueEnum)]
enum Lie {
    /// Chunk c on stage c mod p
    Looped,
    /// Down the stages and up again
    V,
}

/// What is to be small.
#[derive(Clone, Copy, ValueEnum)]
enum Small {
    /// The longest time from the first to the last pass of a stage
    Span,
    /// The end of the last pass
    Makespan,
}

impl Search {
    /// Answers on `out`.
    pub fn run(self, out: &mut dyn Write) -> Result<(), Error> {
        if self.exact {
            solver::check()?;
        }
        let scenario = self.asked.read()?;
        for setting in &scenario.settings {
            case::check_known(&scenario, setting)?;
        }
        let settings = self.settings(&scenario);
        let single = [("--certificate", &self.certificate), ("--export", &self.export)];
        let asked = single.into_iter().find(|(_, path)| path.is_some());
        if let Some((flag, _)) = asked.filter(|_| settings.len() != 1) {
            let message = format!("{flag} takes one search, but there are {}", settings.len());
            return Err(Error::question(message));
        }
        self.note_ignored(&scenario);
        interrupt::listen();
        self.foretell(&settings);
        let mut rows: Vec<Row> = Vec::new();
        for setting in &settings {
            let mut searched = self.search(&scenario, setting)?;
            let proved = self.prove(&mut searched)?;
            rows.push(Row::of(searched, proved, setting)?);
        }
        if interrupt::cut_short() {
            note("interrupted: the best so far, where a search had begun, else the best published");
        }
        report::keep_smaller(&mut rows);
        front::mark(&mut rows);
        self.write_files(&rows)?;
        if let Some(path) = &self.csv {
            files::write(path, report::csv(&rows)?)?;
        }
        if let Some(path) = &self.pareto {
            files::write(path, front::svg(scenario.title.as_deref(), &rows)?)?;
        }
        match self.json {
            true => print_json(out, &report::Json::of(&rows)),
            false => report::print(out, &rows),
        }
    }

    /// The settings, each under every limit that is asked for, the smaller ones first.
    fn settings(&self, scenario: &Scenario) -> Vec<Setting> {
        let mut settings = scenario.settings.clone();
        if !self.memory_limits.is_empty() {
            let under = |setting: &Setting| {
                let one = |limit: &Limit| {
                    let mut setting = setting.clone();
                    let memory_limit = Some(vec![*limit]);
                    setting.overrule(Keys { memory_limit, ..Keys::default() });
                    setting
                };
                self.memory_limits.iter().map(one).collect::<Vec<_>>()
            };
            settings = settings.iter().flat_map(under).collect();
        }
        settings
    }

    /// Says before the search if it takes minutes.
    fn foretell(&self, settings: &[Setting]) {
        // As measured on one core; where the passes are many, more.
        const PASSES_PER_SECOND: u64 = 30_000;
        let (effort, searched) = (self.effort.unwrap_or(1), settings.len());
        let what = format!("{searched} searches of {effort} times the default effort");
        match self.time_limit {
            Some(limit) => {
                let all = u128::from(limit.0) * searched as u128;
                progress::foretell(all, 1_000_000_000, &format!("{searched} searches of {limit}"));
            }
            None => {
                let rule = Rule::Searched(self.placement());
                let passes = |setting: &Setting| 3 * u128::from(case::forwards(setting, &rule));
                let all: u128 = settings.iter().map(passes).sum();
                progress::foretell(all * u128::from(effort), PASSES_PER_SECOND, &what);
            }
        }
    }

    fn note_ignored(&self, scenario: &Scenario) {
        let mut notes = Notes::default();
        for setting in &scenario.settings {
            notes.of_settings.extend(case::assumed(setting));
            for text in case::ignored_by_search(setting, self.placement()) {
                notes.add(&text, SEARCHED);
            }
        }
        notes.print();
    }

    fn placement(&self) -> Option<Placement> {
        self.placement.map(|lie| match lie {
            Lie::Looped => Placement::Looped,
            Lie::V => Placement::Vee,
        })
    }

    fn search(&self, scenario: &Scenario, setting: &Setting) -> Result<Searched, Error> {
        let begin = Instant::now();
        let limit = self.time_limit();
        let late = || limit.is_some_and(|limit| begin.elapsed() >= limit);
        let stop = || interrupt::asked() || late();
        let times = match (self.effort, limit) {
            (None, Some(_)) if !self.exact => None,
            (told, _) => Some(told.unwrap_or(1)),
        };
        let search = case::Search {
            placement: self.placement(),
            objective: match self.objective {
                Small::Span => Objective::Span,
                Small::Makespan => Objective::Makespan,
            },
            effort: Effort { times, seed: setting.keys.seed.unwrap_or(0) },
            stop: &stop,
        };
        let bar = progress::bar(1, "");
        let searched = case::search(scenario, setting, &search, |now| {
            if let Some(all) = now.of {
                bar.set_length(all);
            }
            bar.set_position(now.steps);
            let [best, bound] = [now.best, now.bound].map(crate::format::time);
            bar.set_message(format!("passes, best {best}, bound {bound}"));
        })?;
        bar.finish_and_clear();
        if searched.found.interrupted && times.is_some() && !interrupt::cut_short() {
            note("the clock cut the search short: another run may find another schedule");
        }
        Ok(searched)
    }

    fn time_limit(&self) -> Option<Duration> {
        self.time_limit.map(|limit| Duration::from_nanos(limit.0))
    }

    /// Asks the solver if that is wanted; gives its bound where that is better.
    fn prove(&self, searched: &mut Searched) -> Result<Option<Nanos>, Error> {
        if !self.exact {
            return Ok(None);
        }
        let time = self.time_limit().unwrap_or(SOLVER_TIME);
        let proved = solver::prove(searched, time, &interrupt::asked)?;
        if proved.is_some() && self.certificate.is_some() {
            note(
                "nobody can check what the solver proves: the certificate holds the bound of the \
                 search, which is lower",
            );
        }
        Ok(proved)
    }

    /// What is written of the searches.
    fn write_files(&self, rows: &[Row]) -> Result<(), Error> {
        if let (Some(path), [row]) = (&self.export, rows) {
            files::write(path, row.searched.found.schedule.to_string())?;
        }
        if let (Some(path), [row]) = (&self.certificate, rows) {
            files::write(path, report::certificate(&row.searched)?.to_string())?;
        }
        let Some(path) = &self.svg else { return Ok(()) };
        let titles: Vec<String> = rows.iter().map(Row::title).collect();
        let timelines = rows
            .iter()
            .map(|row| {
                let case = &row.searched.case;
                let timeline = Replay::new().timeline(&case.schedule, case.problem.costs());
                timeline.map_err(|fault| named(case, &fault))
            })
            .collect::<Result<Vec<_>, _>>()?;
        let charts = titles.iter().zip(&timelines);
        let charts: Vec<_> = charts
            .map(|(title, timeline)| gantt::Chart { title, timeline, row: "stage", copies: &[] })
            .collect();
        files::write(path, gantt::svg(&charts)?)
    }
}
