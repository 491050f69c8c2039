//! Bubble rate over the memory limit for the times of a question, as figure 9 of the Zero Bubble paper has it,
//! point by point.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use answer::simulate::{Wants, simulate};
use draw::plot::lines::{self, Dot, LineChart, LinePanel};
use pipeline::Limit;
use question::keys::Keys;
use question::scenario::Scenario;
use question::{Context, Diagnostic, format, keywords, object};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::limits;
use crate::text::scenario;

/// The most limits of a figure.
const MOST_LIMITS: u64 = 200;

/// A range of memory limits, as an axis of a sweep has them.
#[derive(Deserialize)]
pub(crate) struct Limits {
    from: String,
    to: String,
    step: String,
}

impl Limits {
    /// All of them.
    pub(crate) fn answer(self) -> Result<impl Serialize, Diagnostic> {
        let Self { from, to, step } = self;
        let range = json!({ "from": from, "to": to, "step": step });
        let text = keywords::written(&json!({ "sweep": { "memory-limit": range } }))?;
        let host = BTreeMap::from([(PathBuf::from(RANGE), text.into_bytes())]);
        let (_, axes) = Scenario::read_sweep(&Context::new(&host), Path::new(RANGE))?;
        let axis = axes.into_iter().flatten().next();
        let axis = axis.ok_or_else(|| Diagnostic::new("there are no memory limits"))?;
        if axis.count() > MOST_LIMITS {
            let message = format!("{} memory limits: at most {MOST_LIMITS}", axis.count());
            return Err(Diagnostic::new(message).with_help("make the step larger"));
        }
        Ok(object!([limits] = (0..axis.count()).map(|at| axis.label(at).into_owned())))
    }
}

/// The name of the axis in errors.
const RANGE: &str = "memory-limits.toml";

/// A point that is wanted.
#[derive(Deserialize)]
pub(crate) struct Point {
    /// The scenario.
    text: String,
    schedule: String,
    limit: String,
}

/// A point: the bubble of a schedule under a limit.
#[derive(Serialize, Deserialize)]
pub(crate) struct At {
    limit: String,
    /// The bubble rate, and the same in words.
    bubble_rate: f64,
    bubble: String,
    span_ns: u64,
    peak_microbatches: f64,
    /// Whether the schedule keeps the limit.
    fits: bool,
}

impl Point {
    /// Answers it.
    pub(crate) fn answer(self, context: &Context<'_>) -> Result<At, Diagnostic> {
        let limit: Limit = read(&self.limit)?;
        let flags = Keys {
            schedule: Some(vec![self.schedule]),
            memory_limit: Some(vec![limit]),
            ..Keys::default()
        };
        let scenario = scenario(context, self.text)?.with(context, &flags)?;
        limits::check_schedules(context, &scenario)?;
        let answers = simulate(context, &scenario, Wants::default())?;
        let [outcome] = &answers.outcomes[..] else {
            let message = "a figure of bubble against memory is of one setting";
            return Err(Diagnostic::new(message).with_help("take the other settings out"));
        };
        Ok(At {
            limit: self.limit,
            bubble_rate: outcome.metrics.bubble_rate(),
            bubble: format::percent(outcome.metrics.bubble_rate()),
            span_ns: outcome.metrics.span().0,
            peak_microbatches: outcome.in_microbatches(outcome.worst().1),
            fits: outcome.fits().unwrap_or(true),
        })
    }
}

fn read(limit: &str) -> Result<Limit, Diagnostic> {
    limit.parse().map_err(|error| Diagnostic::new(format!("{error}")).about("memory-limit"))
}

/// The points that there are.
#[derive(Deserialize)]
pub(crate) struct Figure {
    #[serde(default)]
    title: Option<String>,
    series: Vec<Series>,
}

/// The points of a schedule.
#[derive(Deserialize)]
struct Series {
    schedule: String,
    points: Vec<At>,
}

impl Figure {
    /// Draws it.
    pub(crate) fn answer(self) -> Result<impl Serialize, Diagnostic> {
        let limits = self.series.iter().flat_map(|one| &one.points).map(|at| read(&at.limit));
        let limits = limits.collect::<Result<Vec<_>, _>>()?;
        let axis = Axis::of(&limits);
        let dots = |series: &Series| {
            series.points.iter().map(|at| axis.dot(at)).collect::<Result<Vec<_>, Diagnostic>>()
        };
        let panel = LinePanel {
            title: String::new(),
            series: self.series.iter().map(dots).collect::<Result<_, _>>()?,
        };
        let svg = lines::svg(&LineChart {
            title: self.title.as_deref().unwrap_or(TITLE).to_owned(),
            x_label: format!("memory limit, in {}", axis.unit()),
            y_label: "bubble rate".to_owned(),
            series: self.series.iter().map(|one| one.schedule.clone()).collect(),
            beside: String::new(),
            columns: 1,
            same_scale: true,
            width: None,
            panels: vec![panel],
        })?;
        let lines = self.series.iter().flat_map(|one| one.points.iter().map(move |at| (one, at)));
        let csv = answer::csv(lines.map(|(one, at)| {
            object!(
                memory_limit = &at.limit,
                schedule = &one.schedule,
                bubble_rate = at.bubble_rate,
                span_ns = at.span_ns,
                peak_microbatches = at.peak_microbatches,
                fits = at.fits,
            )
        }))?;
        Ok(object!(svg = svg, csv = crate::text::text(csv)))
    }
}

/// The title of a figure that has none.
const TITLE: &str = "Bubble rate over the memory limit";

/// The axis of the limits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Axis {
    /// Multiples of the activations of p microbatches.
    TimesP,
    /// Bytes, by the gibibyte.
    Bytes,
}

impl Axis {
    fn of(limits: &[Limit]) -> Self {
        let bytes = limits.iter().any(|limit| matches!(limit, Limit::Bytes(_)));
        if bytes { Self::Bytes } else { Self::TimesP }
    }

    const fn unit(self) -> &'static str {
        match self {
            Self::TimesP => "p M_B",
            Self::Bytes => "GiB",
        }
    }

    #[allow(clippy::cast_precision_loss)]
    fn dot(self, at: &At) -> Result<Dot, Diagnostic> {
        let x = match (self, read(&at.limit)?) {
            (Self::TimesP, Limit::TimesP { millionths }) => millionths as f64 / 1e6,
            (Self::Bytes, Limit::Bytes(bytes)) => bytes.0 as f64 / f64::from(1u32 << 30),
            _ => {
                let message = "limits in bytes and in multiples of p share no axis";
                return Err(Diagnostic::new(message).about("memory-limit"));
            }
        };
        Ok(Dot { fits: at.fits, ..Dot::new(x, at.bubble_rate) })
    }
}
