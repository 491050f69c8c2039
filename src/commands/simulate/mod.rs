//! `debubble simulate`: schedules side by side.

mod headroom;

use std::borrow::Cow;
use std::io::Write;
use std::path::PathBuf;

use answer::outcome::{self, Outcome, title};
use answer::simulate::baseline::{Baseline, Growth, Tolerance};
use answer::simulate::{Answers, Timelines, Wants, report, simulate};
use answer::sweep::row;
use answer::timelines::{self, Recorded};
use clap::{Args, ValueEnum};
use draw::pictures::simulate::Traced;
use draw::pictures::{explain as pictures, simulate as front};
use draw::terminal;
use pipeline::Timeline;
use question::simulate::Sort;
use question::{Context, Diagnostic};
use serde::Serialize;

use super::width::Pictures;
use super::{Asked, OUTPUT, Verdict, note, note_all, print_json, print_sheet};
use crate::error::Error;
use crate::host::Host;
use crate::{files, help, messages};

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
  A step with a slow GPU, a slow link and jitter, over 1,000 draws:
    debubble simulate --stages 8 --microbatches 32 --schedule 1f1b,zb-h1,zb-2p \\
      --forward 10ms --backward-input 10ms --backward-weight 8ms --hop 500us \\
      --slowdown stage:3=1.2,link:2-3=4 --jitter pass=lognormal:0.05,hop=pareto:2.5 \\
      --stall 0.001:50ms --seed 1 --replicas 1000
  Half of the activations on the host between forward and backward, over PCIe:
    debubble simulate --stages 8 --microbatches 32 --schedule gis-h,po-h,po-f --chunks 4 \\
      --forward 30ms --backward-input 30ms --backward-weight 20ms --activation 1GiB \\
      --host-bandwidth 15GB/s
  GPipe as published: activations are discarded, and recomputed before B:
    debubble simulate --stages 8 --microbatches 32 --schedule gpipe,1f1b --forward 20ms \\
      --backward 40ms --layers-per-stage 8 --microbatch-size 2 --hidden 4096 --heads 32 \\
      --seq 2048 --recompute full
  Every schedule, with the Pareto front of bubble against peak memory:
    debubble simulate scenarios/all.toml --sort bubble --pareto all.svg
  Causes of waiting, and the gain of each change:
    debubble simulate --stages 4 --microbatches 8 --schedule 1f1b,zb-h1 --hop 500us \\
      --forward 10ms,10ms,10ms,14ms --backward-input 10ms --backward-weight 8ms --explain
  In CI, exit 1 if a step, a bubble or peak memory has grown since an answer that was stored:
    debubble simulate scenarios/gantt.toml --json > baseline.json
    debubble simulate scenarios/gantt.toml --baseline baseline.json --tolerance 0.1%

Each order is built from the nominal times, without noise. Noise depends on the seed, the replica, and the pass
or transfer alone: all schedules see the same random draws.

--schedule all compares every family on the same model, m and work of a stage: v chunks divide F, B, W and the
activations of a stage by v. Schedules that do not support this setting are listed below the table with the
reason; a schedule that is named together with `all` must support it. Schedules over the memory limit stay in
the table and are left off the front.

--explain splits the idle time of each stage: the step, less its passes, less its optimizer. The step is
the longest span of a stage; on hardware, the last step with everything between two steps. Causes are removed in
turn from runs of the same order; each is credited with the idle time saved:
  stragglers, jitter:
      without, every pass and transfer takes its nominal time
  synchronisation:
      the barrier and its exchange, post-validation with rollbacks, and delays from earlier steps; without, each stage's step lasts from its own first pass to the end of its own optimizer
  memory waits:
      without, memory is unlimited, and nothing is offloaded
  shared links:
      without, every transfer takes its time on an idle network
  communication:
      without, values arrive at once, and gradients are reduced at once
  unequal stages:
      without, all chunks take the average of F, of B and of W
  warm-up, drain:
      the rest
Shares are negative where a cause hides waiting. Levers change one thing of the
same step: 5 % slower multiplies the stage's passes by 1.05, a link twice as fast halves its transfers, 1 GiB more
raises the limit of that stage alone and builds a new order. Under noise all figures are of replica 0.";

/// Simulate schedules side by side: step time, bubble, peak memory
#[derive(Args)]
#[command(after_long_help = help::flow(EXAMPLES))]
pub struct Simulate {
    #[command(flatten)]
    asked: Asked,
    /// Say why stages wait: idle time by cause, the critical path, and what each change would save
    #[arg(long, help_heading = OUTPUT)]
    explain: bool,
    /// Write a picture of what each change would save; explains too
    #[arg(long, help_heading = OUTPUT, value_name = "FILE.svg")]
    #[arg(value_parser = files::Output)]
    explain_svg: Option<PathBuf>,
    /// Print one JSON object instead of tables
    #[arg(long, help_heading = OUTPUT)]
    json: bool,
    /// Compare with an earlier answer of --json: exit with code 1 if a span, a bubble or a peak of a
    /// schedule has grown, or a schedule is gone
    #[arg(long, help_heading = OUTPUT, value_name = "FILE.json")]
    baseline: Option<PathBuf>,
    /// Tolerated growth since the baseline: this share for times and sizes, this many points for bubbles
    #[arg(long, help_heading = OUTPUT, value_name = "PERCENT%", requires = "baseline")]
    #[arg(default_value = "0%", allow_hyphen_values = true)]
    tolerance: Tolerance,
    /// Order of the rows of a setting, ascending, asynchronous schedules last; by default in the order of --schedule
    #[arg(long, help_heading = OUTPUT, value_enum, value_name = "BY")]
    sort: Option<Sort>,
    /// Write a picture of bubble rate against peak activation memory, with the Pareto front
    #[arg(long, help_heading = OUTPUT, value_name = "FILE.svg")]
    #[arg(value_parser = files::Output)]
    pareto: Option<PathBuf>,
    /// Draw the timelines in the terminal
    #[arg(long, help_heading = OUTPUT, value_enum, default_value_t = Draw::Auto)]
    gantt: Draw,
    /// Write the table as CSV, with the columns of `debubble sweep`
    #[arg(long, help_heading = OUTPUT, value_name = "FILE.csv")]
    #[arg(value_parser = files::Output)]
    csv: Option<PathBuf>,
    /// Write a picture of the timelines, on one time axis
    #[arg(long, help_heading = OUTPUT, value_name = "FILE.svg")]
    #[arg(value_parser = files::Output)]
    svg: Option<PathBuf>,
    #[command(flatten)]
    drawn: Pictures,
    /// Write a page that zooms into the timelines, with memory and links, for a browser
    #[arg(long, help_heading = OUTPUT, value_name = "FILE.html")]
    #[arg(value_parser = files::Output)]
    html: Option<PathBuf>,
    /// Write the timeline for Perfetto or chrome://tracing; one schedule and setting only
    #[arg(long, help_heading = OUTPUT, value_name = "FILE.json")]
    #[arg(value_parser = files::Output)]
    trace: Option<PathBuf>,
    /// Write the timeline for `debubble compare`; one schedule and setting only
    #[arg(long, help_heading = OUTPUT, value_name = "FILE.json")]
    #[arg(value_parser = files::Output)]
    timeline: Option<PathBuf>,
}

/// The answers, and their comparison with earlier ones.
#[derive(Serialize)]
struct AnswersWithBaseline<'a> {
    #[serde(flatten)]
    answers: &'a Answers,
    #[serde(skip_serializing_if = "Option::is_none")]
    baseline: Option<&'a Growth>,
}

/// When to draw in the terminal.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Draw {
    /// Where the pipeline is small enough.
    Auto,
    /// Always: of what is too large, the first part.
    Always,
    /// Never.
    Never,
}

/// Width of a drawing in the terminal, in columns.
const COLUMNS: usize = 120;

/// A timeline of fewer passes is drawn in the terminal if nothing is said of it.
const SMALL: usize = COLUMNS * 16;

impl Simulate {
    /// Answers on `out`.
    pub fn run(self, out: &mut dyn Write) -> Result<Verdict, Error> {
        let host = Host::listening();
        let context = Context::new(&host);
        let baseline = self.baseline.as_deref().map(|path| Baseline::read(&context, path));
        let baseline = baseline.transpose()?;
        let answers = self.answers(&context);
        note_all(&context);
        let (title, answers) = answers?;
        if answers.interrupted {
            note("interrupted: the answer lacks what had not been simulated or explained");
        }
        let growth = baseline.map(|baseline| baseline.held_against(&answers, self.tolerance));
        self.write(
            out,
            title.as_deref(),
            &AnswersWithBaseline { answers: &answers, baseline: growth.as_ref() },
        )?;
        match growth.as_ref().and_then(Growth::fault) {
            Some(fault) => {
                note(&fault);
                Ok(Verdict::Missed)
            }
            None => Ok(Verdict::Done),
        }
    }

    fn answers(&self, context: &Context<'_>) -> Result<(Option<String>, Answers), Diagnostic> {
        let scenario = self.asked.read(context)?;
        if self.pareto.is_some() {
            front::check(scenario.settings.len())?;
        }
        Ok((scenario.title.clone(), simulate(context, &scenario, self.wants())?))
    }

    /// The details that all that was asked for needs.
    fn wants(&self) -> Wants {
        let timelines = match self.gantt {
            _ if self.svg.is_some() => Timelines::All,
            Draw::Always => Timelines::All,
            Draw::Auto if !self.json => Timelines::Below(SMALL),
            Draw::Auto | Draw::Never => Timelines::None,
        };
        let files = [&self.html, &self.trace, &self.timeline];
        Wants {
            explanation: self.explain || self.explain_svg.is_some(),
            gaps: self.html.is_some(),
            timelines,
            runs: files.into_iter().any(Option::is_some),
            front: self.pareto.is_some(),
            sort: self.sort,
            partial: false,
            figures_alone: true,
        }
    }

    /// Writes all that was asked for.
    fn write(
        &self,
        out: &mut dyn Write,
        title: Option<&str>,
        printed: &AnswersWithBaseline<'_>,
    ) -> Result<(), Error> {
        let answers = printed.answers;
        let outcomes = &answers.outcomes;
        let single = [("--trace", &self.trace), ("--timeline", &self.timeline)];
        let asked = single.into_iter().find(|(_, path)| path.is_some());
        if let Some((flag, _)) = asked.filter(|_| outcomes.len() != 1) {
            let message = format!("{flag} takes one timeline, but there are {}", outcomes.len());
            return Err(Error::question(message));
        }
        headroom::check(self, outcomes)?;
        let drawn = self.svg.is_some();
        let in_terminal = |outcome: &Outcome| match self.gantt {
            Draw::Always => true,
            Draw::Auto => !self.json && outcome.case.passes() < SMALL && outcomes.len() <= 4,
            Draw::Never => false,
        };
        let timelines = outcomes
            .iter()
            .map(|outcome| match drawn || in_terminal(outcome) {
                true => outcome::timeline(outcome).map(Some),
                false => Ok(None),
            })
            .collect::<Result<Vec<_>, _>>()?;
        self.write_files(title, answers, &timelines)?;
        if let Some(path) = &self.csv {
            files::write(path, row::of_outcomes(outcomes))?;
        }
        if let Some(path) = &self.pareto {
            files::write(path, front::svg(title, answers, self.drawn.width)?)?;
        }
        if self.json {
            print_json(out, printed)?;
        } else {
            let growth = printed.baseline.map(|growth| growth.sheet().under_a_gap());
            let sheet = report::sheet(answers).and(growth.unwrap_or_default());
            print_sheet(out, &sheet)?;
        }
        for (outcome, timeline) in outcomes.iter().zip(&timelines) {
            if let Some(timeline) = timeline.as_ref().filter(|_| in_terminal(outcome)) {
                self.draw(out, outcome, timeline)?;
            }
        }
        Ok(())
    }

    /// The files of timelines and explanations that were asked for.
    fn write_files(
        &self,
        title_of_all: Option<&str>,
        answers: &Answers,
        drawn: &[Option<Cow<'_, Timeline>>],
    ) -> Result<(), Error> {
        let outcomes = &answers.outcomes[..];
        if let Some(path) = &self.svg {
            let timed = outcomes.iter().zip(drawn.iter().flatten().map(|one| &**one));
            files::write(path, front::timelines_of(title_of_all, timed, self.drawn.width)?)?;
        }
        if let Some(path) = &self.explain_svg {
            files::write(path, pictures::tornado(outcomes, self.drawn.width)?)?;
        }
        if let Some(path) = &self.html {
            let page = pictures::page(answers)?;
            if let Some(left_out) = &page.left_out {
                note(&format!("--html: {left_out}"));
            }
            files::write(path, page.html)?;
        }
        if let (Some(path), [outcome]) = (&self.timeline, outcomes) {
            files::write(path, timelines::bytes(&Recorded::predicted(outcome)?)?)?;
        }
        if let (Some(path), [outcome]) = (&self.trace, outcomes) {
            files::write(path, Traced::of(outcome, &title(outcome))?.bytes()?)?;
        }
        Ok(())
    }

    fn draw(
        &self,
        out: &mut dyn Write,
        outcome: &Outcome,
        timeline: &Timeline,
    ) -> Result<(), Error> {
        let whole = terminal::gantt(timeline, COLUMNS);
        let drawing = match self.gantt {
            Draw::Always => whole.or_else(|| terminal::first_part(timeline, COLUMNS)),
            Draw::Auto | Draw::Never => whole,
        };
        match drawing {
            // JSON on stdout must stay JSON.
            Some(drawing) if self.json => {
                messages::print(&format!("{}\n{drawing}\n", title(outcome)));
            }
            Some(drawing) => writeln!(out, "\n{}\n{drawing}", title(outcome))?,
            None => {}
        }
        Ok(())
    }
}
