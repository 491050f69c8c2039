//! `debubble simulate`: schedules side by side.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use pipeline::{Limits, Metrics, Timeline};
use serde::Serialize;
use sim::Replay;
use sim::monte_carlo::MonteCarlo;

use super::{Asked, Notes, OUTPUT, note, print_json};
use crate::draw::{gantt, terminal};
use crate::error::Error;
use crate::explain::{Explanation, pictures, report as why};
use crate::files;
use crate::format;
use crate::hardware::Hardware;
use crate::hardware::report::{HEADER, Report};
use crate::noise::report;
use crate::outcome::{self, Json, Outcome, title};
use crate::progress;
use crate::question;
use crate::scenario::Scenario;
use crate::timelines::{self, Recorded};

const EXAMPLES: &str = "\
Examples:
  A question without a file:
    debubble simulate --stages 8 --microbatches 24 --schedule 1f1b,zb-h1,zb-2p \\
      --forward 29.718ms --backward-input 29.444ms --backward-weight 19.927ms \\
      --hop 527us --hidden 4096 --heads 32 --seq 1024
  The paper's settings, for machines:
    debubble simulate scenarios/paper/table5.toml --json
  A slow last stage, drawn:
    debubble simulate --stages 4 --microbatches 8 --schedule 1f1b,zb-h1 \\
      --forward 10ms,10ms,10ms,14ms --backward-input 10ms,10ms,10ms,14ms \\
      --backward-weight 8ms --svg slow.svg
  On four nodes whose devices share NICs, with a barrier and the optimizer between steps:
    debubble simulate --stages 32 --microbatches 128 --schedule 1f1b,zb-h1,zb-h2 \\
      --forward 10.4ms --backward-input 10.2ms --backward-weight 7.7ms \\
      --hidden 6144 --heads 48 --seq 1024 --layers-per-stage 2 --microbatch-size 1 \\
      --vocabulary 51200 --cluster a100-roce --steps 3 --optimizer 20ms --exchange 5ms
  What a slow GPU, a slow link and jitter do to the step, over 1,000 draws:
    debubble simulate --stages 8 --microbatches 32 --schedule 1f1b,zb-h1,zb-2p \\
      --forward 10ms --backward-input 10ms --backward-weight 8ms --hop 500us \\
      --slowdown stage:3=1.2,link:2-3=4 --jitter pass=lognormal:0.05,hop=pareto:2.5 \\
      --stall 0.001:50ms --seed 1 --replicas 1000
  Why stages wait, and what changes would be worth:
    debubble simulate --stages 4 --microbatches 8 --schedule 1f1b,zb-h1 --hop 500us \\
      --forward 10ms,10ms,10ms,14ms --backward-input 10ms --backward-weight 8ms --explain

Orders are made for the times as given, without noise. All noise depends on the seed, the replica,
and what is done where alone: every schedule meets the same.

--explain splits the idle time of each stage: the step, less its passes, less its optimizer. The step is
the longest span of a stage; on hardware, the last step with all that lies between two. It takes away
one cause of waiting after the other from runs of the same order, and gives each the idle time that
goes with it:
  stragglers, jitter  without: every pass and transfer takes its nominal time
  synchronisation     the barrier and its exchange, post-validation with rollbacks, and what earlier
                      steps leave behind; without: each stage's step lasts from its own first pass to
                      the end of its own optimizer
  memory waits        without: devices hold anything, and nothing is offloaded
  shared links        without: every transfer takes the time it takes alone
  communication       without: what is made is there at once, and gradients are reduced at once
  unequal stages      without: all chunks take the average of F, of B and of W
  warm-up, drain      what is left
Shares are negative where a cause hides waiting. Levers are changes of the same step: 5 % slower is
passes of 1.05 times the length, a link twice as fast halves its transfers, 1 GiB more on a stage is a
new order with that limit raised alone. Under noise all of it is about replica 0.";

/// Simulate schedules side by side: step time, bubble, peak memory
#[derive(Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Simulate {
    #[command(flatten)]
    asked: Asked,
    /// Say why stages wait: idle time by cause, the critical path, and what changes would be worth
    #[arg(long, help_heading = OUTPUT)]
    explain: bool,
    /// Write a picture of what changes would be worth; explains too
    #[arg(long, help_heading = OUTPUT, value_name = "FILE.svg")]
    explain_svg: Option<PathBuf>,
    /// Print one JSON object instead of tables
    #[arg(long, help_heading = OUTPUT)]
    json: bool,
    /// Draw the timelines in the terminal
    #[arg(long, help_heading = OUTPUT, value_enum, default_value_t = Draw::Auto)]
    gantt: Draw,
    /// Write a picture of the timelines, on one time axis
    #[arg(long, help_heading = OUTPUT, value_name = "FILE.svg")]
    svg: Option<PathBuf>,
    /// Write a page that zooms into the timelines, with memory and links, for a browser
    #[arg(long, help_heading = OUTPUT, value_name = "FILE.html")]
    html: Option<PathBuf>,
    /// Write the timeline for Perfetto or chrome://tracing; one schedule and setting only
    #[arg(long, help_heading = OUTPUT, value_name = "FILE.json")]
    trace: Option<PathBuf>,
    /// Write the timeline for `debubble compare`; one schedule and setting only
    #[arg(long, help_heading = OUTPUT, value_name = "FILE.json")]
    timeline: Option<PathBuf>,
}

/// When to draw in the terminal.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Draw {
    /// Where the pipeline is small enough.
    Auto,
    /// Always, or say why not.
    Always,
    /// Never.
    Never,
}

/// Columns of a table under noise.
const NOISE_FREE: [&str; 2] = ["noise-free span", "noise-free bubble"];

/// Width of a drawing in the terminal, in columns.
const COLUMNS: usize = 120;

#[derive(Serialize)]
struct Results<'a> {
    results: Vec<Json<'a>>,
}

impl Simulate {
    /// Answers on `out`.
    pub fn run(self, out: &mut dyn Write) -> Result<(), Error> {
        let scenario = self.asked.read()?;
        let mut outcomes = outcomes(&scenario)?;
        if self.explain || self.explain_svg.is_some() {
            for outcome in &mut outcomes {
                outcome.explanation = Some(Explanation::of(outcome)?);
            }
        }
        let outcomes = outcomes;
        let single = [("--trace", &self.trace), ("--timeline", &self.timeline)];
        let asked = single.into_iter().find(|(_, path)| path.is_some());
        if let Some((flag, _)) = asked.filter(|_| outcomes.len() != 1) {
            let message = format!("{flag} takes one timeline, but there are {}", outcomes.len());
            return Err(Error::question(message));
        }
        let drawn = self.svg.is_some() || self.trace.is_some();
        let small = |outcome: &Outcome| outcome.case.schedule.passes() < COLUMNS * 16;
        let in_terminal = |outcome: &Outcome| match self.gantt {
            Draw::Always => true,
            Draw::Auto => !self.json && small(outcome) && outcomes.len() <= 4,
            Draw::Never => false,
        };
        let timelines = outcomes
            .iter()
            .map(|outcome| match drawn || in_terminal(outcome) {
                true => outcome::timeline(outcome).map(Some),
                false => Ok(None),
            })
            .collect::<Result<Vec<_>, _>>()?;
        self.write_files(&outcomes, &timelines)?;
        if self.json {
            let results = outcomes.iter().map(Outcome::json).collect();
            print_json(out, &Results { results })?;
        } else {
            print_tables(out, &outcomes)?;
        }
        for (outcome, timeline) in outcomes.iter().zip(&timelines) {
            if let Some(timeline) = timeline.as_ref().filter(|_| in_terminal(outcome)) {
                self.draw(out, outcome, timeline)?;
            }
        }
        Ok(())
    }

    /// The picture and the trace, if asked for.
    fn write_files(&self, outcomes: &[Outcome], drawn: &[Option<Timeline>]) -> Result<(), Error> {
        if let Some(path) = &self.svg {
            let titles: Vec<String> = outcomes.iter().map(title).collect();
            let charts = titles.iter().zip(drawn.iter().flatten());
            let charts: Vec<_> = charts
                .map(|(title, timeline)| gantt::Chart { title, timeline, row: "stage" })
                .collect();
            files::write(path, gantt::svg(&charts)?)?;
        }
        if let Some(path) = &self.explain_svg {
            files::write(path, pictures::tornado(outcomes)?)?;
        }
        if let Some(path) = &self.html {
            files::write(path, pictures::page(outcomes)?)?;
        }
        if let (Some(path), [outcome]) = (&self.timeline, outcomes) {
            timelines::write(path, &Recorded::predicted(outcome)?)?;
        }
        if let (Some(path), [Some(timeline)]) = (&self.trace, drawn) {
            let mut json = Vec::new();
            outcome::write_trace(&mut json, &outcomes[0], &title(&outcomes[0]), timeline)?;
            files::write(path, json)?;
        }
        Ok(())
    }

    fn draw(
        &self,
        out: &mut dyn Write,
        outcome: &Outcome,
        timeline: &Timeline,
    ) -> Result<(), Error> {
        match terminal::gantt(timeline, COLUMNS) {
            // JSON on stdout must stay JSON.
            Some(drawing) if self.json => eprintln!("{}\n{drawing}", title(outcome)),
            Some(drawing) => writeln!(out, "\n{}\n{drawing}", title(outcome))?,
            None if self.gantt == Draw::Always => {
                note(&format!("{} is too large for the terminal: use --svg", title(outcome)));
            }
            None => {}
        }
        Ok(())
    }
}

/// Simulates every schedule of every setting, and notes what had no influence.
fn outcomes(scenario: &Scenario) -> Result<Vec<Outcome>, Error> {
    let mut questions = Vec::new();
    let mut notes = Notes::default();
    for setting in &scenario.settings {
        notes.add_assumed(setting);
        for rule in question::rules(scenario, setting)? {
            notes.add_ignored(setting, &rule);
            questions.push((setting, rule));
        }
    }
    let bar = progress::bar(questions.len(), "schedules");
    let mut replay = Replay::new();
    let mut outcomes = Vec::new();
    for (setting, rule) in questions {
        let case = question::case(scenario, setting, &rule)?;
        notes.add_idle_links(setting, &case);
        outcomes.push(Outcome::of(case, &mut replay)?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    notes.print();
    run_replicas(&mut outcomes)?;
    Ok(outcomes)
}

/// Runs the replicas that were asked for.
fn run_replicas(outcomes: &mut [Outcome]) -> Result<(), Error> {
    let total = outcomes.iter().filter_map(Outcome::asked_replicas).sum::<u64>();
    let bar = progress::bar(usize::try_from(total).unwrap_or(usize::MAX), "replicas");
    outcomes.iter_mut().try_for_each(|outcome| outcome.run_replicas(|| bar.inc(1)))?;
    bar.finish_and_clear();
    Ok(())
}

fn print_tables(out: &mut dyn Write, outcomes: &[Outcome]) -> Result<(), Error> {
    let named = outcomes.iter().any(|outcome| outcome.case.setting.is_some());
    let limited = outcomes.iter().any(|outcome| outcome.case.limits.is_some());
    let mut header = vec!["schedule", "p", "m", "v", "span", "bubble"];
    header.extend(["makespan", "bubble/makespan"]);
    header.extend(["peak/M_B", "on stage"]);
    if outcomes.iter().any(|outcome| outcome.noise_free.is_some()) {
        header.extend(NOISE_FREE);
    }
    if outcomes.iter().any(|outcome| outcome.case.has_footprints) {
        header.push("peak memory");
    }
    if limited {
        header.push("fits");
    }
    if named {
        header.insert(0, "setting");
    }
    let rows = outcomes.iter().map(|outcome| row(outcome, &header));
    write!(out, "{}", format::table(&header, rows))?;
    print_stages(out, outcomes)?;
    print_hardware(out, outcomes)?;
    print_replicas(out, outcomes)?;
    for outcome in outcomes {
        if let Some(explanation) = &outcome.explanation {
            write!(out, "\n{}", why::text(&title(outcome), explanation))?;
        }
    }
    Ok(())
}

/// What the runs did to the hardware.
fn print_hardware(out: &mut dyn Write, outcomes: &[Outcome]) -> Result<(), Error> {
    let runs = outcomes.iter().filter_map(|outcome| {
        Some((outcome, outcome.case.hardware.as_ref()?, outcome.report.as_ref()?))
    });
    let row = |(outcome, hardware, report): (&Outcome, &Hardware, &Report)| {
        [title(outcome)].into_iter().chain(report.row(hardware)).collect()
    };
    let rows: Vec<Vec<String>> = runs.map(row).collect();
    if rows.is_empty() {
        return Ok(());
    }
    let header: Vec<&str> = ["on hardware"].into_iter().chain(HEADER).collect();
    Ok(write!(out, "\n{}", format::table(&header, rows))?)
}

/// What the replicas came to: a table of the span and one of the bubble.
fn print_replicas(out: &mut dyn Write, outcomes: &[Outcome]) -> Result<(), Error> {
    type Row = fn(&Metrics, &MonteCarlo) -> [String; 5];
    let tables: [(&str, Row); 2] = [("span", report::spans), ("bubble", report::bubbles)];
    let asked: Vec<_> = outcomes
        .iter()
        .filter_map(|outcome| {
            Some((outcome, outcome.noise_free.as_ref()?, outcome.monte_carlo.as_ref()?))
        })
        .collect();
    let Some((_, _, first)) = asked.first() else { return Ok(()) };
    for (what, row) in tables {
        let corner = format!("{what}, {} replicas [95 %]", first.replicas);
        let header: Vec<&str> = [&corner[..]].into_iter().chain(report::COLUMNS).collect();
        let rows = asked.iter().map(|(outcome, noise_free, all)| {
            [title(outcome)].into_iter().chain(row(noise_free, all)).collect()
        });
        write!(out, "\n{}", format::table(&header, rows))?;
    }
    Ok(())
}

fn row(outcome: &Outcome, header: &[&str]) -> Vec<String> {
    let (case, metrics) = (&outcome.case, &outcome.metrics);
    let shape = case.schedule.shape();
    let (stage, peak) = outcome.worst();
    let mut row = Vec::new();
    if header.contains(&"setting") {
        row.push(case.setting.clone().unwrap_or_default());
    }
    row.extend([
        case.name.clone(),
        shape.stages().to_string(),
        case.microbatches().to_string(),
        shape.chunks_per_stage().to_string(),
        format::time(metrics.span()),
        format::percent(metrics.bubble_rate()),
        format::time(metrics.makespan()),
        format::percent(metrics.bubble_rate_makespan()),
        format!("{:.2}", outcome.in_microbatches(peak)),
        stage.to_string(),
    ]);
    if header.contains(&NOISE_FREE[0]) {
        let noise_free = outcome.noise_free.as_ref().unwrap_or(metrics);
        row.push(format::time(noise_free.span()));
        row.push(format::percent(noise_free.bubble_rate()));
    }
    if header.contains(&"peak memory") {
        row.push(if case.has_footprints { format::size(peak) } else { "-".to_owned() });
    }
    if header.contains(&"fits") {
        row.push(case.limits.as_ref().map_or("-".to_owned(), |limits| fits(outcome, limits)));
    }
    row
}

/// Whether every stage keeps its limit, or the limit that one does not keep.
fn fits(outcome: &Outcome, limits: &Limits) -> String {
    let Some((stage, _)) = outcome.memory.over(limits) else { return "yes".to_owned() };
    let limit = outcome.in_microbatches(limits.of(stage));
    match limits.same() {
        Some(_) => format!("no: limit {limit:.2} M_B"),
        None => format!("no: limit {limit:.2} M_B on stage {stage}"),
    }
}

/// The peak of every stage, where they fit on a line.
fn print_stages(out: &mut dyn Write, outcomes: &[Outcome]) -> Result<(), Error> {
    const MOST: usize = 16;
    let stages = outcomes.iter().map(|outcome| outcome.memory.peak.len()).max().unwrap_or(0);
    let settings = outcomes.iter().any(|outcome| outcome.case.setting.is_some());
    if stages > MOST || settings {
        return Ok(());
    }
    let header = ["peak/M_B, stage".to_owned()].into_iter();
    let header: Vec<String> = header.chain((0..stages).map(|stage| stage.to_string())).collect();
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let rows = outcomes.iter().map(|outcome| {
        let peaks = outcome.memory.peak.iter();
        let peaks = peaks.map(|&peak| format!("{:.2}", outcome.in_microbatches(peak)));
        std::iter::once(outcome.case.name.clone()).chain(peaks).collect()
    });
    Ok(write!(out, "\n{}", format::table(&header, rows))?)
}
